package route

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// Some upstreams remember responses themselves. What one of them remembers no
// other can go on from, nor it for another of its accounts: requests that refer to
// it go there and nowhere else, whatever becomes of them.

// A Place is where something is remembered.
type Place struct {
	Upstream string
	// Account is which of the upstream's credentials it belongs to, "" if there is
	// one for all.
	Account string
}

// checkState refuses a pool that could not always be relayed although upstreams
// of it remember, or of which only some do.
func (p *pool) checkState() error {
	keeps := 0
	for _, t := range p.targets {
		if !t.settings.KeepsState {
			continue
		}
		keeps++
		if r, ok := t.driver.(upstream.Relayer); !ok || !r.Relays(upstream.PathResponses) || t.settings.NoRelay || t.settings.Sanitize {
			return fmt.Errorf("requests cannot be relayed to %q, which is to keep its state", t.Upstream)
		}
	}
	switch {
	case keeps == 0:
		return nil
	case keeps < len(p.targets):
		return errors.New("some of its upstreams keep their state and some do not")
	case p.shapes():
		return errors.New("its upstreams keep their state, so requests pass as they came and cannot be changed")
	}
	return nil
}

// keepsState reports whether the upstreams of the pool remember. All do or none.
func (p *pool) keepsState() bool { return p.targets[0].settings.KeepsState }

// KeepsState reports whether there are upstreams that remember responses.
func (r *Router) KeepsState() bool { return r.keepsState }

// Remembers reports whether the upstreams of a model remember its responses.
func (r *Router) Remembers(model string) bool {
	p, _, err := r.find(model)
	return err == nil && p.keepsState()
}

// errElsewhere: what the request refers to is not where its model is.
var errElsewhere = responses.InvalidParam(responses.CodeNotFound, "", "What this request refers to is not at an upstream of its model.")

// RelayAt passes a request for a model on to the place that remembers what it
// refers to, and only there. It fails with [responses.CodeNotFound] if that is not
// one of the model's.
func (r *Router) RelayAt(ctx context.Context, at Place, model string, p *upstream.Passage) (*Relayed, error) {
	pool, star, err := r.find(model)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(pool.targets, func(t *target) bool { return t.Upstream == at.Upstream && t.settings.KeepsState })
	if i < 0 {
		return nil, errElsewhere
	}
	passage := *p
	passage.Account = at.Account
	c := candidate{target: pool.targets[i], desperate: true}
	attempt := Attempt{Model: model, Upstream: c.Upstream, Target: c.modelFor(model, star)}
	answer, _, err := r.relayTo(ctx, c, attempt, &passage, false)
	if errors.Is(err, errSkipped) {
		err = responses.Errorf(responses.CodeOverloaded, "The upstream that remembers this is busy; try again shortly.")
	}
	return answer, err
}

// RelayCall passes a request without a model on to a place, and only there.
func (r *Router) RelayCall(ctx context.Context, at Place, p *upstream.Passage) (*Relayed, error) {
	relayer, ok := r.upstreams[at.Upstream].(upstream.Relayer)
	if !ok || !r.settings[at.Upstream].KeepsState {
		return nil, errElsewhere
	}
	passage := *p
	passage.Account = at.Account
	resp, err := relayer.Relay(ctx, &passage)
	if err != nil {
		return nil, err
	}
	return &Relayed{Response: resp, Place: Place{at.Upstream, passage.Account}}, nil
}

// Home is the upstream that remembers what has no model, such as a conversation:
// that of the model "*", or the only one. It is false if that does not remember.
func (r *Router) Home() (Place, bool) {
	p := r.rest()
	if p == nil || !p.keepsState() {
		return Place{}, false
	}
	return Place{Upstream: p.order("")[0].Upstream}, true
}
