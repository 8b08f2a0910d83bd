// Package route finds upstreams for models. A name that clients use stands for a
// pool of targets; the router tries a turn on them in order until one begins to
// answer, so that whoever opens turns through it need not know how many upstreams
// there are. It owns the only place where a turn is tried again.
//
//	name ── exact, or the longest pattern ──► pool ── order ──► try ──► try … ──► stream
//	                                           │ priority, weight, affinity     │
//	                                           └ health, limits ◄── outcome ────┘
//
// A turn moves on to another target only before its first event, and only for
// failures that are the target's: no connection, 5xx, 429, silence, an error
// inside the first events, a protocol that has no place for something. A target
// that fails again and again is ejected: it gets nothing but one probe after a
// while, which doubles with every probe that fails.
package route

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// Options configures [New]. The zero value is usable.
type Options struct {
	// Limits bound every turn.
	Limits upstream.Limits
	// Upstreams say how upstreams are treated, by name. One without an entry has
	// the zero value.
	Upstreams map[string]Upstream
	// Health says when targets are ejected.
	Health Health
	// Previous is the router that this one takes over from: what it knows of
	// the health and the load of targets is kept. Nil means none.
	Previous *Router
	// Observer is told of attempts. Nil means nobody.
	Observer Observer
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

// A Router opens turns on the upstreams of their models. What it knows of the
// health of targets changes; what it was configured with does not. It is safe for
// concurrent use.
type Router struct {
	upstreams  map[string]upstream.Driver
	settings   map[string]Upstream
	keepsState bool // some of the upstreams do
	models     map[string]Model
	names      names
	only       *pool // where every name goes if none is configured
	states     map[stateKey]*state
	budget     budget
	observer   Observer
	now        func() time.Time
}

// stateKey names a target across routers.
type stateKey struct{ upstream, model string }

// New returns a router over drivers. models maps the names that clients use, or
// patterns of them that end in a *, to targets; if it is empty and there is only
// one upstream, every name goes there as it is.
func New(drivers map[string]upstream.Driver, models map[string]Model, opts *Options) (*Router, error) {
	if opts == nil {
		opts = &Options{}
	}
	r := &Router{
		upstreams: make(map[string]upstream.Driver, len(drivers)),
		settings:  opts.Upstreams,
		models:    models,
		names:     names{exact: map[string]*pool{}, prefixes: map[string]*pool{}},
		states:    map[stateKey]*state{},
		budget:    budget{tokens: budgetMax},
		observer:  opts.Observer,
		now:       opts.Now,
	}
	if r.now == nil {
		r.now = time.Now
	}
	for name, d := range drivers {
		if opts.Upstreams[name].Sanitize {
			d = upstream.Sanitized(d)
		}
		r.upstreams[name] = upstream.Guard(d, opts.Limits)
	}
	for name, settings := range opts.Upstreams {
		if drivers[name] == nil {
			return nil, fmt.Errorf("there are settings for an upstream %q, which is not there", name)
		}
		r.keepsState = r.keepsState || settings.KeepsState
	}
	for name, m := range models {
		p, err := r.pool(m, opts)
		if err == nil {
			err = r.names.add(name, p)
		}
		if err != nil {
			return nil, fmt.Errorf("model %q: %w", name, err)
		}
	}
	if len(models) == 0 && len(drivers) == 1 {
		for name := range drivers {
			var err error
			if r.only, err = r.pool(To(name, ""), opts); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

func (r *Router) pool(m Model, opts *Options) (*pool, error) {
	if len(m.Targets) == 0 {
		return nil, errors.New("it has no targets")
	}
	p := &pool{Model: m}
	for _, t := range m.Targets {
		d := r.upstreams[t.Upstream]
		if d == nil {
			return nil, fmt.Errorf("there is no upstream %q", t.Upstream)
		}
		t.Weight, t.Priority = cmp.Or(t.Weight, 1), cmp.Or(t.Priority, 1)
		p.targets = append(p.targets, &target{Target: t, settings: opts.Upstreams[t.Upstream], driver: d, state: r.state(stateKey{t.Upstream, t.Model}, opts)})
	}
	return p, p.checkState()
}

// state returns what is known of a target. Pools that share a target share it.
func (r *Router) state(key stateKey, opts *Options) *state {
	if s := r.states[key]; s != nil {
		return s
	}
	var s *state
	if opts.Previous != nil {
		s = opts.Previous.states[key]
	}
	if s == nil {
		s = newState(key.upstream+"/"+key.model, opts.Health.withDefaults(), r.now)
	}
	r.states[key] = s
	return s
}

// Open implements the driver contract for any model. It returns when a target has
// accepted the turn; the stream is tentative while others may still be tried.
func (r *Router) Open(ctx context.Context, t *upstream.Turn) (*upstream.Stream, error) {
	name := t.Request.Model
	p, star, err := r.find(name)
	if err != nil {
		return nil, err
	}
	a := &attempts{r: r, pool: p, name: name, star: star, turn: *t}
	if p.shapes() {
		if a.turn.Request, err = p.shape(t.Request); err != nil {
			return nil, err
		}
	}
	r.budget.earn()
	a.tries = tries{budget: &r.budget, left: p.enter(affinity(t))}
	if err := a.next(ctx); err != nil {
		return nil, err
	}
	s := &upstream.Stream{Tentative: len(a.tries.left) > 0, Close: a.shut}
	a.describe(s)
	s.Events = a.events(ctx, s)
	return s, nil
}

// affinity is what turns have in common that should go to the same target,
// because it may remember their beginning: "" if nothing.
func affinity(t *upstream.Turn) string { return affinityOf(t.Request.PromptCacheKey, t.Header) }

func affinityOf(cacheKey string, h http.Header) string { return cmp.Or(cacheKey, h.Get("Session-Id")) }

func (r *Router) find(model string) (p *pool, star string, err error) {
	if model == "" {
		return nil, "", responses.InvalidParam(responses.CodeMissing, "model", "Say which model to use; GET /v1/models lists them.")
	}
	if r.only != nil {
		return r.only, model, nil
	}
	if p, star = r.names.find(model); p == nil {
		return nil, "", responses.InvalidParam(responses.CodeModelNotFound, "model", "There is no model %.100q; GET /v1/models lists those there are.", model)
	}
	return p, star, nil
}

// Close closes the upstreams.
func (r *Router) Close() error {
	var errs []error
	for _, d := range r.upstreams {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}
