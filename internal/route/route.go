// Package route finds the upstream for a model: model name → target. It owns the
// only place where a turn is tried, so that whoever opens turns through it need
// not know how many upstreams there are.
package route

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

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
// maps the names that clients use to targets; a name that is not there goes to
// the only upstream under the same name, if there is only one.
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
	if len(r.upstreams) == 1 {
		for name := range r.upstreams {
			return Target{Upstream: name, Model: model}, nil
		}
	}
	return Target{}, responses.InvalidParam(responses.CodeModelNotFound, "model", "There is no model %q; GET /v1/models lists those there are.", model)
}

// Models lists what clients can ask for: the configured names, and what the
// upstreams offer where no name is configured. Upstreams that fail are left out
// and reported in the error beside the list.
func (r *Router) Models(ctx context.Context) ([]upstream.Model, error) {
	if len(r.models) > 0 {
		var list []upstream.Model
		for _, name := range slices.Sorted(maps.Keys(r.models)) {
			list = append(list, upstream.Model{ID: name, OwnedBy: r.models[name].Upstream})
		}
		return list, nil
	}
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		list []upstream.Model
		errs []error
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
			for _, m := range models {
				m.OwnedBy = cmp.Or(m.OwnedBy, name)
				list = append(list, m)
			}
		})
	}
	wg.Wait()
	slices.SortFunc(list, func(a, b upstream.Model) int { return cmp.Compare(a.ID, b.ID) })
	return list, errors.Join(errs...)
}

// Close closes the upstreams.
func (r *Router) Close() error {
	var errs []error
	for _, d := range r.upstreams {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}
