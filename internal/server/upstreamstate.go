package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/internal/relay"
	"github.com/antiphon-dev/antiphon/internal/route"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// Some upstreams remember in place of the gateway. Their ids are theirs, and one
// account of theirs serves many clients here, so the gateway keeps who made what
// (keptIDs) and sends nothing on that refers to anything else:
//
//	create ─► refers to ids? ── none ──────────────► relay to the model's pool ─► learn ids
//	               │ all the client's, in one place ► relay to that place only ─► learn ids
//	               └ any other ─────────────────────► 404
//	call of an id ─► the client's? ─► that place : the gateway's own handler
//
// An id that the index does not have is for the gateway's own store to know, or
// nobody's: a foreign one takes the same way as one that never was.

// stateRouter is a router of upstreams some of which remember.
type stateRouter interface {
	relayRouter
	KeepsState() bool
	Remembers(model string) bool
	Home() (route.Place, bool)
	RelayAt(ctx context.Context, at route.Place, model string, p *upstream.Passage) (*route.Relayed, error)
	RelayCall(ctx context.Context, at route.Place, p *upstream.Passage) (*route.Relayed, error)
}

// stateful returns the router if upstreams of it remember.
func (x *exchange) stateful() (stateRouter, bool) {
	r, ok := x.gen.Router.(stateRouter)
	return r, ok && r.KeepsState()
}

// orRemembered relays requests for models whose upstreams remember, and leaves
// others to own. path is below the API's root.
func (s *Server) orRemembered(path string, own func(x *exchange, body []byte) error) handlerFunc {
	return func(x *exchange) error {
		body, err := s.readJSON(x)
		if err != nil {
			return err
		}
		r, ok := x.stateful()
		if !ok {
			return own(x, body)
		}
		head, err := responses.PeekRequest(body, s.requestLimits())
		if err != nil {
			return err
		}
		if x.key != nil && !x.key.allows(head.Model) || !r.Remembers(head.Model) {
			return own(x, body)
		}
		return s.relayRemembered(x, r, head, path, body)
	}
}

// relayRemembered passes on a request for a model whose upstreams remember.
func (s *Server) relayRemembered(x *exchange, r stateRouter, head *responses.Head, path string, body []byte) error {
	at, err := s.placeOf(x, body)
	if err != nil {
		return err
	}
	if mode, err := x.outputMode(); err != nil {
		return err
	} else if mode == engine.OutputObsidian {
		x.setDegraded([]responses.Loss{{Param: strings.ToLower(headerOutputMode), Reason: "answers of this model pass as they come"}})
	}
	x.shape = shape{model: head.Model, stream: head.Stream, relayed: true}
	passage := &upstream.Passage{Method: x.r.Method, Path: path, Query: x.r.URL.RawQuery, Header: x.forwarded(), Body: body}
	var answer *route.Relayed
	if at == nil {
		answer, err = r.Relay(x.r.Context(), head.Model, head.PromptCacheKey, passage)
	} else {
		answer, err = r.RelayAt(x.r.Context(), at.Place, head.Model, passage)
	}
	if err != nil {
		return err
	}
	x.remembered = true
	return s.pass(x, answer, relayed{path: path, asked: head.Model})
}

// errNotKept is the answer to what refers to an id that is not the client's.
func errNotKept(param string) error {
	return responses.InvalidParam(responses.CodeNotFound, param, "There is nothing with this id: it was never stored, was deleted, or is no longer known here.")
}

// placeOf returns where everything is remembered that a body refers to, nil if
// that is nothing.
func (s *Server) placeOf(x *exchange, body []byte) (at *keptAt, err error) {
	refs, err := responses.References(body)
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		found := s.kept.find(x.owner(), ref.ID)
		if found == nil || at != nil && at.Place != found.Place {
			return nil, errNotKept(ref.Param)
		}
		at = found
	}
	return at, nil
}

