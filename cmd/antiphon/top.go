package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/antiphon-dev/antiphon/internal/promtext"
)

// topFlags are the flags of antiphon top as they were given.
type topFlags struct {
	admin, keyEnv, config string
	once                  bool
	interval              time.Duration
}

// topKeyEnv is the variable that holds the admin key if no other is named.
const topKeyEnv = "ANTIPHON_ADMIN_KEY"

func (p *program) topCommand() *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch a running gateway",
		Long: `Watch a running gateway: requests, time to the first token, tokens, failures by
their cause, the health of each upstream, open streams.

It reads the metrics of the gateway's admin address, which the configuration file
names under admin, and shows the last second, again and again, until it is
interrupted. Without a terminal it shows one second and ends.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.top(cmd.Context(), &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.admin, "admin", "", "the admin address is at `URL` (also ANTIPHON_ADMIN; default what --config says)")
	flags.StringVar(&f.keyEnv, "key-env", "", "the environment variable `NAME` holds the admin key (default "+topKeyEnv+")")
	flags.StringVar(&f.config, "config", "", "read the admin address and its key from `FILE` (also ANTIPHON_CONFIG)")
	flags.BoolVar(&f.once, "once", false, "show one second and end")
	flags.DurationVar(&f.interval, "interval", time.Second, "look so often")
	return cmd
}

// top shows the gateway until the context ends.
func (p *program) top(ctx context.Context, f *topFlags) error {
	if f.interval < 100*time.Millisecond {
		return usagef("--interval: %s is too short; the gateway has other things to do", f.interval)
	}
	s, err := p.scraper(f)
	if err != nil {
		return err
	}
	defer s.client.CloseIdleConnections()
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	before, err := s.scrape(ctx)
	if err != nil {
		return err
	}
	once := f.once || !isTerminal(p.stdout)
	tick := time.NewTicker(f.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, err := s.scrape(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && once:
			return err
		case err != nil: // it may be restarting
			err = redraw(p.stdout, "antiphon top · "+s.shown+"\n\n"+plain(err.Error())+"\n")
		case once:
			_, err = io.WriteString(p.stdout, newView(before, now).render(s.shown))
			return err
		default:
			err = redraw(p.stdout, newView(before, now).render(s.shown))
			before = now
		}
		if err != nil {
			return err
		}
	}
}

// redraw writes the text over the one before. Each line wipes what was longer
// there.
func redraw(w io.Writer, text string) error {
	_, err := io.WriteString(w, "\x1b[H"+strings.ReplaceAll(text, "\n", "\x1b[K\n")+"\x1b[J")
	return err
}

// A scraper reads the metrics of a gateway.
type scraper struct {
	url    string
	shown  string // the address without anything secret
	key    string
	client *http.Client
}

// scraper finds out where the gateway's metrics are.
func (p *program) scraper(f *topFlags) (*scraper, error) {
	address, _ := p.flagOrEnv(f.admin, "--admin", "ANTIPHON_ADMIN")
	path, _ := p.flagOrEnv(f.config, "--config", "ANTIPHON_CONFIG")
	key, err := p.topKey(f)
	switch {
	case err != nil:
		return nil, err
	case address == "" && path == "":
		return nil, usagef("where is the gateway? Name its admin address with --admin, or its file with --config")
	case address == "":
		c, err := loadConfig(path)
		if err != nil {
			return nil, err
		}
		if c.Admin.Listen == "" {
			return nil, fmt.Errorf("%s has no admin address; write admin: { listen: \"127.0.0.1:4101\" } into it and restart the gateway", path)
		}
		address = "http://" + dialable(c.Admin.Listen)
		if key == "" {
			key = c.Admin.Key.Reveal()
		}
	}
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usagef("--admin: that is not an address like http://127.0.0.1:4101")
	}
	shown := u.Scheme + "://" + u.Host
	u = u.JoinPath("metrics")
	return &scraper{url: u.String(), shown: shown, key: key, client: &http.Client{
		Timeout:       10 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxResponseHeaderBytes: 64 << 10},
	}}, nil
}

func (p *program) topKey(f *topFlags) (string, error) {
	if f.keyEnv == "" {
		return p.env(topKeyEnv), nil
	}
	key := p.env(f.keyEnv)
	if key == "" {
		return "", usagef("--key-env: the environment variable %s is not set", f.keyEnv)
	}
	return key, nil
}

// dialable is where to reach what listens on an address: one that is every address
// of this machine is reached by loopback.
func dialable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if addr, err := netip.ParseAddr(host); host == "" || err == nil && addr.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}

// A scrape is what the metrics said at a time.
type scrape struct {
	at      time.Time
	metrics *promtext.Metrics
}

func (s *scraper) scrape(ctx context.Context) (*scrape, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	if s.key != "" {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return nil, fmt.Errorf("no gateway answers at %s: %w", s.shown, err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return nil, fmt.Errorf("the gateway at %s wants its admin key; put it into %s, or name the file that has it with --config", s.shown, topKeyEnv)
	default:
		return nil, fmt.Errorf("there are no metrics at %s: the answer is %s; is that the address under admin in the configuration file?", s.shown, resp.Status)
	}
	m, err := promtext.Read(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("the metrics of %s are not understood: %w", s.shown, err)
	}
	return &scrape{time.Now(), m}, nil
}
