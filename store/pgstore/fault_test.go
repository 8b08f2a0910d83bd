//go:build unix

package pgstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/internal/pgtest"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// TestStateSurvivesRestarts stops and starts PostgreSQL under load, in the way of
// an operator and of a crash: what was acknowledged is there, what was not is
// ErrUnavailable and may be sent again, and another database is not concerned
// (R40, R41).
func TestStateSurvivesRestarts(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	s := open(t, nil, pgtest.URL(t), server.URL()) // shards 0 to 2047, and the rest
	defer s.Close()

	var kept sync.Map
	var failed atomic.Int64
	stop := make(chan struct{})
	var load sync.WaitGroup
	for range 8 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r := record(responses.Shards-1, nil)
				err := s.Create(t.Context(), "o", r)
				for errors.Is(err, store.ErrUnavailable) {
					failed.Add(1)
					time.Sleep(20 * time.Millisecond)
					err = s.Create(t.Context(), "o", r)
				}
				if err != nil {
					t.Error(err)
					return
				}
				kept.Store(r.ID, r)
			}
		})
	}
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT} {
		time.Sleep(300 * time.Millisecond)
		if err := server.Stop(signal); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := s.Ready(t.Context(), responses.Shards-1); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("a stopped database is ready: %v", err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v to say so", took)
		}
		if err := s.Ready(t.Context(), 0); err != nil {
			t.Errorf("the other database: %v", err)
		}
		if err := s.Create(t.Context(), "o", record(0, nil)); err != nil {
			t.Errorf("the other database: %v", err)
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		if err := s.Ready(t.Context(), responses.Shards-1); err != nil {
			t.Errorf("after the start: %v", err)
		}
	}
	time.Sleep(300 * time.Millisecond)
	close(stop)
	load.Wait()

	n := 0
	kept.Range(func(id, r any) bool {
		n++
		got, err := s.Get(t.Context(), "o", id.(string))
		if err != nil {
			t.Fatalf("response %d was acknowledged: %v", n, err)
		}
		if diff := cmp.Diff(r.(*store.Record).Output, got.Output); diff != "" {
			t.Fatal(diff)
		}
		return true
	})
	t.Logf("%d responses kept, %d writes refused meanwhile", n, failed.Load())
	if n < 100 || failed.Load() == 0 {
		t.Errorf("%d kept, %d refused: there was no load, or no outage", n, failed.Load())
	}
}

// TestStateAmbiguousCommit: a connection that is cut around the commit leaves one
// row, whether the write is repeated by the store or by its caller (R41).
func TestStateAmbiguousCommit(t *testing.T) {
	t.Parallel()
	for _, when := range []cutPoint{beforeSending, afterSending, afterCommit} {
		for _, again := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, can connect again %v", when, again), func(t *testing.T) {
				t.Parallel()
				direct := pgtest.URL(t)
				p := newProxy(t, direct)
				s := open(t, nil, p.url(t, direct))
				defer s.Close()
				c := conversation(5)
				must(t, s.CreateConversation(t.Context(), "o", c, nil))
				first := record(5, nil)
				must(t, s.Create(t.Context(), "o", first))
				r := record(5, first)
				r.Conversation = c.ID
				r.Marks = []store.Mark{{Hash: [32]byte{1}, Items: 1}}

				id, _ := responses.IDBytes(r.ID)
				p.arm(when, id[:], again)
				err := s.Create(t.Context(), "o", r)
				if again {
					must(t, err)
				} else {
					if !errors.Is(err, store.ErrUnavailable) {
						t.Errorf("cut off: %v, want ErrUnavailable", err)
					}
					p.refuse.Store(false)
					must(t, s.Create(t.Context(), "o", r))
				}
				if p.cuts.Load() != 1 {
					t.Fatalf("the proxy cut %d times", p.cuts.Load())
				}
				for table, want := range map[string]int{"responses": 2, "response_keys": 3, "conversation_items": 2} {
					if got := count(t, direct, table); got != want {
						t.Errorf("%d rows of %s, want %d", got, table, want)
					}
				}
			})
		}
	}
}

// cutPoint is when a proxy cuts a connection.
type cutPoint string

const (
	beforeSending cutPoint = "before sending"
	afterSending  cutPoint = "after sending"
	afterCommit   cutPoint = "after the commit"
)

// proxy stands between a store and PostgreSQL.
type proxy struct {
	net.Listener
	target string
	refuse atomic.Bool
	cuts   atomic.Int64

	mu     sync.Mutex // guards the rest
	when   cutPoint
	needle []byte // in what the client sends, makes it cut; nil: never
	again  bool
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	u, err := url.Parse(target)
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{Listener: l, target: u.Host}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			if p.refuse.Load() {
				client.Close()
				continue
			}
			conns.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		conns.Wait()
	})
	return p
}

func (p *proxy) url(t *testing.T, target string) string {
	u, err := url.Parse(target)
	must(t, err)
	u.Host = p.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable") // it reads what passes
	u.RawQuery = q.Encode()
	return u.String()
}

// arm makes it cut the connection over which needle is sent, once.
func (p *proxy) arm(when cutPoint, needle []byte, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.when, p.needle, p.again = when, needle, again
}

// cut reports whether to cut, and when.
func (p *proxy) cut(sent []byte) cutPoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.needle == nil || !bytes.Contains(sent, p.needle) {
		return ""
	}
	p.needle = nil
	p.cuts.Add(1)
	p.refuse.Store(!p.again)
	return p.when
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	var swallow atomic.Bool
	var answers sync.WaitGroup
	answers.Go(func() {
		defer client.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			if swallow.Load() {
				// ReadyForQuery, idle: the implicit transaction is committed.
				if bytes.HasSuffix(buf[:n], []byte{'Z', 0, 0, 0, 5, 'I'}) {
					return
				}
				continue
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	defer answers.Wait()
	defer server.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		when := p.cut(buf[:n])
		if when == beforeSending {
			return
		}
		swallow.Store(when == afterCommit)
		if _, err := server.Write(buf[:n]); err != nil || when == afterSending {
			return
		}
	}
}
