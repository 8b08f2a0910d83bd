package pgstore_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/antiphon-dev/antiphon/internal/pgtest"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/store/pgstore"
)

var caps = store.Caps{Depth: 100, Bytes: 1 << 20}

// TestDeletedContentIsWiped: at once where nothing continues it, and else when the
// last that does is deleted too (R42).
func TestDeletedContentIsWiped(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := open(t, nil, url)
	defer s.Close()
	var chain []*store.Record
	var last *store.Record
	for range 4 {
		last = record(1, last)
		must(t, s.Create(t.Context(), "o", last))
		chain = append(chain, last)
	}
	branch := record(1, chain[0])
	must(t, s.Create(t.Context(), "o", branch))
	wantBodies := func(want ...*store.Record) {
		t.Helper()
		var ids []string
		for _, r := range want {
			ids = append(ids, r.ID)
		}
		got := texts(t, url, "select 'resp_' || replace(id::text, '-', '') from responses where head is not null and input is not null and output is not null")
		if diff := cmp.Diff(ids, got, cmpopts.EquateEmpty(), cmpopts.SortSlices(func(x, y string) bool { return x < y })); diff != "" {
			t.Errorf("responses with content (-want +got):\n%s", diff)
		}
	}
	drop := func(r *store.Record) { t.Helper(); must(t, s.Delete(t.Context(), "o", r.ID)) }
	drop(chain[1])
	drop(chain[2])
	wantBodies(chain[0], chain[1], chain[2], chain[3], branch)
	drop(chain[0])
	drop(chain[3]) // and with it what only it continued
	wantBodies(chain[0], branch)
	drop(branch)
	wantBodies()
	if n := count(t, url, "responses where context is not null or losses is not null"); n > 0 {
		t.Errorf("%d have something left", n)
	}
}

// TestDeleteAgainstContinue: a response that is continued while it is deleted is
// either gone before or kept for its successor.
func TestDeleteAgainstContinue(t *testing.T) {
	t.Parallel()
	s := open(t, nil, pgtest.URL(t))
	defer s.Close()
	outcomes := map[bool]int{}
	for range 100 {
		parent := record(1, nil)
		must(t, s.Create(t.Context(), "o", parent))
		child := record(1, parent)
		var created error
		var wg sync.WaitGroup
		wg.Go(func() { created = s.Create(t.Context(), "o", child) })
		wg.Go(func() {
			if err := s.Delete(t.Context(), "o", parent.ID); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		outcomes[created == nil]++
		if errors.Is(created, store.ErrLinkGone) {
			continue
		}
		must(t, created)
		segments, err := s.Chain(t.Context(), "o", child.ID, caps)
		must(t, err)
		items, err := segments[0].Unpack(1 << 20)
		if err != nil || len(segments) != 2 || len(items) != 2 {
			t.Fatalf("%d segments, the first of %d items, %v: the parent was wiped", len(segments), len(items), err)
		}
	}
	t.Logf("continued %d times, gone %d times", outcomes[true], outcomes[false])
}

// TestOwnerAtEveryHop: should a link ever lead to somebody else's response, the
// chain ends in an error and not in its content (R40).
func TestOwnerAtEveryHop(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := open(t, nil, url)
	defer s.Close()
	root := record(1, nil)
	must(t, s.Create(t.Context(), "o", root))
	leaf := record(1, root)
	must(t, s.Create(t.Context(), "o", leaf))
	exec(t, connect(t, url), "update responses set owner = 'somebody else' where parent is null")
	if segments, err := s.Chain(t.Context(), "o", leaf.ID, caps); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%d segments, %v", len(segments), err)
	}
}

// TestShardsAreSpread: two databases share the shards, and items are found in both
// whatever their ids say (R41).
func TestShardsAreSpread(t *testing.T) {
	t.Parallel()
	urls := []string{pgtest.URL(t), pgtest.URL(t)}
	s := open(t, nil, urls...)
	defer s.Close()
	var ids []string
	for i, shard := range []uint16{0, 1, 2047, 2048, 4095} {
		r := record(shard, nil)
		for j, id := range []string{
			responses.NewID(responses.PrefixMessage, shard, time.Now()),      // ours
			responses.NewID(responses.PrefixMessage, 4095-shard, time.Now()), // of another gateway
			fmt.Sprintf("msg_foreign_%d", i),
			fmt.Sprintf("msg_%0200d", i),
		} {
			r.Output = append(r.Output[:j], store.Item{ID: id, Data: []byte(`{}`)})
			ids = append(ids, id)
		}
		must(t, s.Create(t.Context(), "o", r))
	}
	for i, want := range []int{3, 2} {
		if got := count(t, urls[i], "responses"); got != want {
			t.Errorf("database %d has %d responses, want %d", i, got, want)
		}
	}
	items, err := s.Items(t.Context(), "o", append(ids, "msg_unknown"))
	must(t, err)
	var got []string
	for _, it := range items {
		got = append(got, it.ID)
	}
	if diff := cmp.Diff(ids, got, cmpopts.SortSlices(func(x, y string) bool { return x < y })); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
}

// TestPopularMark: a context that many responses mark is found as quickly as one
// that few do, and the newest of them counts.
func TestPopularMark(t *testing.T) {
	t.Parallel()
	s := open(t, nil, pgtest.URL(t))
	defer s.Close()
	mark := store.Mark{Hash: [32]byte{9}, Items: 1}
	var last *store.Record
	for range 50 {
		last = record(3, nil)
		last.Marks = []store.Mark{mark}
		must(t, s.Create(t.Context(), "o", last))
		time.Sleep(time.Millisecond) // the order of ids is that of their milliseconds
	}
	many := make([]store.Mark, 3000)
	for i := range many {
		many[i].Hash = [32]byte{1, byte(i), byte(i >> 8)}
	}
	many[10] = mark
	found, err := s.Prefix(t.Context(), "o", 3, many)
	must(t, err)
	if found.Mark != 10 || found.Link != (store.Link{ID: last.ID, Items: 1}) {
		t.Errorf("found %+v, want mark 10 of %s", found, last.ID)
	}
	must(t, s.Delete(t.Context(), "o", last.ID))
	if again, err := s.Prefix(t.Context(), "o", 3, many); err != nil || again.Link.ID == last.ID {
		t.Errorf("after the newest was deleted: %+v, %v", again, err)
	}
}

// TestURLsKeepTheirSecrets: a URL that is wrong is not repeated in the error.
func TestURLsKeepTheirSecrets(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://user:hunter2@127.0.0.1:1/db?connect_timeout=1",
		"postgres://user:hunter2@127.0.0.1:99999/db", "postgres://user:hunter2@h/db?pool_max_conns=x", "mysql://user:hunter2@h/db", "postgres://user:hunter2@%zz",
	} {
		if _, err := pgstore.Open(t.Context(), []string{url}, nil); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
