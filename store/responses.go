package store

import (
	"context"
	"encoding/json/jsontext"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
)

// An Item is one item as it is kept.
type Item struct {
	// ID is the item's id, also inside Data.
	ID string
	// Data is the item as clients get it: one JSON object.
	Data jsontext.Value
}

// A Link names what a record continues: the context of another record of the same
// owner and shard, and then the first Items of that record's own items.
type Link struct {
	ID    string // "" means that the record continues nothing
	Items int
}

// A Mark names a context by its hash: that of a record after its first Items own
// items. It lets a client that resends its whole history be recognised.
type Mark struct {
	Hash  [32]byte
	Items int
}

// A Record is a response as it is kept. Its own items are those of Context, Input
// and Output, in this order.
type Record struct {
	// ID is made by [responses.NewID]: it holds the shard and the time of creation.
	ID string
	// Status is completed, incomplete, failed or cancelled once the response has
	// ended; see [Ended].
	Status responses.Status
	// Epoch names the writer. It grows when another one takes over.
	Epoch int64
	// Link is what the response continues.
	Link Link
	// Depth is how many records its context is spread over besides itself, and
	// Oldest when the oldest of them was made; its own time if it is alone.
	Depth  int
	Oldest time.Time
	// Conversation is the conversation of the same owner and shard that the response
	// belongs to, "" if none.
	Conversation string
	// Head is the response object without its output.
	Head jsontext.Value
	// Losses are what the upstream did not honour.
	Losses []responses.Loss
	// Context is what a record took along instead of linking to it.
	Context []Item
	// Input are the items that the request added.
	Input []Item
	// Output are the items that were generated.
	Output []Item
	// Marks name contexts that later requests may begin with.
	Marks []Mark
}

// Created is when the record's response was made.
func (r *Record) Created() time.Time { return responses.IDTime(r.ID) }

// Ended reports whether a response with this status is over.
func Ended(s responses.Status) bool {
	switch s {
	case responses.StatusCompleted, responses.StatusIncomplete, responses.StatusFailed, responses.StatusCancelled:
		return true
	}
	return false
}

// A Segment is what one record contributes to a context. Its bodies stay packed
// until somebody wants them.
type Segment struct {
	ID     string
	Status responses.Status
	Depth  int
	Oldest time.Time
	// Items is how many of the record's own items belong to the context; -1 means
	// all.
	Items                  int
	Context, Input, Output Body
}

// Size is how many bytes the segment's bodies take as they are kept.
func (s *Segment) Size() int { return len(s.Context) + len(s.Input) + len(s.Output) }

// Unpack returns the items that the segment contributes. It fails with ErrTooLong
// if they are larger than limit bytes.
func (s *Segment) Unpack(limit int) ([]Item, error) {
	var items []Item
	for _, b := range []Body{s.Context, s.Input, s.Output} {
		var err error
		if items, err = b.appendItems(items, &limit); err != nil {
			return nil, err
		}
	}
	if s.Items >= 0 && s.Items < len(items) {
		items = items[:s.Items]
	}
	return items, nil
}

// Caps bound what a chain may hold.
type Caps struct {
	Depth int // segments
	Bytes int // of their bodies as they are kept
}

// A Found is the longest of several contexts that is known.
type Found struct {
	Mark   int // which of those that were asked for
	Link   Link
	Depth  int
	Oldest time.Time
}

// Responses keeps responses. All methods but Create see only what is neither
// deleted nor older than the retention; Chain's ancestors may be both.
type Responses interface {
	// Create keeps a new response, which may have ended already. It is idempotent:
	// creating again what the owner has changes nothing and is no error. It fails
	// with ErrLinkGone if what the record continues was deleted, or is not the
	// owner's; that it is older than the retention does not matter.
	//
	// A record that has ended as completed or incomplete and belongs to a
	// conversation adds its input and output to that in the same step; if that is
	// gone, it fails with ErrNotFound and keeps nothing.
	Create(ctx context.Context, owner string, r *Record) error

	// Update replaces a response that has not ended by a later state of it: a step
	// or the end. Link, with Depth and Oldest, Conversation, Context and Input stay as
	// they were created. It fails with ErrFenced if the response was written with a
	// newer epoch, or has ended in another way; an end that is repeated is no error. A
	// conversation is treated as by Create.
	Update(ctx context.Context, owner string, r *Record) error

	// Get returns a response.
	Get(ctx context.Context, owner, id string) (*Record, error)

	// Chain returns what the context of a response's successor is made of, oldest
	// first, the response itself last; the caller decides what its status allows.
	// It fails with ErrTooLong beyond caps.
	Chain(ctx context.Context, owner, id string, caps Caps) ([]Segment, error)

	// Delete hides a response. Its content is wiped at once if no other record
	// continues it, and else kept for those that do, until the retention ends.
	Delete(ctx context.Context, owner, id string) error

	// Items returns those of the given output items that the owner has, in any
	// order. It takes at most [MaxItemIDs] ids.
	Items(ctx context.Context, owner string, ids []string) ([]Item, error)

	// Prefix returns the last of the given contexts, which grow, that the owner has
	// in the shard; ErrNotFound if there is none. It takes at most [MaxMarks].
	Prefix(ctx context.Context, owner string, shard uint16, marks []Mark) (*Found, error)
}

// Bounds of what is asked for at once.
const (
	MaxItemIDs = 1000
	MaxMarks   = 10_000
)
