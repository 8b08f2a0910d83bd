package standard

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// An Upstream is what was learned of one upstream.
type Upstream struct {
	Name string
	// URL is where it is, complete with /v1.
	URL string
	// Engine is the server that it is, such as Ollama; empty if not recognised.
	Engine string
	// Protocol is what will be spoken to it.
	Protocol config.Protocol
	// Why is how the protocol was found; empty if the configuration says it.
	Why string
	// Models are what it lists.
	Models []upstream.Model
	// UpTo holds the models whose ContextWindow is only the most that the server
	// could give them: how much it does give shows when it loads them.
	UpTo map[string]bool
	// Err is why it lists none; nil if it answered. It can be shown.
	Err error

	asked config.Upstream // what the configuration said of it
}

// remember replaces what could not be learned now by what is known from before.
func (r *Report) remember(known *Report) {
	if known == nil {
		return
	}
	for i, now := range r.Upstreams {
		for _, before := range known.Upstreams {
			if now.Err != nil && before.Err == nil && before.Name == now.Name && reflect.DeepEqual(before.asked, now.asked) {
				r.Upstreams[i] = before
			}
		}
	}
}

// A surveyor asks upstreams what they are. It is for one use.
type surveyor struct {
	client *http.Client
	time   time.Duration // zero means 2 s
}

// maxProbes is how many upstreams are asked at once.
const maxProbes = 32

// survey asks all upstreams of c at the same time and returns what was learned
// when the last has answered or the time is over.
func (s *surveyor) survey(ctx context.Context, c *config.Config) []Upstream {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.time, 2*time.Second))
	defer cancel()
	names := slices.Sorted(maps.Keys(c.Upstreams))
	found := make([]Upstream, len(names))
	slots := make(chan struct{}, maxProbes)
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			found[i] = s.ask(ctx, name, c.Upstreams[name])
		})
	}
	wg.Wait()
	return found
}

// ask learns what can be learned of one upstream.
func (s *surveyor) ask(ctx context.Context, name string, u config.Upstream) Upstream {
	found := Upstream{Name: name, URL: u.URL, Protocol: u.Protocol, asked: u}
	if u.Protocol == config.ProtocolCodex {
		return s.askProgram(ctx, found, u)
	}
	e, err := endpoint(u, s.client)
	if err != nil {
		found.Err = err
		return found
	}
	found.URL = e.Base.String()
	p := prober{endpoint: e, client: cmp.Or(s.client, probeClient)}

	// An answer to POST …/responses is waited for while the models are listed.
	answered := make(chan int, 1)
	if u.Protocol == "" {
		go func() { answered <- p.askResponses(ctx) }()
	}
	found.Models, err = listModels(ctx, u, s.client)
	if err != nil {
		found.Err = explain(ctx, err)
	}
	found.Engine = engine(found.Models)
	if u.Protocol == "" {
		if found.Engine == "" && err == nil && p.isOllama(ctx) {
			found.Engine = ollama
		}
		found.Protocol, found.Why = decide(<-answered, found.Engine)
	}
	found.UpTo = p.windows(ctx, found.Engine, found.Models)
	return found
}

// listModels asks for the models as the protocol's driver does.
func listModels(ctx context.Context, u config.Upstream, client *http.Client) ([]upstream.Model, error) {
	u.Protocol = cmp.Or(u.Protocol, config.ProtocolChat)
	d, err := newDriver("", u, &Options{Client: client}, nil)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	lister, ok := d.(upstream.ModelLister)
	if !ok {
		return nil, nil
	}
	return lister.Models(ctx)
}

// explain turns the failure of a probe into a sentence for the operator.
func explain(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return errors.New("no answer in time")
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("connection refused")
	}
	if e, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("it cannot be reached: %w", e.Err)
	}
	if e, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return e
	}
	return errors.New(responses.AsError(err).Message)
}
