package store

import (
	"context"
	"encoding/json/jsontext"
	"slices"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
)

// A Conversation is an ordered list of items that responses add to. It lives
// until it is deleted.
type Conversation struct {
	ID       string // made by [responses.NewID]
	Metadata jsontext.Value
}

// Created is when the conversation was made.
func (c *Conversation) Created() time.Time { return responses.IDTime(c.ID) }

// MaxConversationItems bounds a conversation.
const MaxConversationItems = 10_000

// A Page is a part of a list of items.
type Page struct {
	// Limit is how many items are wanted. Zero means all; then Bytes decides.
	Limit int
	// Bytes bounds the items as they are kept; beyond it the list is ErrTooLong.
	// Zero means no bound.
	Bytes int
	// After is the id of the item before the first that is wanted, "" for the
	// beginning. An id that is not there is ErrNotFound.
	After string
	// Descending turns the list around.
	Descending bool
}

// Conversations keeps conversations.
type Conversations interface {
	// CreateConversation keeps a new conversation with its first items. It is
	// idempotent.
	CreateConversation(ctx context.Context, owner string, c *Conversation, items []Item) error
	// GetConversation returns a conversation without its items.
	GetConversation(ctx context.Context, owner, id string) (*Conversation, error)
	// UpdateConversation replaces the metadata.
	UpdateConversation(ctx context.Context, owner, id string, metadata jsontext.Value) (*Conversation, error)
	// DeleteConversation deletes a conversation and its items; responses stay.
	DeleteConversation(ctx context.Context, owner, id string) error

	// AddItems adds items at the end, all or none. An item whose id is there
	// already is left as it is. ErrTooLong: there would be more than
	// MaxConversationItems.
	AddItems(ctx context.Context, owner, id string, items []Item) error
	// ListItems returns a page of the items, and whether there are more.
	ListItems(ctx context.Context, owner, id string, p Page) (items []Item, more bool, err error)
	// GetItem returns one item.
	GetItem(ctx context.Context, owner, id, item string) (Item, error)
	// DeleteItem removes one item.
	DeleteItem(ctx context.Context, owner, id, item string) error
}

// Cut returns a page of items that are in order, and whether there are more. The
// page is the caller's; the items' data is shared.
func Cut(items []Item, p Page) (page []Item, more bool, err error) {
	if p.Descending {
		items = slices.Clone(items)
		slices.Reverse(items)
	}
	if p.After != "" {
		i := slices.IndexFunc(items, func(it Item) bool { return it.ID == p.After })
		if i < 0 {
			return nil, false, ErrNotFound
		}
		items = items[i+1:]
	}
	if p.Limit > 0 && len(items) > p.Limit {
		items, more = items[:p.Limit], true
	}
	size := 0
	for _, it := range items {
		if size += len(it.Data); p.Bytes > 0 && size > p.Bytes {
			return nil, false, ErrTooLong
		}
	}
	return slices.Clone(items), more, nil
}
