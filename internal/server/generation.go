package server

import (
	"context"
	"net/netip"
	"sync"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/internal/route"
	"github.com/antiphon-dev/antiphon/upstream"
)

// A Router finds upstreams for models.
type Router interface {
	engine.Opener
	Models(ctx context.Context) ([]upstream.Model, error)
}

// A Generation is what one configuration decides. It is immutable: a new
// configuration is a new generation, and a request keeps the one that it began
// with to its end.
type Generation struct {
	Router Router
	// Strict serves known paths only, and of requests and answers only what is
	// published. The router must sanitize all of its upstreams.
	Strict bool
	// Keys are who may use the API. Nil means everybody, as one tenant; pages of
	// the web are then kept out by their origin.
	Keys *Keyring
	// Authenticate, if not nil, decides instead of Keys. Pages of the web are kept
	// out as if there were no keys: what it looks at may be a cookie, which browsers
	// send for every page.
	Authenticate AuthenticateFunc
	// Transform, if not nil, may change requests before they are routed.
	Transform TransformFunc
	// Tools is what the gateway runs itself. Nil means nothing.
	Tools *engine.Toolkit
	// Rules send some requests to another model than they name. Nil means none.
	Rules *route.Rules
	// OutputMode is for clients that ask for none.
	OutputMode engine.OutputMode
	// Origins are the pages that may use the API from a browser. Nil means those of
	// this machine.
	Origins *Origins
	// TrustedProxies are the networks whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix

	requests sync.WaitGroup // those that hold it
}

// generations hands out the current generation. The lock is what lets Wait be
// called on the old one: nobody takes it any more once it was replaced.
type generations struct {
	mu      sync.RWMutex
	current *Generation
}

func (g *generations) take() *Generation {
	g.mu.RLock()
	defer g.mu.RUnlock()
	g.current.requests.Add(1)
	return g.current
}

func (g *generations) replace(next *Generation) (old *Generation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	old, g.current = g.current, next
	return old
}

// Use makes next what new requests get. The returned function waits until the
// last request of the generation before it has ended.
func (s *Server) Use(next *Generation) (drained func()) {
	old := s.generations.replace(next)
	return old.requests.Wait
}
