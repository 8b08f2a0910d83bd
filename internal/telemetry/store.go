package telemetry

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"time"

	"github.com/antiphon-dev/antiphon/store"
)

// Store returns s with its operations measured.
func (t *Telemetry) Store(s store.Store) store.Store { return &measuredStore{s, t} }

type measuredStore struct {
	store.Store
	t *Telemetry
}

// storeOutcome is the label of an operation's error.
func storeOutcome(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, store.ErrNotFound):
		return "not_found"
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.DeadlineExceeded): // nobody waits for it any longer
		return "unavailable"
	case errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrLinkGone), errors.Is(err, store.ErrTooLong):
		return "refused"
	}
	return "error"
}

// measure runs an operation.
func measure[T any](s *measuredStore, operation string, run func() (T, error)) (T, error) {
	began := time.Now()
	v, err := run()
	s.t.m.store.WithLabelValues(operation, storeOutcome(err)).Observe(time.Since(began).Seconds())
	if errors.Is(err, store.ErrFull) {
		s.t.m.full.Inc()
	}
	return v, err
}

// do is measure for what returns nothing but an error.
func (s *measuredStore) do(operation string, run func() error) error {
	_, err := measure(s, operation, func() (struct{}, error) { return struct{}{}, run() })
	return err
}

func (s *measuredStore) Ready(ctx context.Context, shard uint16) error {
	return s.do("ready", func() error { return s.Store.Ready(ctx, shard) })
}

func (s *measuredStore) Create(ctx context.Context, owner string, r *store.Record) error {
	return s.do("create", func() error { return s.Store.Create(ctx, owner, r) })
}

func (s *measuredStore) Update(ctx context.Context, owner string, r *store.Record) error {
	return s.do("update", func() error { return s.Store.Update(ctx, owner, r) })
}

func (s *measuredStore) Get(ctx context.Context, owner, id string) (*store.Record, error) {
	return measure(s, "get", func() (*store.Record, error) { return s.Store.Get(ctx, owner, id) })
}

func (s *measuredStore) Chain(ctx context.Context, owner, id string, caps store.Caps) ([]store.Segment, error) {
	return measure(s, "chain", func() ([]store.Segment, error) { return s.Store.Chain(ctx, owner, id, caps) })
}

func (s *measuredStore) Delete(ctx context.Context, owner, id string) error {
	return s.do("delete", func() error { return s.Store.Delete(ctx, owner, id) })
}

func (s *measuredStore) Items(ctx context.Context, owner string, ids []string) ([]store.Item, error) {
	return measure(s, "items", func() ([]store.Item, error) { return s.Store.Items(ctx, owner, ids) })
}

func (s *measuredStore) Prefix(ctx context.Context, owner string, shard uint16, marks []store.Mark) (*store.Found, error) {
	return measure(s, "prefix", func() (*store.Found, error) { return s.Store.Prefix(ctx, owner, shard, marks) })
}

func (s *measuredStore) CreateConversation(ctx context.Context, owner string, c *store.Conversation, items []store.Item) error {
	return s.do("create_conversation", func() error { return s.Store.CreateConversation(ctx, owner, c, items) })
}

func (s *measuredStore) GetConversation(ctx context.Context, owner, id string) (*store.Conversation, error) {
	return measure(s, "get_conversation", func() (*store.Conversation, error) { return s.Store.GetConversation(ctx, owner, id) })
}

func (s *measuredStore) UpdateConversation(ctx context.Context, owner, id string, metadata jsontext.Value) (*store.Conversation, error) {
	return measure(s, "update_conversation", func() (*store.Conversation, error) { return s.Store.UpdateConversation(ctx, owner, id, metadata) })
}

func (s *measuredStore) DeleteConversation(ctx context.Context, owner, id string) error {
	return s.do("delete_conversation", func() error { return s.Store.DeleteConversation(ctx, owner, id) })
}

func (s *measuredStore) AddItems(ctx context.Context, owner, id string, items []store.Item) error {
	return s.do("add_items", func() error { return s.Store.AddItems(ctx, owner, id, items) })
}

func (s *measuredStore) ListItems(ctx context.Context, owner, id string, p store.Page) (items []store.Item, more bool, err error) {
	err = s.do("list_items", func() error {
		items, more, err = s.Store.ListItems(ctx, owner, id, p)
		return err
	})
	return items, more, err
}

func (s *measuredStore) GetItem(ctx context.Context, owner, id, item string) (store.Item, error) {
	return measure(s, "get_item", func() (store.Item, error) { return s.Store.GetItem(ctx, owner, id, item) })
}

func (s *measuredStore) DeleteItem(ctx context.Context, owner, id, item string) error {
	return s.do("delete_item", func() error { return s.Store.DeleteItem(ctx, owner, id, item) })
}
