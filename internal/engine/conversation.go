package engine

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

var (
	errNoConversation = responses.InvalidParam(responses.CodeNotFound, "", "There is no such conversation: it never was, or was deleted.")
	errNoItem         = responses.InvalidParam(responses.CodeNotFound, "", "There is no such item in this conversation.")
	errNoAfter        = responses.InvalidParam(responses.CodeInvalidValue, "after", "There is no such item in this list.")
)

// conversationStore is where the conversation with this id may be.
func (e *Engine) conversationStore(id string) (store.Store, error) {
	if e.opts.Store == nil {
		return nil, errStateless
	}
	if !isConversationID(id) {
		return nil, errNoConversation
	}
	return e.opts.Store, nil
}

// CreateConversation makes a conversation of owner.
func (e *Engine) CreateConversation(ctx context.Context, owner string, req *responses.ConversationRequest) (*store.Conversation, error) {
	id := responses.NewID(responses.PrefixConversation, responses.RandomShard(), e.opts.Now())
	s, err := e.conversationStore(id)
	if err != nil {
		return nil, err
	}
	items, err := e.newItems(ctx, owner, id, req.Items)
	if err != nil {
		return nil, err
	}
	c := &store.Conversation{ID: id}
	if c.Metadata, err = encodeMetadata(req.Metadata); err != nil {
		return nil, err
	}
	return c, conversationFailure(s.CreateConversation(ctx, owner, c, items))
}

func encodeMetadata(metadata map[string]string) (jsontext.Value, error) {
	return json.Marshal(metadata, json.Deterministic(true)) // none is {}
}

// newItems returns items that a client adds to a conversation as they are kept.
func (e *Engine) newItems(ctx context.Context, owner, conversation string, items []responses.Item) ([]store.Item, error) {
	items, err := e.dereference(ctx, owner, "items", nil, items)
	if err != nil {
		return nil, err
	}
	shard, _ := responses.Shard(conversation)
	kept := make([]store.Item, 0, len(items))
	for i, it := range items {
		if _, ok := it.(*responses.CompactionTrigger); ok {
			return nil, responses.Unsupported(fmt.Sprintf("items[%d]", i), "A compaction_trigger belongs into the input of a response.")
		}
		k, err := keptItem(it, func() string { return responses.NewID(inputPrefix(it.Type()), shard, e.opts.Now()) })
		if err != nil {
			return nil, err
		}
		kept = append(kept, k)
	}
	return kept, nil
}

// Conversation returns a conversation of owner.
func (e *Engine) Conversation(ctx context.Context, owner, id string) (*store.Conversation, error) {
	s, err := e.conversationStore(id)
	if err != nil {
		return nil, err
	}
	c, err := s.GetConversation(ctx, owner, id)
	return c, conversationFailure(err)
}

// UpdateConversation replaces the metadata of a conversation of owner.
func (e *Engine) UpdateConversation(ctx context.Context, owner, id string, metadata map[string]string) (*store.Conversation, error) {
	s, err := e.conversationStore(id)
	if err != nil {
		return nil, err
	}
	data, err := encodeMetadata(metadata)
	if err != nil {
		return nil, err
	}
	c, err := s.UpdateConversation(ctx, owner, id, data)
	return c, conversationFailure(err)
}

// DeleteConversation forgets a conversation of owner and its items.
func (e *Engine) DeleteConversation(ctx context.Context, owner, id string) error {
	s, err := e.conversationStore(id)
	if err != nil {
		return err
	}
	return conversationFailure(s.DeleteConversation(ctx, owner, id))
}

// AddItems adds items to a conversation of owner and returns them as they are
// kept.
func (e *Engine) AddItems(ctx context.Context, owner, id string, items []responses.Item) (*Items, error) {
	s, err := e.conversationStore(id)
	if err != nil {
		return nil, err
	}
	kept, err := e.newItems(ctx, owner, id, items)
	if err != nil {
		return nil, err
	}
	if err := s.AddItems(ctx, owner, id, kept); err != nil {
		return nil, conversationFailure(err)
	}
	named := idsOf(items)
	for i := range kept {
		if !named[kept[i].ID] {
			continue
		}
		// One that was there already is left as it was, and that is what is told.
		there, err := s.GetItem(ctx, owner, id, kept[i].ID)
		if err == nil {
			kept[i] = there
		} else if !errors.Is(err, store.ErrNotFound) {
			return nil, conversationFailure(err)
		}
	}
	return &Items{kept: kept}, nil
}

// ListItems returns a page of the items of a conversation of owner.
func (e *Engine) ListItems(ctx context.Context, owner, id string, p store.Page) (*Items, error) {
	s, err := e.conversationStore(id)
	if err != nil {
		return nil, err
	}
	items, more, err := s.ListItems(ctx, owner, id, p)
	if errors.Is(err, store.ErrNotFound) && p.After != "" {
		if _, err := s.GetConversation(ctx, owner, id); err != nil {
			return nil, conversationFailure(err)
		}
		return nil, errNoAfter
	}
	return &Items{items, more}, conversationFailure(err)
}

// Item returns one item of a conversation of owner.
func (e *Engine) Item(ctx context.Context, owner, id, item string) (*Items, error) {
	s, err := e.conversationStore(id)
	if err != nil {
		return nil, err
	}
	it, err := s.GetItem(ctx, owner, id, item)
	return &Items{kept: []store.Item{it}}, storeFailure(err, errNoItem)
}

// DeleteItem removes an item from a conversation of owner, which it returns.
func (e *Engine) DeleteItem(ctx context.Context, owner, id, item string) (*store.Conversation, error) {
	s, err := e.conversationStore(id)
	if err != nil {
		return nil, err
	}
	if err := s.DeleteItem(ctx, owner, id, item); err != nil {
		return nil, storeFailure(err, errNoItem)
	}
	return e.Conversation(ctx, owner, id)
}

func conversationFailure(err error) error {
	if errors.Is(err, store.ErrTooLong) {
		return responses.InvalidParam(responses.CodeContextLength, "items", "A conversation has at most %d items: begin a new one.", store.MaxConversationItems)
	}
	return storeFailure(err, errNoConversation)
}
