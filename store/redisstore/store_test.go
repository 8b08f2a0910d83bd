package redisstore_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/antiphon-dev/antiphon/internal/redistest"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/store/redisstore"
	"github.com/antiphon-dev/antiphon/store/storetest"
)

func TestMain(m *testing.M) {
	// The client lets connections that a cluster no longer needs live for five
	// seconds, also if it is closed meanwhile.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

// TestStore runs the contract's suite on the Redis that tests share (R40, R41).
func TestStore(t *testing.T) {
	t.Parallel()
	addr := cmp.Or(os.Getenv("ANTIPHON_TEST_REDIS"), "127.0.0.1:6379")
	conn, err := net.DialTimeout("tcp", addr, 2*time.Second)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no Redis at %s: %v", addr, err)
		}
		t.Skipf("no Redis at %s (ANTIPHON_TEST_REDIS): %v", addr, err)
	}
	conn.Close()
	storetest.RunStore(t, opener("redis://"+addr))
}

// TestStoreOnCluster runs the contract's suite on a cluster (R41).
func TestStoreOnCluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	// In a group, so that the cluster outlives the parallel tests.
	t.Run("Suite", func(t *testing.T) { storetest.RunStore(t, opener("redis://"+nodes[0].Addr)) })
	s := open(t, "redis://"+nodes[0].Addr+"?addr="+nodes[1].Addr, nil)
	defer s.Close()
	for shard := range uint16(64) {
		r := record(shard, nil)
		create(t, s, r)
		create(t, s, record(shard, r))
	}
	for _, node := range nodes {
		if size := node.Do("DBSIZE"); size == ":0\r\n" {
			t.Errorf("the node %s was given nothing to keep", node.Addr)
		}
	}
}

// opener opens stores that see nothing of each other.
func opener(url string) func(*testing.T, time.Duration, func() time.Time) store.Store {
	return func(t *testing.T, retention time.Duration, now func() time.Time) store.Store {
		t.Helper()
		prefix := "antiphon-test:" + rand.Text() + ":"
		c := client(t, url)
		t.Cleanup(func() { sweep(t, c, prefix) })
		return open(t, url+"?prefix="+prefix, &redisstore.Options{Retention: retention, Now: now})
	}
}

func open(t *testing.T, url string, opts *redisstore.Options) *redisstore.Store {
	t.Helper()
	var o redisstore.Options
	if opts != nil {
		o = *opts
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s, err := redisstore.Open(t.Context(), url, &o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// client returns a bare client of a server.
func client(t *testing.T, url string) rueidis.Client {
	t.Helper()
	opt := rueidis.MustParseURL(url)
	opt.DisableCache = true
	c, err := rueidis.NewClient(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// scan calls do for the keys of all nodes that begin with a prefix.
func scan(t *testing.T, c rueidis.Client, prefix string, do func(node rueidis.Client, key string)) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // it is over when a test cleans up
	for _, node := range c.Nodes() {
		for cursor := uint64(0); ; {
			e, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(prefix+"*").Count(1000).Build()).AsScanEntry()
			if err != nil {
				t.Error(err)
				return
			}
			for _, key := range e.Elements {
				do(node, key)
			}
			if cursor = e.Cursor; cursor == 0 {
				break
			}
		}
	}
}

// sweep deletes what a test kept.
func sweep(t *testing.T, c rueidis.Client, prefix string) {
	t.Helper()
	scan(t, c, prefix, func(node rueidis.Client, key string) {
		node.Do(context.Background(), node.B().Unlink().Key(key).Build())
	})
}

// record returns a response that has completed, and continues parent if there is
// one.
func record(shard uint16, parent *store.Record) *store.Record {
	r := &store.Record{ID: responses.NewID(responses.PrefixResponse, shard, time.Now()), Status: responses.StatusCompleted}
	r.Oldest = r.Created()
	if parent != nil {
		r.Link, r.Depth, r.Oldest = store.Link{ID: parent.ID, Items: 2}, parent.Depth+1, parent.Oldest
	}
	r.Head = []byte(`{"id":"` + r.ID + `"}`)
	r.Input = []store.Item{{ID: "msg_in", Data: []byte(`{"text":"question"}`)}}
	r.Output = []store.Item{{ID: responses.NewID(responses.PrefixMessage, shard, time.Now()), Data: []byte(`{"text":"answer"}`)}}
	return r
}

const owner = "team-a"

var caps = store.Caps{Depth: 1000, Bytes: 64 << 20}

func create(t *testing.T, s store.Store, r *store.Record) {
	t.Helper()
	if err := s.Create(t.Context(), owner, r); err != nil {
		t.Fatal(err)
	}
}
