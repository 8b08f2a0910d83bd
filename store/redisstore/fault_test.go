package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/internal/redistest"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/store/redisstore"
)

// TestSurvivesARestart: while Redis is down, every call says so, and soon; after
// it has come back, which forgets the scripts, what was acknowledged is there (R41,
// R63).
func TestSurvivesARestart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s := open(t, "redis://"+server.Addr, nil)
	defer s.Close()
	parent := record(1, nil)
	create(t, s, parent)
	server.Kill()

	child := record(1, parent)
	conversation := &store.Conversation{ID: responses.NewID(responses.PrefixConversation, 1, time.Now()), Metadata: []byte(`{}`)}
	began := time.Now()
	for name, err := range map[string]error{
		"create":       s.Create(t.Context(), owner, child),
		"update":       s.Update(t.Context(), owner, parent),
		"delete":       s.Delete(t.Context(), owner, parent.ID),
		"get":          second(s.Get(t.Context(), owner, parent.ID)),
		"chain":        second(s.Chain(t.Context(), owner, parent.ID, caps)),
		"items":        second(s.Items(t.Context(), owner, []string{"msg_1"})),
		"prefix":       second(s.Prefix(t.Context(), owner, 1, []store.Mark{{}})),
		"conversation": s.CreateConversation(t.Context(), owner, conversation, nil),
		"ready":        s.Ready(t.Context(), 1),
	} {
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s without Redis: %v, want ErrUnavailable", name, err)
		}
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v to say that Redis is not there", took)
	}

	server.Restart()
	create(t, s, child) // as it was
	chain, err := s.Chain(t.Context(), owner, child.ID, caps)
	if err != nil || len(chain) != 2 {
		t.Errorf("the chain has %d segments, %v", len(chain), err)
	}
	if err := s.Ready(t.Context(), 1); err != nil {
		t.Error(err)
	}
	server.Do("SCRIPT FLUSH")
	create(t, s, record(1, child))
}

func second[T any](_ T, err error) error { return err }

// TestSaysSoon: a Redis that hangs, or that is full, does not hold up a caller (R63).
func TestSaysSoon(t *testing.T) {
	t.Parallel()
	t.Run("Hanging", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		s := open(t, "redis://"+server.Addr+"?write_timeout=500ms", nil)
		defer s.Close()
		server.Pause()
		defer server.Resume()
		began := time.Now()
		err := s.Create(t.Context(), owner, record(1, nil))
		if !errors.Is(err, store.ErrUnavailable) || time.Since(began) > 5*time.Second {
			t.Errorf("%v after %v, want ErrUnavailable", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("enough"))
		defer cancel()
		if _, err := s.Get(ctx, owner, record(1, nil).ID); err == nil || err.Error() != "enough" {
			t.Errorf("after the caller's patience: %v, want its cause", err)
		}
	})
	t.Run("Full", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		s := open(t, "redis://"+server.Addr, nil)
		defer s.Close()
		server.Do("CONFIG SET maxmemory 1")
		if err := s.Create(t.Context(), owner, record(1, nil)); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("create: %v, want ErrUnavailable", err)
		}
		if err := s.Ready(t.Context(), 1); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("ready: %v, want ErrUnavailable", err)
		}
	})
}

// TestReadyAsksOnce: what has just worked is not tried again, in any shard (R41).
func TestReadyAsksOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, "redis://"+server.Addr, nil)
	defer s.Close()
	server.Do("CONFIG RESETSTAT")
	began := time.Now()
	for shard := range uint16(100) {
		if err := s.Ready(t.Context(), shard); err != nil {
			t.Fatal(err)
		}
	}
	most := 1 + int(time.Since(began)/time.Second) // what worked says so for a second
	var asked int
	if _, rest, ok := strings.Cut(server.Do("INFO commandstats"), "cmdstat_set:calls="); ok {
		fmt.Sscan(strings.Split(rest, ",")[0], &asked)
	}
	if asked > most {
		t.Errorf("a hundred questions asked Redis %d times, want at most %d", asked, most)
	}
}

// TestCreatesExactlyOne: a write that is sent many times over counts once (R41).
func TestCreatesExactlyOne(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, "redis://"+server.Addr, nil)
	defer s.Close()
	parent := record(1, nil)
	create(t, s, parent)
	child := record(1, parent)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			if err := s.Create(t.Context(), owner, child); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	// Deleting the parent and the only child wipes both.
	for _, r := range []*store.Record{parent, child} {
		if err := s.Delete(t.Context(), owner, r.ID); err != nil {
			t.Fatal(err)
		}
	}
	c := client(t, "redis://"+server.Addr)
	for _, r := range []*store.Record{parent, child} {
		key := fmt.Sprintf("antiphon:{001}:r:6:team-a:%s", r.ID)
		fields, err := c.Do(t.Context(), c.B().Hkeys().Key(key).Build()).AsStrSlice()
		if err != nil || len(fields) != 1 || fields[0] != "x" {
			t.Errorf("of a deleted response %q stay, %v; want only that it was deleted", fields, err)
		}
	}
}

// TestChainIsOneRoundTrip counts what Redis was asked (R41).
func TestChainIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := open(t, "redis://"+server.Addr, nil)
	defer s.Close()
	var last *store.Record
	for range 50 {
		last = record(1, last)
		create(t, s, last)
	}
	if _, err := s.Chain(t.Context(), owner, last.ID, caps); err != nil { // Redis knows the script now
		t.Fatal(err)
	}
	server.Do("CONFIG RESETSTAT")
	chain, err := s.Chain(t.Context(), owner, last.ID, caps)
	if err != nil || len(chain) != 50 {
		t.Fatalf("%d segments, %v", len(chain), err)
	}
	stats := server.Do("INFO commandstats")
	for _, want := range []string{"cmdstat_evalsha_ro:calls=1,", "cmdstat_hmget:calls=50,"} {
		if !strings.Contains(stats, want) {
			t.Errorf("no %s in:\n%s", want, stats)
		}
	}
}

// TestAdvises: who runs a Redis that loses things is told (R63).
func TestAdvises(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		args []string
		want []string
	}{
		"safe":    {[]string{"--appendonly", "yes"}, nil},
		"evicts":  {[]string{"--appendonly", "yes", "--maxmemory-policy", "allkeys-lru"}, []string{"noeviction"}},
		"forgets": {nil, []string{"appendonly yes"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, tt.args...)
			var log bytes.Buffer
			s := open(t, "redis://"+server.Addr, &redisstore.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			defer s.Close()
			for _, want := range tt.want {
				if !strings.Contains(log.String(), want) {
					t.Errorf("the log does not speak of %q:\n%s", want, log.String())
				}
			}
			if got := strings.Count(log.String(), "\n"); got != len(tt.want) {
				t.Errorf("%d warnings, want %d:\n%s", got, len(tt.want), log.String())
			}
		})
	}
}

// TestTellsThatItIsFull: a Redis that may use no more memory is told apart from
// one that is not there (R35).
func TestTellsThatItIsFull(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory-policy", "noeviction")
	s := open(t, "redis://"+server.Addr, nil)
	defer s.Close()
	create(t, s, record(1, nil))
	server.Do("CONFIG SET maxmemory 1")
	if err := s.Create(t.Context(), owner, record(1, nil)); !errors.Is(err, store.ErrFull) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("%v, want ErrFull, which is ErrUnavailable too", err)
	}
}