// orKept passes a call on to the upstream that remembers the client's id in its
// path, and leaves all others to own: the gateway's handler, which knows what the
// gateway remembers itself.
func (s *Server) orKept(own handlerFunc) handlerFunc {
	return func(x *exchange) error {
		id := x.r.PathValue("id")
		at := s.kept.find(x.owner(), id)
		r, ok := x.stateful()
		if item := x.r.PathValue("item"); at == nil || !ok || item != "" && !isKeptID(item) {
			return own(x)
		}
		body, err := s.callBody(x, at)
		if err != nil {
			return err
		}
		answer, err := s.call(x, r, at.Place, body)
		if err != nil {
			if responses.AsError(err).Code == responses.CodeNotFound {
				return errNotKept("") // the configuration has changed since
			}
			return err
		}
		if x.r.Method == http.MethodDelete && answer.StatusCode == http.StatusOK && x.r.PathValue("item") == "" {
			s.kept.forget(x.owner(), id)
			return s.pass(x, answer, relayed{at: &keptAt{}})
		}
		return s.pass(x, answer, relayed{at: at})
	}
}

// orHome creates what has no model at the upstream that remembers such things, and
// leaves it to own if none does.
func (s *Server) orHome(own handlerFunc) handlerFunc {
	return func(x *exchange) error {
		r, ok := x.stateful()
		if !ok {
			return own(x)
		}
		home, ok := r.Home()
		if !ok {
			return own(x)
		}
		at := &keptAt{Place: home}
		body, err := s.callBody(x, nil)
		if err != nil {
			return err
		}
		if of, err := s.placeOf(x, body); err != nil {
			return err
		} else if of != nil {
			at.Place = of.Place
		}
		answer, err := s.call(x, r, at.Place, body)
		if err != nil {
			return err
		}
		at.Place = answer.Place
		return s.pass(x, answer, relayed{at: at})
	}
}

// callBody reads the body of a call, if there is one. What it refers to must be at
// the given place, if one is given.
func (s *Server) callBody(x *exchange, at *keptAt) ([]byte, error) {
	if x.r.ContentLength == 0 || x.r.Body == nil || x.r.Body == http.NoBody {
		return nil, nil
	}
	body, err := s.readJSON(x)
	if err != nil || len(body) == 0 {
		return nil, err
	}
	if _, err := responses.PeekModel(body, s.requestLimits()); err != nil {
		return nil, err
	}
	of, err := s.placeOf(x, body)
	if err == nil && at != nil && of != nil && of.Place != at.Place {
		err = errNotKept("")
	}
	return body, err
}

// call passes on a call without a model.
func (s *Server) call(x *exchange, r stateRouter, at route.Place, body []byte) (*route.Relayed, error) {
	path := strings.TrimPrefix(strings.TrimPrefix(x.r.URL.Path, "/"), "v1/")
	x.shape = shape{stream: x.r.URL.Query().Get("stream") == "true", relayed: true}
	return r.RelayCall(x.r.Context(), at, &upstream.Passage{
		Method: x.r.Method, Path: path, Query: x.r.URL.RawQuery, Header: x.forwarded(), Body: body,
	})
}

// relayed is what is known of an answer that is to be passed on.
type relayed struct {
	path  string  // of a request with a model, below the API's root
	asked string  // the model, as the client named it
	at    *keptAt // for a call of something that is remembered; nil for a request with a model
}

// pass passes the answer of an upstream that remembers on to the client, and learns
// its ids.
func (s *Server) pass(x *exchange, answer *route.Relayed, what relayed) error {
	at := what.at
	if at == nil {
		at = &keptAt{Place: answer.Place, model: relay.Rename{From: answer.Model, To: what.asked}}
	}
	opts := relay.Options{Rename: at.model}
	if at.Upstream != "" && x.r.PathValue("item") == "" { // an item may be as the client sent it
		opts.Notice = x.learn(at)
	}
	return s.passOn(x, answer, what.path, opts)
}
