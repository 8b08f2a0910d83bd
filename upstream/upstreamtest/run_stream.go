package upstreamtest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// errLeft is the cause with which the suite cancels turns.
var errLeft = errors.New("the client left")

func checkAnswer(t *testing.T, h *Harness) {
	reply := h.whole()
	reply.Header = http.Header{"X-Request-Id": {"req_7"}}
	b := newBench(t, h, reply)
	readWhole(t, h, b)
	if got, want := b.exchange(t).Header.Get("Authorization"), "Bearer "+credential; got != want {
		t.Errorf("Authorization is %q, want %q", got, want)
	}
	t.Run(requestID, func(t *testing.T) {
		h.skip(t, "answer/"+requestID)
		if got := b.open(t, t.Context()).Header.Get("X-Request-Id"); got != "req_7" {
			t.Errorf("the stream's request id is %q, want the upstream's", got)
		}
	})
}

// requestID is the case of an answer's request id.
const requestID = "request id"

func checkSingleBytes(t *testing.T, h *Harness) {
	reply := h.whole()
	reply.Fault.Chunk = 1
	readWhole(t, h, newBench(t, h, reply))
}

// readWhole reads a turn that must end well.
func readWhole(t *testing.T, h *Harness, b *bench) {
	t.Helper()
	r, err := readTurn(b.open(t, t.Context()))
	if err := errors.Join(err, r.err); err != nil {
		t.Fatal(err)
	}
	if r.end.Status != responses.StatusCompleted || r.text != h.Text {
		t.Errorf("the turn ended %q with the text %q, want %q with %q", r.end.Status, r.text, responses.StatusCompleted, h.Text)
	}
}

func checkCut(t *testing.T, h *Harness) {
	begin := h.Endless(0) + h.Endless(1)
	reply := fakeupstream.SSE(begin + h.Endless(2))
	reply.Fault = fakeupstream.Fault{Kind: fakeupstream.Cut, After: len(begin) + 1}
	wantError(t, newBench(t, h, reply).fail(t), responses.CodeUpstream)
}

func checkCutFirst(t *testing.T, h *Harness) {
	b := newBench(t, h, fakeupstream.Reply{Fault: fakeupstream.Fault{Kind: fakeupstream.CutFirst}})
	err := b.fail(t)
	wantError(t, err, responses.CodeUpstream)
	if upstream.SafeToRetry(err) {
		t.Error("safe to retry, although the upstream may have begun to work")
	}
}

func checkUnreachable(t *testing.T, h *Harness) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	base := &url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/v1"}
	l.Close() // nobody listens there any more
	d := h.New(upstream.Endpoint{Base: base, Client: upstream.NewClient()})
	defer d.Close()
	_, err = d.Open(t.Context(), newTurn())
	wantError(t, err, responses.CodeUpstream)
	if !upstream.SafeToRetry(err) {
		t.Errorf("not safe to retry, although nothing was sent: %v", err)
	}
}

// wantError checks an error that the upstream caused.
func wantError(t *testing.T, err error, code responses.Code) {
	t.Helper()
	e, ok := errors.AsType[*responses.Error](err)
	if !ok {
		t.Fatalf("the error is %v, want a *responses.Error", err)
	}
	if e.Code != code || e.Origin != responses.OriginUpstream {
		t.Errorf("the error is %v with origin %q, want code %s and origin %q", e, e.Origin, code, responses.OriginUpstream)
	}
	if e.Message == "" {
		t.Error("the error has no message")
	}
}

// checkBreak: a reader that stops reading is never called again (the compiler's
// range loop panics if it is), and closing then ends the exchange.
func checkBreak(t *testing.T, h *Harness) {
	b := newBench(t, h, h.endless())
	s := b.open(t, t.Context())
	first(t, s)
	soon(t, "closing a stream that nobody reads any more", func() { closeStream(t, s) })
	awaitClosed(t, "letting go of the connection", b.exchange(t).Gone())
}

// first reads the first event of s and stops.
func first(t *testing.T, s *upstream.Stream) {
	t.Helper()
	for _, err := range s.Events {
		if err != nil {
			t.Fatalf("instead of the first event: %v", err)
		}
		return
	}
	t.Fatal("no event")
}

