package store

import (
	"context"
	"iter"

	"github.com/antiphon-dev/antiphon/responses"
)

// An Entry is one event of a response as it goes to clients.
type Entry struct {
	// Seq is the event's sequence number.
	Seq int64
	// Type is the event's type, so that readers need not decode Data.
	Type responses.EventType
	// Data is the event, encoded once for all readers.
	Data []byte
}

// A Log keeps the events of responses in order. It is safe for concurrent use.
type Log interface {
	// Append adds entries to the log of a response, whose sequence numbers go
	// from first on without gaps. The first append, with first 0, makes the log.
	// It copies what it keeps. A log that is bounded by its reader blocks until
	// there is room, ctx ends, or the reader has stalled (ErrStalled); the last
	// words of a response, an error and the terminal entry, never wait.
	//
	// epoch names the writer: an append with an older epoch than the log has seen
	// is refused with ErrFenced, one that leaves a gap or repeats with ErrGap.
	// cancelled reports that somebody asked for the response to be cancelled.
	Append(ctx context.Context, owner, id string, epoch, first int64, entries []Entry) (cancelled bool, err error)

	// Follow yields the entries of a response numbered above after, in batches
	// of what is ready, and ends after the terminal entry. An empty batch means
	// that nothing has come for a while; readers use it to keep their connection
	// alive. A batch is valid until the next one.
	//
	// after comes from clients and may be anything; it fails at once with
	// ErrPurged if an entry above it was dropped. An error comes at most once and
	// is last; when ctx ends, it is the context's cause.
	Follow(ctx context.Context, owner, id string, after int64) iter.Seq2[[]Entry, error]

	// Drop forgets the log of a response. It is not an error if there is none.
	Drop(ctx context.Context, owner, id string) error
}
