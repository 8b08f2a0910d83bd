package upstreamtest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// inBubble runs f in a bubble where time is exact, with an upstream that is
// reached over pipes. The bubble does not end before every goroutine in it has,
// so a driver that leaves one behind fails.
func inBubble(t *testing.T, h *Harness, reply func(n int) fakeupstream.Reply, f func(t *testing.T, b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		fake := fakeupstream.NewServer(func(*fakeupstream.Exchange) fakeupstream.Reply {
			n++
			return reply(n - 1)
		})
		pipes := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		server := &http.Server{Handler: fake}
		served := make(chan error, 1)
		go func() { served <- server.Serve(pipes) }()
		tr := &http.Transport{DialContext: pipes.dial}
		base := &url.URL{Scheme: "http", Host: "upstream.test", Path: "/v1"}
		b := &bench{h.New(upstream.Endpoint{Base: base, Client: &http.Client{Transport: tr}}), fake}

		f(t, b)

		if err := b.driver.Close(); err != nil {
			t.Errorf("close driver: %v", err)
		}
		fake.Close()
		tr.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Errorf("close server: %v", err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serve: %v", err)
		}
	})
}

// pipeListener is a listener whose connections are pipes in memory.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Accept implements [net.Listener].
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener]. The server calls it once.
func (l *pipeListener) Close() error {
	close(l.closed)
	return nil
}

// Addr implements [net.Listener].
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "upstream.test", Net: "pipe"} }

// limits are those of the checks about silence.
var limits = upstream.Limits{FirstEvent: 20 * time.Second, Idle: 50 * time.Second}

// guarded returns the bench with its driver under guard.
func (b *bench) guarded() *bench { return &bench{upstream.Guard(b.driver, limits), b.fake} }

func checkGuardFirstEvent(t *testing.T, h *Harness) {
	headers := fakeupstream.SSE(": here\n\n")
	headers.Fault = fakeupstream.Fault{Kind: fakeupstream.Stall, After: len(headers.Body)}
	for name, reply := range map[string]fakeupstream.Reply{
		"no headers":   {Fault: fakeupstream.Fault{Kind: fakeupstream.StallFirst}},
		"headers only": headers,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, h, always(reply), func(t *testing.T, b *bench) {
				start := time.Now()
				err := b.guarded().fail(t)
				wantSilence(t, err, upstream.ErrFirstEvent, time.Since(start), limits.FirstEvent)
				<-b.exchange(t).Gone()
			})
		})
	}
}

func checkGuardIdle(t *testing.T, h *Harness) {
	reply := h.stalled()
	reply.Delay = time.Second // so that the first event is later than the turn's start
	inBubble(t, h, always(reply), func(t *testing.T, b *bench) {
		start := time.Now()
		err := b.guarded().fail(t)
		wantSilence(t, err, upstream.ErrIdle, time.Since(start), limits.Idle)
		<-b.exchange(t).Gone()
	})
}

func always(r fakeupstream.Reply) func(int) fakeupstream.Reply {
	return func(int) fakeupstream.Reply { return r }
}

func wantSilence(t *testing.T, err, want error, took, limit time.Duration) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("the turn failed with %v, want %v", err, want)
	}
	if took < limit || took > 2*limit {
		t.Errorf("it took %v, want the limit of %v", took, limit)
	}
}

// checkNothingLeft runs a turn to each kind of end. The bubble then waits for
// every goroutine of the driver.
func checkNothingLeft(t *testing.T, h *Harness) {
	replies := []fakeupstream.Reply{h.whole(), h.endless(), h.stalled(), fakeupstream.JSON(500, `{}`), h.endless()}
	inBubble(t, h, func(n int) fakeupstream.Reply { return replies[n] }, func(t *testing.T, b *bench) {
		r, err := readTurn(b.open(t, t.Context()))
		if err := errors.Join(err, r.err); err != nil {
			t.Errorf("whole turn: %v", err)
		}
		first(t, b.open(t, t.Context()))
		ctx, cancel := context.WithCancelCause(t.Context())
		if err := readAndThen(b.open(t, ctx), func() { cancel(errLeft) }); !errors.Is(err, errLeft) {
			t.Errorf("cancelled turn: %v, want the cause of the context", err)
		}
		wantError(t, b.fail(t), responses.CodeUpstream)
		b.open(t, t.Context()) // never read
	})
}
