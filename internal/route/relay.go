package route

import (
	"context"
	"encoding/json/jsontext"
	"io"
	"net/http"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// Relayed is the answer of an upstream to a request that passed as it came. The
// caller closes its body.
type Relayed struct {
	*http.Response
	// Place is who answered; Model is its name for the model.
	Place
	Model string
	// Sanitize says that the answer is to be cleaned before a client gets it.
	Sanitize bool
}

// CanRelay reports whether requests of the path for the model can pass as they
// came: all of its targets have the path, and nothing is to be changed. Without a
// model they are those of "*".
func (r *Router) CanRelay(model, path string) bool {
	if model == "" {
		p := r.rest()
		return p != nil && p.has(path)
	}
	p, _, err := r.find(model)
	return err == nil && !p.shapes() && p.has(path)
}

// rest is where requests go that name no model, nil if nowhere.
func (r *Router) rest() *pool {
	if r.only != nil {
		return r.only
	}
	p, _ := r.names.find("*") // no other pattern begins what a * begins
	return p
}

// Relay passes a request on to the model's targets, in the order in which a turn
// would try them, until one answers with anything but a failure of its own. The
// last failure passes as it came too.
func (r *Router) Relay(ctx context.Context, model, cacheKey string, p *upstream.Passage) (*Relayed, error) {
	pool, star, err := r.rest(), "", error(nil)
	if model != "" || pool == nil {
		if pool, star, err = r.find(model); err != nil {
			return nil, err
		}
	}
	r.budget.earn()
	t := tries{budget: &r.budget, left: pool.enter(affinityOf(cacheKey, p.Header))}
	var answer *Relayed
	err = t.next(func(c candidate) (again bool, err error) {
		more := len(t.left) > 0 && !p.Once
		attempt := Attempt{Model: model, Upstream: c.Upstream, Number: t.made}
		if model != "" {
			attempt.Target = c.modelFor(model, star)
		}
		t.made++
		answer, again, err = r.relayTo(ctx, c, attempt, p, more)
		return again && !p.Once, err
	})
	return answer, err
}

// relayTo passes the request on to one target. An answer that is a failure of the
// target's is an error if another one is left to try.
func (r *Router) relayTo(ctx context.Context, c candidate, a Attempt, p *upstream.Passage, more bool) (_ *Relayed, again bool, err error) {
	verdict, end, err := c.enter()
	if err != nil {
		return nil, true, errSkipped
	}
	passage := *p
	if a.Target != a.Model {
		quoted, _ := jsontext.AppendQuote(nil, a.Target) // the error only reports invalid UTF-8
		if passage.Body, err = responses.SetMembers(p.Body, responses.Member{Name: "model", Value: quoted}); err != nil {
			verdict(errNoVerdict)
			end()
			return nil, false, err
		}
	}
	watch := r.watch(ctx, a)
	resp, err := c.driver.(upstream.Relayer).Relay(watch.ctx, &passage)
	blame := c.blame
	if p.Once && !upstream.SafeToRetry(err) { // what it asks for, and how it is sent, is the client's
		blame = func(error) (bool, error) { return false, errNoVerdict }
	}
	if err == nil && more {
		err = c.refusal(resp, p.Header)
	}
	if err == nil && c.settings.Sanitize && resp.StatusCode >= http.StatusMultipleChoices {
		err = upstream.AnswerError(resp, p.Header)
	}
	if err != nil {
		watch.ended(false, err)
		again, outcome := blame(err)
		if ctx.Err() != nil {
			again, outcome = false, errNoVerdict
		}
		verdict(outcome)
		end()
		return nil, again, c.public(err)
	}
	// The last failure passes as it came, and is a failure all the same.
	var failed, outcome error
	if resp.StatusCode >= http.StatusBadRequest {
		failed = upstream.AnswerFailure(resp, p.Header, nil)
		_, outcome = blame(failed)
	}
	verdict(outcome)
	watch.ended(failed == nil, failed)
	ended := c.ended
	if failed != nil || p.Once {
		ended = func(error) {} // it was judged, or is not to be
	}
	resp.Body = &relayedBody{ReadCloser: resp.Body, ctx: ctx, closed: end, ended: ended}
	return &Relayed{Response: resp, Place: Place{c.Upstream, passage.Account}, Model: a.Target, Sanitize: c.settings.Sanitize}, false, nil
}

// relayedBody gives the place of a request back when its answer is closed, and tells
// how the answer ended.
type relayedBody struct {
	io.ReadCloser
	ctx    context.Context // of the client
	closed func()
	ended  func(err error)
	over   bool
}

func (b *relayedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || b.over {
		return n, err
	}
	b.over = true
	switch {
	case err == io.EOF:
		b.ended(nil)
	case b.ctx.Err() == nil: // else the client is gone, and the upstream not to blame
		b.ended(err)
	}
	return n, err
}

func (b *relayedBody) Close() error {
	b.closed()
	return b.ReadCloser.Close()
}
