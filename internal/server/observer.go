package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// An Observer is told of requests, for metrics and traces, on the goroutine that
// serves them. Values that it gets must not be changed.
type Observer interface {
	// RequestStarted returns the context in which the request is served.
	RequestStarted(ctx context.Context, r *http.Request) context.Context
	// StreamStarted is called when the answer turns out to be a stream.
	StreamStarted(ctx context.Context)
	// RequestEnded is called when the answer has been sent, or nobody was left to
	// send it to.
	RequestEnded(ctx context.Context, e *RequestEnd)
}

// An IDObserver is an [Observer] that is told of ids of upstreams that remember,
// when they were forgotten because there were too many: to clients they are gone.
type IDObserver interface {
	IDsEvicted(n int)
}

// RequestEnd is what a request was and what came of it. Nothing in it is content,
// a credential or an id.
type RequestEnd struct {
	// Route is the pattern that the request matched, like "POST /v1/responses".
	Route string
	// Status is the HTTP status, 0 if the client left before there was one.
	Status int
	// Model is the name that the client used, "" if the request did not get so far.
	// It is whatever the client wrote.
	Model string
	// Upstream is who answered, "" if nobody did.
	Upstream string
	// Stream says that the answer was one, Relayed that it passed as it came.
	Stream, Relayed bool
	// Cause is how the response ended, "" if there was none.
	Cause engine.Cause
	// Code is that of the error, "" if there was none.
	Code responses.Code
	// Limit is which limit of its key did not let the request pass, as the
	// configuration calls it; "" if none.
	Limit  string
	Usage  *responses.Usage // nil if unknown
	Losses []responses.Loss
	Events int64
	// FirstEvent is how long it took until the model's answer began; for one that
	// was relayed, until its first byte. 0 if it did not begin.
	FirstEvent, Duration time.Duration
	// Broken is the first rule of the order of events that the upstream broke, nil if
	// it broke none. What was relayed passed all the same; what was run failed of it.
	Broken error
}

func endError(end *engine.RunEnd) *responses.Error {
	if end == nil {
		return nil
	}
	return end.Err
}

// begin tells the observer of the exchange.
func (x *exchange) begin() {
	if o := x.s.opts.Observer; o != nil {
		if ctx := o.RequestStarted(x.r.Context(), x.r); ctx != x.r.Context() {
			x.r = x.r.WithContext(ctx)
		}
	}
}

// streams notes that the answer is a stream.
func (x *exchange) streams() {
	x.streaming = true
	if o := x.s.opts.Observer; o != nil {
		o.StreamStarted(x.r.Context())
	}
}

// report tells the observer what came of the exchange.
func (x *exchange) report() {
	o := x.s.opts.Observer
	if o == nil {
		return
	}
	e := &RequestEnd{
		Route: x.r.Pattern, Status: x.status, Model: x.shape.model, Upstream: x.upstream, Stream: x.streaming, Relayed: x.shape.relayed,
		Losses: x.losses, Duration: x.s.opts.Now().Sub(x.started), Broken: x.broken,
	}
	if x.end != nil {
		e.Cause, e.Usage, e.Events, e.FirstEvent = x.end.Cause, x.end.Usage, x.end.Events, x.end.FirstEvent
		if len(x.end.Losses) > 0 {
			e.Losses = append(e.Losses[:len(e.Losses):len(e.Losses)], x.end.Losses...)
		}
	}
	if err := cmp.Or(x.err, endError(x.end)); err != nil {
		e.Code = err.Code
		if limit, ok := errors.AsType[limitReached](err); ok {
			e.Limit = string(limit)
		}
		if errors.Is(err, upstream.ErrGrammar) {
			e.Broken = err
		}
	}
	o.RequestEnded(x.r.Context(), e)
}
