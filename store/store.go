// Package store is the contract of what the gateway keeps, and of the backends
// that keep it.
//
//   - A [Store] remembers: [Responses] and their chains, [Conversations] and their
//     items. What it has acknowledged is there for every replica.
//   - A [Log] holds the ordered events of a response, from which every reader is
//     served.
//
// The owner is an argument of every method and part of every key: the id of
// somebody else's response and an id that does not exist are the same
// [ErrNotFound]. What a response is made of lies in its [Record] in the form in
// which clients get it, so that a backend needs to know nothing of the model.
//
// # How responses hang together
//
// A record holds only what its request added: its new input items and its output.
// Its [Link] names the record that it continues, so a context is a walk over
// links, oldest first:
//
//	resp_1 {input, output} ◄─ resp_2 {input, output} ◄─ resp_3 {input, output}
//
// Records are kept for the retention after they were made, and as ancestors for
// half as long again ([Kept]). A response that would continue something older
// than half the retention ([MayLink]) takes its context along as its own instead
// of linking; so what is dropped is never missed.
//
// # Time
//
// When a response was made is part of its id. Backends compare it with one clock,
// which they are given.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Errors that callers tell apart.
var (
	// ErrNotFound: there is no such thing for this owner.
	ErrNotFound = errors.New("store: not found")
	// ErrPurged: events that were asked for are no longer kept.
	ErrPurged = errors.New("store: events no longer kept")
	// ErrFenced: another writer has taken over the response.
	ErrFenced = errors.New("store: fenced by a newer writer")
	// ErrStalled: the reader has left no room for too long.
	ErrStalled = errors.New("store: the reader has stalled")
	// ErrGap: the entries do not follow what the log has.
	ErrGap = errors.New("store: entries out of sequence")
	// ErrLinkGone: what a new record continues is not there any more.
	ErrLinkGone = errors.New("store: the linked response is gone")
	// ErrTooLong: a chain or a conversation is beyond what the caller allows.
	ErrTooLong = errors.New("store: too long")
	// ErrUnavailable: the backend does not answer. Whether a write took effect is
	// then unknown, and it may be sent again as it was.
	ErrUnavailable = errors.New("store: unavailable")
	// ErrFull: the backend answers, and has no room. It matches ErrUnavailable too.
	ErrFull = fmt.Errorf("%w: it has no room", ErrUnavailable)
)

// A Store remembers. It is safe for concurrent use.
type Store interface {
	Responses
	Conversations
	// Ready reports whether a write to the shard has a chance now, so that nobody
	// pays for an answer that cannot be kept. A backend that has just succeeded
	// need not be asked again.
	Ready(ctx context.Context, shard uint16) error
	// Close releases what the store holds. No other call may be running.
	Close() error
}

// DefaultRetention is how long responses are kept if nobody says otherwise.
const DefaultRetention = 30 * 24 * time.Hour

// Kept is how long a record is kept in all: the retention, in which it can be
// found, and half as long again, in which younger ones may still build on it.
func Kept(retention time.Duration) time.Duration { return retention + retention/2 }

// MayLink reports whether a record that is made now may continue a chain whose
// oldest member is from the given time: that must outlive the record.
func MayLink(oldest, now time.Time, retention time.Duration) bool {
	return now.Sub(oldest) < retention/2
}
