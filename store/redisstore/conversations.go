package redisstore

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"math"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/antiphon-dev/antiphon/store"
)

// pairs returns the ids and packed data of items in turn.
func pairs(lists ...[]store.Item) (out []string) {
	for _, items := range lists {
		for _, it := range items {
			out = append(out, it.ID, rueidis.BinaryString(store.Pack(it.Data)))
		}
	}
	return out
}

// change runs a script that changes a conversation.
func (s *Store) change(ctx context.Context, sc *script, owner, id string, args ...string) error {
	p, ok := s.space(owner, id)
	if !ok {
		return store.ErrNotFound
	}
	_, err := s.run(ctx, sc, p.conversation(id), args)
	s.wrote(p.shard, err)
	return err
}

// CreateConversation implements [store.Conversations].
func (s *Store) CreateConversation(ctx context.Context, owner string, c *store.Conversation, items []store.Item) error {
	if _, ok := s.space(owner, c.ID); !ok {
		return errors.New("redisstore: the id of a new conversation says no shard: " + strconv.Quote(c.ID))
	}
	args := append([]string{rueidis.BinaryString(store.Pack(c.Metadata)), most}, pairs(items)...)
	return s.change(ctx, converseScript, owner, c.ID, args...)
}

var most = strconv.Itoa(store.MaxConversationItems)

// GetConversation implements [store.Conversations].
func (s *Store) GetConversation(ctx context.Context, owner, id string) (*store.Conversation, error) {
	p, ok := s.space(owner, id)
	if !ok {
		return nil, store.ErrNotFound
	}
	v, err := s.fields(ctx, p.key(kindConversation, id), "n", "m")
	if err != nil {
		return nil, err
	}
	if v[0] == "" {
		return nil, store.ErrNotFound
	}
	metadata, err := store.Body(v[1]).Unpack(math.MaxInt)
	if err != nil {
		return nil, err
	}
	return &store.Conversation{ID: id, Metadata: metadata}, nil
}

// UpdateConversation implements [store.Conversations].
func (s *Store) UpdateConversation(ctx context.Context, owner, id string, metadata jsontext.Value) (*store.Conversation, error) {
	if err := s.change(ctx, metadataScript, owner, id, rueidis.BinaryString(store.Pack(metadata))); err != nil {
		return nil, err
	}
	return &store.Conversation{ID: id, Metadata: metadata.Clone()}, nil
}

// DeleteConversation implements [store.Conversations].
func (s *Store) DeleteConversation(ctx context.Context, owner, id string) error {
	p, ok := s.space(owner, id)
	if !ok {
		return store.ErrNotFound
	}
	n, err := s.client.Do(ctx, s.client.B().Del().Key(p.conversation(id)...).Build()).ToInt64()
	if err != nil {
		return s.failed(ctx, err)
	}
	if n == 0 {
		return store.ErrNotFound
	}
	return nil
}

// AddItems implements [store.Conversations].
func (s *Store) AddItems(ctx context.Context, owner, id string, items []store.Item) error {
	return s.change(ctx, addItemsScript, owner, id, append([]string{most}, pairs(items)...)...)
}

// ListItems implements [store.Conversations].
func (s *Store) ListItems(ctx context.Context, owner, id string, page store.Page) (items []store.Item, more bool, err error) {
	p, ok := s.space(owner, id)
	if !ok {
		return nil, false, store.ErrNotFound
	}
	descending := "0"
	if page.Descending {
		descending = "1"
	}
	m, err := s.run(ctx, listScript, p.conversation(id),
		[]string{strconv.Itoa(page.Limit), strconv.Itoa(page.Bytes), page.After, descending})
	if err != nil {
		return nil, false, err
	}
	v, err := texts(m)
	if err != nil || len(v)%2 != 1 {
		return nil, false, errors.Join(errBroken, err)
	}
	left := page.Bytes
	if left == 0 {
		left = math.MaxInt
	}
	for pair := v[1:]; len(pair) > 0; pair = pair[2:] {
		data, err := store.Body(pair[1]).Unpack(left)
		if err != nil {
			return nil, false, err
		}
		left -= len(data)
		items = append(items, store.Item{ID: pair[0], Data: data})
	}
	return items, v[0] == "1", nil
}

// GetItem implements [store.Conversations].
func (s *Store) GetItem(ctx context.Context, owner, id, item string) (store.Item, error) {
	p, ok := s.space(owner, id)
	if !ok {
		return store.Item{}, store.ErrNotFound
	}
	v, err := s.fields(ctx, p.key(kindData, id), item)
	if err != nil {
		return store.Item{}, err
	}
	if v[0] == "" {
		return store.Item{}, store.ErrNotFound
	}
	data, err := store.Body(v[0]).Unpack(math.MaxInt)
	return store.Item{ID: item, Data: data}, err
}

// DeleteItem implements [store.Conversations].
func (s *Store) DeleteItem(ctx context.Context, owner, id, item string) error {
	return s.change(ctx, deleteItemScript, owner, id, item)
}
