package route

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// Models lists what clients can ask for: the configured names and what patterns
// let through, or everything that the upstreams offer if no name is configured,
// with what the upstreams tell of them. Upstreams that do not answer are reported
// in the error beside the list.
func (r *Router) Models(ctx context.Context) ([]upstream.Model, error) {
	offered, err := r.offered(ctx)
	var list []upstream.Model
	if len(r.models) == 0 {
		for name, models := range offered {
			for _, m := range models {
				m.OwnedBy = cmp.Or(m.OwnedBy, name)
				list = append(list, m)
			}
		}
	}
	for name, m := range r.models {
		list = append(list, m.list(name, offered[m.Targets[0].Upstream])...)
	}
	slices.SortFunc(list, func(a, b upstream.Model) int { return cmp.Compare(a.ID, b.ID) })
	return slices.CompactFunc(list, func(a, b upstream.Model) bool { return a.ID == b.ID }), err
}

// list returns the models that a name stands for. What is told of them is what
// their first target's upstream tells.
func (m *Model) list(name string, offered []upstream.Model) []upstream.Model {
	first := m.Targets[0]
	prefix, isPattern := strings.CutSuffix(name, "*")
	if !isPattern {
		found := upstream.Model{}
		if i := slices.IndexFunc(offered, func(o upstream.Model) bool { return o.ID == first.modelFor(name, name) }); i >= 0 {
			found = offered[i]
		}
		return []upstream.Model{m.tell(name, found)}
	}
	var list []upstream.Model
	for _, o := range offered {
		if star, ok := first.starOf(prefix, o.ID); ok {
			list = append(list, m.tell(prefix+star, o))
		}
	}
	return list
}

// tell returns o under the name that clients use.
func (m *Model) tell(name string, o upstream.Model) upstream.Model {
	o.ID = name
	o.OwnedBy = cmp.Or(o.OwnedBy, m.Targets[0].Upstream)
	if m.ContextWindow > 0 {
		o.ContextWindow = m.ContextWindow
	}
	return o
}

// starOf is the reverse of modelFor: what the star of the pattern with the given
// prefix must match for the upstream's model to be meant.
func (t *Target) starOf(prefix, model string) (string, bool) {
	if t.Model == "" {
		return strings.CutPrefix(model, prefix)
	}
	before, after, ok := strings.Cut(t.Model, "*")
	if !ok || len(model) < len(before)+len(after) || !strings.HasPrefix(model, before) || !strings.HasSuffix(model, after) {
		return "", false
	}
	return model[len(before) : len(model)-len(after)], true
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
			if r.settings[name].Sanitize {
				err = upstream.Public(err)
				for i := range models {
					models[i].OwnedBy = "" // its word for an account
				}
			}
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