func checkCancelFirst(t *testing.T, h *Harness) {
	b := newBench(t, h, fakeupstream.Reply{Fault: fakeupstream.Fault{Kind: fakeupstream.StallFirst}})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	failed := make(chan error, 1)
	go func() {
		s, err := b.driver.Open(ctx, newTurn())
		if err == nil {
			err = errors.Join(errors.New("open succeeded without an answer"), s.Close())
		}
		failed <- err
	}()
	x := b.exchange(t)
	<-x.Stalled()
	cancel(errLeft)
	soon(t, "noticing the cancel", func() {
		if err := <-failed; !errors.Is(err, errLeft) {
			t.Errorf("open: %v, want the cause of the context", err)
		}
	})
	awaitClosed(t, "letting go of the connection", x.Gone())
}

func checkCancelMidway(t *testing.T, h *Harness) {
	for _, kind := range []struct {
		name  string
		reply fakeupstream.Reply
	}{{"busy", h.endless()}, {"silent", h.stalled()}} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, h, kind.reply)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			s := b.open(t, ctx)
			soon(t, "noticing the cancel", func() {
				if err := readAndThen(s, func() { cancel(errLeft) }); !errors.Is(err, errLeft) {
					t.Errorf("the turn failed with %v, want the cause of the context", err)
				}
			})
			awaitClosed(t, "letting go of the connection", b.exchange(t).Gone())
		})
	}
}

// errNoFailure is what readAndThen returns for a stream that does not fail.
var errNoFailure = errors.New("the stream ended without an error")

// readAndThen calls f at the first event and returns the error with which the
// stream ends.
func readAndThen(s *upstream.Stream, f func()) error {
	once := sync.OnceFunc(f)
	for ev, err := range s.Events {
		switch {
		case err != nil:
			return err
		case ev.Type == responses.EventTurnEnd:
			return errNoFailure
		}
		once()
	}
	return errNoFailure
}

// checkCloseWhileReading closes the stream twice, from other goroutines, while
// a read waits for the upstream.
func checkCloseWhileReading(t *testing.T, h *Harness) {
	b := newBench(t, h, h.stalled())
	s := b.open(t, t.Context())
	var closers sync.WaitGroup
	soon(t, "unblocking the read", func() {
		err := readAndThen(s, func() {
			for range 2 {
				closers.Go(func() { closeStream(t, s) })
			}
		})
		if errors.Is(err, errNoFailure) {
			t.Error(err)
		}
	})
	closers.Wait()
	awaitClosed(t, "letting go of the connection", b.exchange(t).Gone())
}

func checkCloseUnread(t *testing.T, h *Harness) {
	b := newBench(t, h, h.endless())
	s := b.open(t, t.Context())
	soon(t, "closing a stream that was never read", func() { closeStream(t, s) })
	awaitClosed(t, "letting go of the connection", b.exchange(t).Gone())
	for ev, err := range s.Events {
		if err == nil {
			t.Errorf("a closed stream yields %s", ev.Type)
		}
	}
}

// checkCloseDriver: open streams end with an error, new ones are refused.
func checkCloseDriver(t *testing.T, h *Harness) {
	b := newBench(t, h, h.stalled())
	s := b.open(t, t.Context())
	closed := make(chan error, 1)
	soon(t, "ending the streams of a closed driver", func() {
		err := readAndThen(s, func() { go func() { closed <- b.driver.Close() }() })
		if errors.Is(err, errNoFailure) {
			t.Error(err)
		}
		if err := <-closed; err != nil {
			t.Errorf("close: %v", err)
		}
	})
	awaitClosed(t, "letting go of the connection", b.exchange(t).Gone())
	if s, err := b.driver.Open(t.Context(), newTurn()); err == nil {
		s.Close()
		t.Error("a closed driver opens turns")
	}
}

// checkIndependent runs turns side by side, next to one that hangs.
func checkIndependent(t *testing.T, h *Harness) {
	hanging := newBench(t, h, h.stalled())
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	slow := hanging.open(t, ctx)
	first(t, slow)
	b := newBench(t, h, h.whole())
	var turns sync.WaitGroup
	for range 8 {
		s := b.open(t, t.Context())
		turns.Go(func() {
			r, err := readTurn(s)
			if err := errors.Join(err, r.err); err != nil || r.text != h.Text {
				t.Errorf("the text is %q (error %v), want %q", r.text, err, h.Text)
			}
		})
	}
	turns.Wait()
}
