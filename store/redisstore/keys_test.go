package redisstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/antiphon-dev/antiphon/internal/redistest"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/store/redisstore"
)

// TestEverythingExpires: what belongs to responses goes by itself, after their
// time and not before; conversations stay; and nothing is outside the prefix (R41).
func TestEverythingExpires(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const retention = 10 * time.Hour
	now := time.Now()
	s := open(t, "redis://"+server.Addr+"/3?prefix=mine%2F", &redisstore.Options{Retention: retention, Now: func() time.Time { return now }})
	defer s.Close()

	conversation := &store.Conversation{ID: responses.NewID(responses.PrefixConversation, 1, now), Metadata: []byte(`{}`)}
	if err := s.CreateConversation(t.Context(), owner, conversation, record(1, nil).Input); err != nil {
		t.Fatal(err)
	}
	root := record(1, nil)
	root.Marks = []store.Mark{{Hash: [32]byte{1}, Items: 1}}
	root.Output = append(root.Output, store.Item{ID: "msg_of_somebody_else", Data: []byte(`{}`)})
	create(t, s, root)
	running := record(1, root)
	running.Status, running.Conversation = responses.StatusInProgress, conversation.ID
	create(t, s, running)
	now = now.Add(time.Hour)
	running.Status, running.Output = responses.StatusCompleted, append(running.Output, store.Item{ID: "msg_late", Data: []byte(`{}`)})
	running.Marks = []store.Mark{{Hash: [32]byte{2}, Items: 1}}
	if err := s.Update(t.Context(), owner, running); err != nil {
		t.Fatal(err)
	}
	gone := record(1, running)
	create(t, s, gone)
	for _, r := range []*store.Record{root, gone} {
		if err := s.Delete(t.Context(), owner, r.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Ready(t.Context(), 9); err != nil {
		t.Fatal(err)
	}

	kinds := map[string]int{}
	scan(t, client(t, "redis://"+server.Addr+"/3"), "", func(c rueidis.Client, key string) {
		rest, ours := strings.CutPrefix(key, "mine/{")
		if !ours {
			t.Errorf("the key %q is outside the prefix", key)
			return
		}
		kind := strings.Split(rest, ":")[1]
		kinds[kind]++
		ms, err := c.Do(t.Context(), c.B().Pttl().Key(key).Build()).ToInt64()
		if err != nil {
			t.Fatal(err)
		}
		left := time.Duration(ms) * time.Millisecond
		switch kind {
		case "c", "o", "d":
			if ms != -1 {
				t.Errorf("%q expires in %v, want never", key, left)
			}
		case "w":
			if ms < 0 || left > time.Minute {
				t.Errorf("%q expires in %v", key, left)
			}
		default:
			most := store.Kept(retention)
			if left > most+time.Minute || left < most-time.Hour-time.Minute {
				t.Errorf("%q expires in %v, want about %v", key, left, most)
			}
		}
	})
	if kinds["r"] != 3 || kinds["i"] != 5 || kinds["m"] != 2 || kinds["c"]+kinds["o"]+kinds["d"] != 3 {
		t.Errorf("kinds of keys: %v", kinds)
	}
}

// TestHostileNames: owners and item ids are anything, and stay apart, in a cluster
// too (R17, R41).
func TestHostileNames(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	s := open(t, "redis://"+nodes[0].Addr, nil)
	defer s.Close()
	owners := []string{"", "a", "a:", ":a", "1:a", "{b}", "}{", "{", "{}", "a\x00b", "a\x00", "ü\xff", "*", "a b\r\nFLUSHALL\r\n", "%s", strings.Repeat("x", 5000)}
	ids := []string{"msg_{000}", "}msg{", "{}", "msg\x00", "msg:a", "*", "\r\n", "ü\xff", strings.Repeat("y", 5000)}
	parent := record(5, nil) // the same ids for every owner
	child := record(5, parent)
	conversation := &store.Conversation{ID: responses.NewID(responses.PrefixConversation, 5, time.Now()), Metadata: []byte(`{}`)}
	child.Conversation = conversation.ID
	say := func(owner, id string) store.Item {
		return store.Item{ID: id, Data: fmt.Appendf(nil, `{"text":%q}`, owner+id)}
	}
	for _, owner := range owners {
		child.Output = nil
		for _, id := range ids {
			child.Output = append(child.Output, say(owner, id))
		}
		if err := s.CreateConversation(t.Context(), owner, conversation, nil); err != nil {
			t.Fatalf("owner %q: %v", owner, err)
		}
		for _, r := range []*store.Record{parent, child} {
			if err := s.Create(t.Context(), owner, r); err != nil {
				t.Fatalf("owner %q: %v", owner, err)
			}
		}
	}
	for _, owner := range owners {
		for _, id := range ids {
			want := string(say(owner, id).Data)
			items, err := s.Items(t.Context(), owner, []string{id})
			if err != nil || len(items) != 1 || string(items[0].Data) != want {
				t.Errorf("owner %q, item %q: %q, %v", owner, id, items, err)
			}
			item, err := s.GetItem(t.Context(), owner, conversation.ID, id)
			if err != nil || string(item.Data) != want {
				t.Errorf("owner %q, item %q of the conversation: %q, %v", owner, id, item.Data, err)
			}
		}
		if chain, err := s.Chain(t.Context(), owner, child.ID, caps); err != nil || len(chain) != 2 {
			t.Errorf("owner %q: %d segments, %v", owner, len(chain), err)
		}
		if err := s.Delete(t.Context(), owner, child.ID); err != nil {
			t.Errorf("owner %q: %v", owner, err)
		}
		if _, err := s.Get(t.Context(), owner, parent.ID); err != nil {
			t.Errorf("owner %q: the parent is gone: %v", owner, err)
		}
	}
}

// TestHostileIDs: an id that names a shard and is not made by us finds nothing (R17).
func TestHostileIDs(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+redistest.Start(t).Addr, nil)
	defer s.Close()
	r := record(5, nil)
	create(t, s, r)
	_, digits, _ := strings.Cut(r.ID, "_")
	for _, id := range []string{"{000}_" + digits, "resp_x_" + digits, "_" + digits, "\x00_" + digits, r.ID + "\x00", "a:" + r.ID} {
		if _, err := s.Get(t.Context(), owner, id); err == nil {
			t.Errorf("get %q finds a response", id)
		}
		if _, err := s.Chain(t.Context(), owner, id, caps); err == nil {
			t.Errorf("chain %q finds a response", id)
		}
		if err := s.Delete(t.Context(), owner, id); err == nil {
			t.Errorf("delete %q finds a response", id)
		}
	}
	if err := s.Create(t.Context(), owner, &store.Record{ID: "resp_1"}); err == nil {
		t.Error("a response without a shard was kept")
	}
}

// TestKeepsWhatIsLarge: bodies of many megabytes, of bytes that are no text, come
// back as they were (R41).
func TestKeepsWhatIsLarge(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://"+redistest.Start(t).Addr, nil)
	defer s.Close()
	noise := make([]byte, 12<<20)
	for i := range noise {
		noise[i] = byte(i * i >> 7)
	}
	r := record(5, nil)
	r.Input[0].Data = slices.Clone(noise)
	r.Output[0].Data = append(noise, "\r\n\x00$-1\r\n"...)
	create(t, s, r)
	got, err := s.Get(t.Context(), owner, r.ID)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Input[0].Data, r.Input[0].Data) || !slices.Equal(got.Output[0].Data, r.Output[0].Data) {
		t.Error("what came back differs")
	}
	chain, err := s.Chain(t.Context(), owner, r.ID, caps)
	if err != nil {
		t.Fatal(err)
	}
	if items, err := chain[0].Unpack(64 << 20); err != nil || !slices.Equal(items[1].Data, r.Output[0].Data) {
		t.Errorf("the chain's differs, %v", err)
	}
}
