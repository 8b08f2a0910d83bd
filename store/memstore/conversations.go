package memstore

import (
	"container/list"
	"context"
	"encoding/json/jsontext"
	"slices"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// conversation is a conversation with its items in order.
type conversation struct {
	key
	metadata jsontext.Value
	items    []store.Item
	bytes    int64
	place    *list.Element
}

func (c *conversation) lastMoment(time.Duration) time.Time { return time.Time{} }

func (c *conversation) index(id string) int {
	return slices.IndexFunc(c.items, func(it store.Item) bool { return it.ID == id })
}

// CreateConversation implements [store.Conversations].
func (s *Store) CreateConversation(_ context.Context, owner string, c *store.Conversation, items []store.Item) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := &conversation{key: key{owner, c.ID}, metadata: slices.Clone(c.Metadata), bytes: overhead + int64(len(c.Metadata))}
	if s.conversations[n.key] != nil {
		return nil
	}
	s.stats.Bytes += n.bytes
	s.stats.Conversations++
	s.conversations[n.key] = n
	n.place = s.used.PushFront(n)
	if err := s.add(n, items); err != nil {
		s.dropConversation(n)
		return err
	}
	s.makeRoom(n)
	return nil
}

func (s *Store) dropConversation(n *conversation) {
	delete(s.conversations, n.key)
	s.used.Remove(n.place)
	s.stats.Bytes -= n.bytes
	s.stats.Conversations--
}

func (s *Store) findConversation(owner, id string) (*conversation, error) {
	n := s.conversations[key{owner, id}]
	if n == nil {
		return nil, store.ErrNotFound
	}
	s.used.MoveToFront(n.place)
	return n, nil
}

// add appends the items that are new to the conversation, all or none.
func (s *Store) add(n *conversation, items []store.Item) error {
	known := make(map[string]bool, len(n.items))
	for _, it := range n.items {
		known[it.ID] = true
	}
	var fresh []store.Item
	var size int64
	for _, it := range items {
		if known[it.ID] {
			continue
		}
		known[it.ID] = true
		fresh = append(fresh, store.Item{ID: it.ID, Data: slices.Clone(it.Data)})
		size += overhead/4 + int64(len(it.Data))
	}
	if len(n.items)+len(fresh) > store.MaxConversationItems {
		return store.ErrTooLong
	}
	n.items = append(n.items, fresh...)
	n.bytes += size
	s.stats.Bytes += size
	return nil
}

// extend adds what a response that has ended well says to its conversation.
func (s *Store) extend(owner string, r *store.Record, input []store.Item) error {
	if r.Conversation == "" || r.Status != responses.StatusCompleted && r.Status != responses.StatusIncomplete {
		return nil
	}
	n, err := s.findConversation(owner, r.Conversation)
	if err != nil {
		return err
	}
	return s.add(n, slices.Concat(input, r.Output))
}

// GetConversation implements [store.Conversations].
func (s *Store) GetConversation(_ context.Context, owner, id string) (*store.Conversation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.findConversation(owner, id)
	if err != nil {
		return nil, err
	}
	return &store.Conversation{ID: n.id, Metadata: slices.Clone(n.metadata)}, nil
}

// UpdateConversation implements [store.Conversations].
func (s *Store) UpdateConversation(_ context.Context, owner, id string, metadata jsontext.Value) (*store.Conversation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.findConversation(owner, id)
	if err != nil {
		return nil, err
	}
	grown := int64(len(metadata) - len(n.metadata))
	n.metadata = slices.Clone(metadata)
	n.bytes += grown
	s.stats.Bytes += grown
	return &store.Conversation{ID: n.id, Metadata: slices.Clone(metadata)}, nil
}

// DeleteConversation implements [store.Conversations].
func (s *Store) DeleteConversation(_ context.Context, owner, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.findConversation(owner, id)
	if err != nil {
		return err
	}
	s.dropConversation(n)
	return nil
}

// AddItems implements [store.Conversations].
func (s *Store) AddItems(_ context.Context, owner, id string, items []store.Item) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.findConversation(owner, id)
	if err != nil {
		return err
	}
	if err := s.add(n, items); err != nil {
		return err
	}
	s.makeRoom(n)
	return nil
}

// ListItems implements [store.Conversations].
func (s *Store) ListItems(_ context.Context, owner, id string, p store.Page) (page []store.Item, more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.findConversation(owner, id)
	if err != nil {
		return nil, false, err
	}
	return store.Cut(n.items, p)
}

// GetItem implements [store.Conversations].
func (s *Store) GetItem(_ context.Context, owner, id, item string) (store.Item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.findConversation(owner, id)
	if err != nil {
		return store.Item{}, err
	}
	i := n.index(item)
	if i < 0 {
		return store.Item{}, store.ErrNotFound
	}
	return n.items[i], nil
}

// DeleteItem implements [store.Conversations].
func (s *Store) DeleteItem(_ context.Context, owner, id, item string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.findConversation(owner, id)
	if err != nil {
		return err
	}
	i := n.index(item)
	if i < 0 {
		return store.ErrNotFound
	}
	size := overhead/4 + int64(len(n.items[i].Data))
	n.items = slices.Delete(slices.Clone(n.items), i, i+1) // pages that were handed out stay as they are
	n.bytes -= size
	s.stats.Bytes -= size
	return nil
}
