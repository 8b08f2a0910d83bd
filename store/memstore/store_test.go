package memstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/store/storetest"
)

// TestStore runs the contract's suite (R40, R41).
func TestStore(t *testing.T) {
	t.Parallel()
	storetest.RunStore(t, func(t *testing.T, retention time.Duration, now func() time.Time) store.Store {
		return memstore.NewStore(&memstore.StoreOptions{Retention: retention, Now: now})
	})
}

// TestStoreIsBounded: what was not used for the longest time goes first, visibly,
// and a chain is kept whole or not at all (R40, R41).
func TestStoreIsBounded(t *testing.T) {
	t.Parallel()
	s := memstore.NewStore(&memstore.StoreOptions{Bytes: 100 << 10})
	put := func(parent *store.Record) *store.Record {
		r := &store.Record{ID: responses.NewID(responses.PrefixResponse, 0, time.Now()), Status: responses.StatusCompleted}
		if parent != nil {
			r.Link = store.Link{ID: parent.ID, Items: 1}
		}
		r.Output = []store.Item{{ID: "msg_" + r.ID, Data: fmt.Appendf(nil, `{"text":"%0400d"}`, 1)}}
		if err := s.Create(t.Context(), "o", r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	root := put(nil)
	last := root
	for range 20 {
		last = put(last)
	}
	for range 1000 {
		put(nil)
		if _, err := s.Get(t.Context(), "o", last.ID); err != nil {
			t.Fatal("a response in use was evicted")
		}
		if _, err := s.Chain(t.Context(), "o", last.ID, store.Caps{Depth: 100, Bytes: 1 << 20}); err != nil {
			t.Fatalf("its chain was cut: %v", err)
		}
	}
	stats := s.Stats()
	if stats.Bytes > 100<<10 || stats.EvictedResponses < 800 || int64(stats.Responses)+stats.EvictedResponses != 1021 {
		t.Errorf("%+v", stats)
	}
	for range 1000 {
		put(nil)
	}
	if _, err := s.Chain(t.Context(), "o", last.ID, store.Caps{Depth: 100, Bytes: 1 << 20}); err == nil {
		t.Error("what nobody used is still there")
	}
	if stats := s.Stats(); stats.Bytes > 100<<10 || stats.Bytes < 0 {
		t.Errorf("%+v", stats)
	}
}

// TestStoreKeepsWhatIsWritten: a response that is written step by step is not
// evicted with what it goes on from, however much else is stored meanwhile, and
// neither is one that is read (R40, R41).
func TestStoreKeepsWhatIsWritten(t *testing.T) {
	t.Parallel()
	uses := map[string]func(s *memstore.Store, r *store.Record) error{
		"updated": func(s *memstore.Store, r *store.Record) error { return s.Update(t.Context(), "o", r) },
		"read": func(s *memstore.Store, r *store.Record) error {
			_, err := s.Get(t.Context(), "o", r.ID)
			return err
		},
	}
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := memstore.NewStore(&memstore.StoreOptions{Bytes: 20 << 10})
			put := func(status responses.Status, link store.Link) *store.Record {
				r := &store.Record{ID: responses.NewID(responses.PrefixResponse, 0, time.Now()), Status: status, Link: link}
				r.Input = []store.Item{{ID: "msg_1", Data: []byte(`{}`)}}
				if err := s.Create(t.Context(), "o", r); err != nil {
					t.Fatal(err)
				}
				return r
			}
			root := put(responses.StatusCompleted, store.Link{})
			step := put(responses.StatusInProgress, store.Link{ID: root.ID, Items: 1})
			for i := range 100 {
				put(responses.StatusCompleted, store.Link{})
				if err := use(s, step); err != nil {
					t.Fatalf("after %d others: %v", i, err)
				}
			}
			if s.Stats().EvictedResponses == 0 {
				t.Error("nothing was evicted: the test shows nothing")
			}
			if _, err := s.Chain(t.Context(), "o", step.ID, store.Caps{Depth: 10, Bytes: 1 << 20}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStoreCountsMetadata: what a conversation says of itself counts towards the
// bound, and no longer when it is gone (R41).
func TestStoreCountsMetadata(t *testing.T) {
	t.Parallel()
	s := memstore.NewStore(nil)
	c := &store.Conversation{ID: responses.NewID(responses.PrefixConversation, 0, time.Now()), Metadata: []byte(`{}`)}
	if err := s.CreateConversation(t.Context(), "o", c, nil); err != nil {
		t.Fatal(err)
	}
	before := s.Stats().Bytes
	if _, err := s.UpdateConversation(t.Context(), "o", c.ID, fmt.Appendf(nil, `{"a":"%01000d"}`, 1)); err != nil {
		t.Fatal(err)
	}
	if grown := s.Stats().Bytes - before; grown < 1000 {
		t.Errorf("a kilobyte of metadata counts as %d bytes", grown)
	}
	if err := s.DeleteConversation(t.Context(), "o", c.ID); err != nil || s.Stats().Bytes != 0 {
		t.Errorf("%v; %+v", err, s.Stats())
	}
}
