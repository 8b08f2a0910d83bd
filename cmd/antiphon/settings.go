package main

import (
	"cmp"
	"context"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/standard"
)

// serveFlags are the flags of antiphon serve as they were given. Other commands have
// those that say which upstreams there are.
type serveFlags struct {
	config    string
	listen    string
	upstreams []string
	protocol  string
	keyEnv    string
	log       string
	logLevel  string
}

func (f *serveFlags) register(cmd *cobra.Command) {
	f.registerUpstreams(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "", "serve on `ADDR` (also ANTIPHON_LISTEN; default "+config.DefaultListen+")")
	flags.StringVar(&f.log, "log", "", "access log on stderr: `text|json|off`; default text on a terminal, else json")
	flags.StringVar(&f.logLevel, "log-level", "", "leave out of the log what is below `debug|info|warn|error`; default info")
}

func (f *serveFlags) registerUpstreams(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "read the configuration from `FILE` (also ANTIPHON_CONFIG)")
	flags.StringArrayVar(&f.upstreams, "upstream", nil, "use the model server at `[NAME=]URL`; may be repeated")
	flags.StringVar(&f.protocol, "protocol", "", "what the --upstream speaks: `responses|chat`; asked for if not given")
	flags.StringVar(&f.keyEnv, "key-env", "", "the environment variable `NAME` holds the key for the --upstream")
}

// settings are what to serve, and where it came from.
type settings struct {
	config     *config.Config
	path       string              // of the file, "" if there is none
	discovered *standard.Discovery // not nil if nothing was said
}

// settings finds out what to serve: from the file, from flags, or by looking
// around.
func (p *program) settings(ctx context.Context, f *serveFlags) (*settings, error) {
	path, pathFrom := p.flagOrEnv(f.config, "--config", "ANTIPHON_CONFIG")
	listen, _ := p.flagOrEnv(f.listen, "--listen", "ANTIPHON_LISTEN")
	if err := p.checkFlags(f, path, pathFrom); err != nil {
		return nil, err
	}
	var s settings
	var err error
	switch {
	case path != "":
		s.path = path
		s.config, err = loadConfig(path)
	case len(f.upstreams) > 0:
		s.config, err = p.configFromFlags(f)
	default:
		s.discovered = standard.Discover(ctx, &standard.DiscoverOptions{
			Places: p.places, Listen: cmp.Or(listen, config.DefaultListen), LookupEnv: p.lookupEnv,
		})
		s.config = s.discovered.Config
		if len(s.config.Upstreams) == 0 {
			return nil, nothingFound(s.discovered)
		}
	}
	if err != nil {
		return nil, err
	}
	if listen != "" {
		s.config.Listen = listen
	}
	if key := p.env("ANTIPHON_KEY"); key != "" {
		if len(s.config.Auth.Keys) > 0 {
			return nil, usagef("ANTIPHON_KEY and auth.keys exclude each other; unset it, or write the key into the file")
		}
		s.config.Auth.Keys = []config.Key{{Name: "ANTIPHON_KEY", Key: config.Secret(key), Tenant: "default"}}
		keepKeyFrom(s.config.Upstreams)
	}
	return &s, s.config.Validate()
}

// keepKeyFrom makes upstreams that would get the client's own credential get none:
// what clients send is now the gateway's key.
func keepKeyFrom(upstreams map[string]config.Upstream) {
	for name, u := range upstreams {
		if u.Auth == config.AuthClient {
			u.Auth = config.AuthNone
			upstreams[name] = u
		}
	}
}

// checkFlags refuses what would otherwise be ignored.
func (p *program) checkFlags(f *serveFlags, path, pathFrom string) error {
	switch {
	case len(f.upstreams) > 0 && path != "":
		return usagef("--upstream and %s exclude each other; write the upstream into the file", pathFrom)
	case len(f.upstreams) == 0 && (f.protocol != "" || f.keyEnv != ""):
		return usagef("--protocol and --key-env are about an --upstream, and there is none")
	case len(f.upstreams) > 1 && f.keyEnv != "":
		return usagef("--key-env would send one key to several upstreams; use a configuration file")
	}
	return nil
}

// configFromFlags describes the gateway of the --upstream flags. A client's
// credential is passed on if there is no key for the upstream.
func (p *program) configFromFlags(f *serveFlags) (*config.Config, error) {
	u := config.Upstream{Protocol: config.Protocol(f.protocol), Auth: config.AuthClient}
	if f.keyEnv != "" {
		key := p.env(f.keyEnv)
		if key == "" {
			return nil, usagef("--key-env: the environment variable %s is not set", f.keyEnv)
		}
		u.APIKey, u.Auth = config.Secret(key), config.AuthBearer
	}
	c := config.Default()
	c.Upstreams = map[string]config.Upstream{}
	for _, arg := range f.upstreams {
		name, address := splitUpstream(arg)
		if _, taken := c.Upstreams[name]; taken {
			return nil, usagef("--upstream: two are called %s; write NAME=URL", name)
		}
		u.URL = address
		c.Upstreams[name] = u
	}
	return c, nil
}

// splitUpstream splits [NAME=]URL. Without a name the host is the name.
func splitUpstream(arg string) (name, address string) {
	name, address, named := strings.Cut(arg, "=")
	if named && !strings.Contains(name, "/") {
		return name, address
	}
	name = "upstream"
	if u, err := url.Parse(arg); err == nil && u.Host != "" {
		name = strings.NewReplacer("[", "", "]", "", ":", "-").Replace(u.Host)
	}
	return name, arg
}

// flagOrEnv returns a flag's value, or that of the variable that stands for it,
// and which of them it was.
func (p *program) flagOrEnv(value, flag, variable string) (got, from string) {
	if value != "" {
		return value, flag
	}
	return p.env(variable), variable
}

func (p *program) env(name string) string {
	v, _ := p.lookupEnv(name)
	return v
}
