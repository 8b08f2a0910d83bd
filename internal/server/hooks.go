package server

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/responses"
)

// Hooks are what an embedder does in the middle of a request. They belong to a
// generation and run on the request's goroutine, several at a time; a panic is
// answered as an internal error.

// A Caller is who sent a request, in the words of an embedder: a [Key] without
// the secret. Its fields mean what they mean there.
type Caller struct {
	// Name is what logs call the caller and what its limits are counted under. An
	// [AuthenticateFunc] must set it.
	Name string
	// Tenant owns the responses that are made. "" means the name.
	Tenant string
	// Models are the models that it may use: names, or patterns that end in one
	// "*". None means all.
	Models []string
	// Limits are how much it may use. The zero value is no limit.
	Limits Limits
}

// An AuthenticateFunc finds out who sent a request, in place of keys. It must not
// read the body. What is wrong with a client's credentials is an error: an
// *[responses.Error] is answered as it is; any other becomes the answer to a wrong
// key, and is seen in the log only. Nobody at all, nil and nil, is refused in the
// same way.
type AuthenticateFunc func(r *http.Request) (*Caller, error)

// A TransformFunc may change a request that has been decoded and checked, before
// a model is looked for. The request is a copy that is its own, without Raw; the
// caller is never nil, and without a name if everybody may use the API. An error
// refuses the request: an *[responses.Error] as it is, any other as a failure of
// the gateway.
type TransformFunc func(ctx context.Context, c *Caller, r *responses.Request) (*responses.Request, error)

var errInvalidKey = responses.InvalidParam(responses.CodeInvalidKey, "", "Send a valid API key with the header Authorization: Bearer.")

// ask returns the key that stands for the caller whom f names.
func (f AuthenticateFunc) ask(r *http.Request) (*Key, error) {
	c, err := f(r)
	if err != nil {
		if _, ok := errors.AsType[*responses.Error](err); ok {
			return nil, err
		}
		return nil, errInvalidKey.WithCause(err)
	}
	if c == nil {
		return nil, errInvalidKey
	}
	k := &Key{Name: c.Name, Tenant: c.Tenant, Models: c.Models, Limits: c.Limits}
	if err := k.normalize(); err != nil {
		return nil, fmt.Errorf("the caller %q of Authenticate: %w", c.Name, err)
	}
	return k, nil
}

// caller is who sent the request, for hooks.
func (x *exchange) caller() *Caller {
	if x.key == nil {
		return &Caller{Tenant: defaultTenant}
	}
	return &Caller{Name: x.key.Name, Tenant: x.key.Tenant, Models: slices.Clone(x.key.Models), Limits: x.key.Limits}
}

var errTransform = responses.Errorf(responses.CodeServer, "The gateway made a request of this one that is not valid.")

// transform lets the hook change the request. One that is left alone goes on byte
// for byte as it came. One that is changed goes on as the struct encodes, by way of
// JSON: then what the driver splices and what the others read cannot differ, and
// the hook can send nothing that a client could not.
func (s *Server) transform(x *exchange, req *responses.Request) (*responses.Request, error) {
	hook := x.gen.Transform
	if hook == nil {
		return req, nil
	}
	own, err := responses.DecodeRequest(req.Raw, s.requestLimits())
	if err != nil {
		return nil, err
	}
	own.Raw = nil
	made, err := hook(x.r.Context(), x.caller(), own)
	switch {
	case err != nil && x.r.Context().Err() != nil:
		return nil, engine.ErrClientGone
	case err != nil:
		return nil, err
	case made == nil:
		return nil, errTransform.WithCause(errors.New("TransformRequest returned neither a request nor an error"))
	}
	changed := *made
	changed.Stream = req.Stream // how the client reads the answer is not the hook's to say
	return s.reread(req, &changed)
}

// reread returns req if made says the same, and otherwise made as if it had come
// from a client.
func (s *Server) reread(req, made *responses.Request) (*responses.Request, error) {
	before, err := json.Marshal(req, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(made, json.Deterministic(true))
	if err != nil {
		return nil, errTransform.WithCause(err)
	}
	if bytes.Equal(before, after) {
		return req, nil
	}
	again, err := responses.DecodeRequest(after, s.requestLimits())
	if err != nil {
		return nil, errTransform.WithCause(err)
	}
	return again, nil
}

func (s *Server) requestLimits() *responses.Limits {
	return &responses.Limits{Bytes: s.opts.MaxBodyBytes}
}
