// Package route finds the upstream for a model: model name → target. It owns the
// only place where a turn is tried, so that whoever opens turns through it need
// not know how many upstreams there are.
package route

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// A Target is a model of an upstream.
type Target struct {
	Upstream string // its name, a key of the router's upstreams
	Model    string // as the upstream knows it
}

// A Router opens turns on the upstream of their model. It is immutable and safe
// for concurrent use.
type Router struct {
	upstreams map[string]upstream.Driver
	models    map[string]Target
}

// New returns a router over drivers, each of which it holds to the limits. models
// maps the names that clients use to targets; if it is empty and there is only
// one upstream, every name goes there as it is.
func New(drivers map[string]upstream.Driver, models map[string]Target, limits upstream.Limits) (*Router, error) {
	r := &Router{upstreams: make(map[string]upstream.Driver, len(drivers)), models: models}
	for name, d := range drivers {
		r.upstreams[name] = upstream.Guard(d, limits)
	}
	for name, t := range models {
		if r.upstreams[t.Upstream] == nil {
			return nil, fmt.Errorf("model %q: there is no upstream %q", name, t.Upstream)
		}
	}
	return r, nil
}

// Open implements the driver contract for any model: it finds the target,
// rewrites the model and opens the turn there.
func (r *Router) Open(ctx context.Context, t *upstream.Turn) (*upstream.Stream, error) {
	target, err := r.find(t.Request.Model)
	if err != nil {
		return nil, err
	}
	req := *t.Request
	req.Model = target.Model
	turn := *t
	turn.Request = &req
	s, err := r.upstreams[target.Upstream].Open(ctx, &turn)
	if err != nil {
		return nil, err
	}
	s.Upstream = target.Upstream
	return s, nil
}

func (r *Router) find(model string) (Target, error) {
	if model == "" {
		return Target{}, responses.InvalidParam(responses.CodeMissing, "model", "Say which model to use; GET /v1/models lists them.")
	}
	if t, ok := r.models[model]; ok {
		return t, nil
	}
	if len(r.models) == 0 && len(r.upstreams) == 1 {
		for name := range r.upstreams {
			return Target{Upstream: name, Model: model}, nil
		}
	}
	return Target{}, responses.InvalidParam(responses.CodeModelNotFound, "model", "There is no model %q; GET /v1/models lists those there are.", model)
}

// Models lists what clients can ask for: the configured names, or everything that
// the upstreams offer if no name is configured, with what the upstreams tell of
// them. Upstreams that do not answer are reported in the error beside the list.
func (r *Router) Models(ctx context.Context) ([]upstream.Model, error) {
	offered, err := r.offered(ctx)
	var list []upstream.Model
	for name, models := range offered {
		for _, m := range models {
			m.OwnedBy = cmp.Or(m.OwnedBy, name)
			list = append(list, m)
		}
	}
	if len(r.models) > 0 {
		list = list[:0]
		for name, t := range r.models {
			m := upstream.Model{OwnedBy: t.Upstream}
			if i := slices.IndexFunc(offered[t.Upstream], func(m upstream.Model) bool { return m.ID == t.Model }); i >= 0 {
				m = offered[t.Upstream][i]
			}
			m.ID = name
			list = append(list, m)
		}
	}
	slices.SortFunc(list, func(a, b upstream.Model) int { return cmp.Compare(a.ID, b.ID) })
	return list, err
}

// listTime is how long an upstream may take to list its models: the others are
// not held up by one that hangs.
const listTime = 5 * time.Second

var errListTime = responses.UpstreamErrorf(responses.CodeTimeout, "The upstream did not list its models in time.")

// offered asks every upstream for its models.
func (r *Router) offered(ctx context.Context) (map[string][]upstream.Model, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, listTime, errListTime)
	defer cancel()
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex // guards what follows
		offered = map[string][]upstream.Model{}
		errs    []error
	)
	for name, d := range r.upstreams {
		lister, ok := d.(upstream.ModelLister)
		if !ok {
			continue
		}
		wg.Go(func() {
			models, err := lister.Models(ctx)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, fmt.Errorf("models of %s: %w", name, err))
			}
			offered[name] = models
		})
	}
	wg.Wait()
	return offered, errors.Join(errs...)
}

// Close closes the upstreams.
func (r *Router) Close() error {
	var errs []error
	for _, d := range r.upstreams {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}
