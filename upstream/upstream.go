// Package upstream is the contract between the gateway and the model providers
// behind it: a [Driver] runs one model call, a [Turn], and yields its events in
// the one model of package responses, whatever its own wire says.
//
// The package also holds what every driver needs and none should write again:
// the HTTP exchange with an upstream ([Endpoint]), the classification of its
// failures, and the guard that bounds a stream in time and size and holds it to
// the grammar ([Guard]). Drivers live in the packages below; the suite that all
// of them pass is in upstreamtest.
package upstream

import (
	"context"
	"iter"
	"net/http"

	"github.com/antiphon-dev/antiphon/responses"
)

// A Turn is one model call. It is read-only for drivers.
type Turn struct {
	// Request has its context resolved and its model rewritten to the name that
	// the upstream knows.
	Request *responses.Request
	// Owner is whose response this is; RunID is its id.
	Owner, RunID string
	// Round counts the turns of a run, Attempt the tries of a round, from zero.
	Round, Attempt int
	// Returns says that what the model says may come back in the next round: a
	// driver marks reasoning as it wants it back, also if the client did not ask.
	Returns bool
	// Header holds the client's headers that may be forwarded.
	Header http.Header
}

// A Driver runs model turns against one upstream. It is safe for concurrent use.
type Driver interface {
	// Open encodes the turn, sends it, and returns once the upstream has accepted
	// or refused it. What the upstream cannot express is refused before any I/O
	// with an *responses.Error of CodeUnsupported that names the field. Other
	// errors are plain or *responses.Error; ctx errors pass as they are.
	Open(ctx context.Context, t *Turn) (*Stream, error)
	// Close releases what the driver holds. Streams that are open end with an
	// error.
	Close() error
}

// ErrClosed is how the turns of a driver end that is closed, and what it answers to
// new ones.
var ErrClosed = responses.Errorf(responses.CodeServer, "The gateway closed its connection to the upstream.")

// A Stream is the answer to a turn.
type Stream struct {
	// Upstream is the name of the upstream that answers. Drivers leave it empty:
	// the router knows.
	Upstream string
	// Tentative streams, which only the router makes, may still move to another
	// upstream: what they say beside Events is final with the first event.
	Tentative bool
	// Losses are what the upstream will not honour, known at encode time.
	Losses []responses.Loss
	// Header is what the upstream said beside the answer: Retry-After, rate
	// limits, its request id.
	Header http.Header
	// Events yields item events with output_index from 0, then exactly one
	// EventTurnEnd; never response.* lifecycle events. An error comes at most
	// once and is last. It can be ranged over once. Payloads of an event may be
	// kept, but must not be changed.
	Events iter.Seq2[responses.Event, error]
	// Close releases the connection. It is idempotent, may be called at any time
	// from any goroutine, and is always called.
	Close func() error
}

// A Costly failure is one of a turn that cost something before it failed (R16). A
// driver wraps the error with which its events end.
type Costly struct {
	Err   error
	Usage *responses.Usage
}

// Error is that of the failure.
func (c *Costly) Error() string { return c.Err.Error() }

// Unwrap returns the failure.
func (c *Costly) Unwrap() error { return c.Err }

// A Model is one that an upstream offers.
type Model struct {
	ID string
	// ContextWindow is in tokens, 0 if the upstream does not say.
	ContextWindow int64
	// Created is in Unix seconds, 0 if the upstream does not say.
	Created int64
	// OwnedBy is the upstream's own word.
	OwnedBy string
}

// A ModelLister is a driver that can say which models its upstream offers.
type ModelLister interface {
	Models(ctx context.Context) ([]Model, error)
}

// listModels lists what d lists, which is nothing if it cannot.
func listModels(ctx context.Context, d Driver) ([]Model, error) {
	if l, ok := d.(ModelLister); ok {
		return l.Models(ctx)
	}
	return nil, nil
}
