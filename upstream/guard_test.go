package upstream_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// A step is something that a scripted upstream does. It returns false when the
// stream is over.
type step func(ctx context.Context, yield func(responses.Event, error) bool) bool

func send(events ...responses.Event) step {
	return func(_ context.Context, yield func(responses.Event, error) bool) bool {
		for _, ev := range events {
			if !yield(ev, nil) {
				return false
			}
		}
		return true
	}
}

// errRead stands for what a broken read of a connection says.
var errRead = errors.New("read tcp: use of closed network connection")

// silent says nothing for d, unless the turn is cancelled.
func silent(d time.Duration) step {
	return func(ctx context.Context, yield func(responses.Event, error) bool) bool {
		select {
		case <-time.After(d):
			return true
		case <-ctx.Done():
			yield(responses.Event{}, errRead)
			return false
		}
	}
}

// silentStop is like silent, but a cancelled stream just ends.
func silentStop(ctx context.Context, _ func(responses.Event, error) bool) bool {
	<-ctx.Done()
	return false
}

func fail(err error) step {
	return func(_ context.Context, yield func(responses.Event, error) bool) bool {
		yield(responses.Event{}, err)
		return false
	}
}

// scripted is a driver that does its steps.
type scripted struct {
	open   func(ctx context.Context) error
	steps  []step
	closed int
}

func (d *scripted) Open(ctx context.Context, _ *upstream.Turn) (*upstream.Stream, error) {
	if d.open != nil {
		if err := d.open(ctx); err != nil {
			return nil, err
		}
	}
	return &upstream.Stream{
		Losses: []responses.Loss{{Param: "p", Reason: "r"}},
		Header: http.Header{"Retry-After": {"1"}},
		Events: func(yield func(responses.Event, error) bool) {
			for _, do := range d.steps {
				if !do(ctx, yield) {
					return
				}
			}
		},
		Close: func() error { d.closed++; return nil },
	}, nil
}

func (d *scripted) Close() error { return nil }

// turn returns the events of a whole turn: the message's first events, a delta
// for each text, and the rest.
func turn(texts ...string) []responses.Event {
	c := responses.NewComposer(0, time.Now)
	for _, s := range texts {
		c.Text(s, nil)
	}
	c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
	return slices.Clone(c.Take())
}

// result is what a reader of a guarded stream saw.
type result struct {
	events int
	err    error
	took   time.Duration
}

// read runs the steps under a guard and reads all; the reader takes pause for
// each event.
func read(ctx context.Context, t *testing.T, limits upstream.Limits, pause time.Duration, steps ...step) result {
	t.Helper()
	d := &scripted{steps: steps}
	start := time.Now()
	s, err := upstream.Guard(d, limits).Open(ctx, &upstream.Turn{})
	if err != nil {
		t.Fatal(err)
	}
	var r result
	for _, err := range s.Events {
		if r.err != nil {
			t.Fatalf("after the error %v came %v", r.err, err)
		}
		if r.err = err; err == nil {
			r.events++
		}
		time.Sleep(pause)
	}
	r.took = time.Since(start)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if d.closed != 1 {
		t.Errorf("the driver's stream was closed %d times, want once", d.closed)
	}
	return r
}

func TestGuardTime(t *testing.T) {
	t.Parallel()
	whole := turn("a", "b")
	head, tail := whole[:3], whole[3:]
	const s = time.Second
	tests := []struct {
		name   string
		limits upstream.Limits
		pause  time.Duration // of the reader
		steps  []step
		err    error
		took   time.Duration
	}{
		{name: "in time", limits: upstream.Limits{FirstEvent: 10 * s, Idle: 5 * s},
			steps: []step{silent(9 * s), send(head...), silent(4 * s), send(tail...)}, took: 13 * s},
		{name: "first event late", limits: upstream.Limits{FirstEvent: 10 * s, Idle: 5 * s},
			steps: []step{silent(11 * s), send(whole...)}, err: upstream.ErrFirstEvent, took: 10 * s},
		{name: "first event late, and the stream just ends", limits: upstream.Limits{FirstEvent: 10 * s, Idle: 5 * s},
			steps: []step{silentStop}, err: upstream.ErrFirstEvent, took: 10 * s},
		{name: "default first event", steps: []step{silent(time.Hour)}, err: upstream.ErrFirstEvent, took: 120 * s},
		{name: "idle", limits: upstream.Limits{FirstEvent: 10 * s, Idle: 20 * s},
			steps: []step{silent(s), send(head...), silent(time.Hour)}, err: upstream.ErrIdle, took: 21 * s},
		{name: "idle is shorter than the first event", limits: upstream.Limits{FirstEvent: time.Hour, Idle: 5 * s},
			steps: []step{silent(s), send(head...), silent(2 * time.Hour)}, err: upstream.ErrIdle, took: 6 * s},
		{name: "idle after an event at once", limits: upstream.Limits{FirstEvent: 10 * s, Idle: 5 * s},
			steps: []step{send(head...), silent(time.Hour)}, err: upstream.ErrIdle, took: 5 * s},
		{name: "idle late in the stream", limits: upstream.Limits{FirstEvent: 10 * s, Idle: 5 * s},
			steps: []step{send(head[0]), silent(4 * s), send(head[1]), silent(4 * s), send(head[2]), silentStop}, err: upstream.ErrIdle, took: 13 * s},
		{name: "default idle", steps: []step{send(head...), silent(time.Hour)}, err: upstream.ErrIdle, took: 300 * s},
		{name: "no bound for the first event", limits: upstream.Limits{FirstEvent: -1, Idle: 5 * s},
			steps: []step{silent(time.Hour), send(head...), silent(time.Hour)}, err: upstream.ErrIdle, took: time.Hour + 5*s},
		{name: "no bound for silence", limits: upstream.Limits{FirstEvent: 5 * s, Idle: -1},
			steps: []step{silent(s), send(head...), silent(time.Hour), send(tail...)}, took: time.Hour + s},
		{name: "no bound at all", limits: upstream.Limits{FirstEvent: -1, Idle: -1},
			steps: []step{silent(time.Hour), send(head...), silent(time.Hour), send(tail...)}, took: 2 * time.Hour},
		{name: "a slow reader is not a silent upstream", limits: upstream.Limits{FirstEvent: 5 * s, Idle: 5 * s}, pause: time.Minute,
			steps: []step{send(whole...)}, took: time.Duration(len(whole)) * time.Minute},
		{name: "silence counts from when the reader asks again", limits: upstream.Limits{FirstEvent: 5 * s, Idle: 5 * s}, pause: time.Minute,
			steps: []step{send(head[0]), silent(time.Hour)}, err: upstream.ErrIdle, took: time.Minute + 5*s + time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				got := read(t.Context(), t, tt.limits, tt.pause, tt.steps...)
				if got.err != tt.err || got.took != tt.took {
					t.Errorf("got %v after %v, want %v after %v", got.err, got.took, tt.err, tt.took)
				}
				if tt.err == nil && got.events != len(whole) {
					t.Errorf("got %d events, want %d", got.events, len(whole))
				}
			})
		})
	}
}

// TestGuardContract: nothing that an upstream does passes as a success (R15).
func TestGuardContract(t *testing.T) {
	t.Parallel()
	whole := turn("hello", "world")
	boom := responses.UpstreamErrorf(responses.CodeOverloaded, "Busy.")
	text := func(size int) responses.Event {
		return responses.Event{Type: responses.EventTextDelta, ItemID: whole[0].Item.ItemID(), Text: strings.Repeat("x", size)}
	}
	tests := []struct {
		name   string
		limits upstream.Limits
		steps  []step
		events int
		code   responses.Code
		words  string
	}{
		{name: "whole", steps: []step{send(whole...)}, events: len(whole)},
		{name: "events after the end are ignored", steps: []step{send(whole...), send(whole...), fail(boom)}, events: len(whole)},
		{name: "nothing at all", code: responses.CodeUpstream, words: "ended without"},
		{name: "just stops", steps: []step{send(whole[:4]...)}, events: 4, code: responses.CodeUpstream, words: "ended without"},
		{name: "stops before the turn's end", steps: []step{send(whole[:len(whole)-1]...)}, events: len(whole) - 1, code: responses.CodeUpstream, words: "ended without"},
		{name: "an error of the driver", steps: []step{send(whole[:2]...), fail(boom)}, events: 2, code: responses.CodeOverloaded, words: "Busy."},
		{name: "a delta before its part", steps: []step{send(whole[0], whole[2])}, events: 1, code: responses.CodeUpstream, words: "response.output_text.delta"},
		{name: "a lifecycle event", steps: []step{send(responses.Event{Type: responses.EventCreated, Response: &responses.Response{}})}, code: responses.CodeUpstream, words: "lifecycle"},
		{name: "too much text", limits: upstream.Limits{Bytes: 100}, steps: []step{send(whole[:2]...), send(text(60), text(60), text(60))}, events: 3, code: responses.CodeUpstream, words: "larger than 100 bytes"},
		{name: "too much that is raw", limits: upstream.Limits{Bytes: 100}, steps: []step{send(responses.Event{Type: "acme:x", Raw: []byte(`{"a":"` + strings.Repeat("x", 100) + `"}`)})}, code: responses.CodeUpstream, words: "larger than 100 bytes"},
		{name: "no bound on the size", limits: upstream.Limits{Bytes: -1}, steps: []step{send(whole[:2]...), send(text(65 << 20)), fail(boom)}, events: 3, code: responses.CodeOverloaded},
		{name: "default size", steps: []step{send(whole[:2]...), send(text(64<<20), text(1))}, events: 3, code: responses.CodeUpstream, words: "larger than"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := read(t.Context(), t, tt.limits, 0, tt.steps...)
			if got.events != tt.events {
				t.Errorf("got %d events, want %d", got.events, tt.events)
			}
			if tt.code == "" {
				if got.err != nil {
					t.Error(got.err)
				}
				return
			}
			e, ok := errors.AsType[*responses.Error](got.err)
			if !ok || e.Code != tt.code || e.Origin != responses.OriginUpstream || !strings.Contains(e.Message, tt.words) {
				t.Errorf("got %v, want %s of the upstream with %q", got.err, tt.code, tt.words)
			}
		})
	}
}

// TestGuardCancelled: a reader that goes away is told its own cause, not how the
// read failed.
func TestGuardCancelled(t *testing.T) {
	t.Parallel()
	gone := errors.New("the client is gone")
	for name, last := range map[string]step{"error": silent(time.Hour), "end": silentStop} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancel(gone) })
				got := read(ctx, t, upstream.Limits{}, 0, send(turn("a")[:3]...), last)
				if got.err != gone || got.took != time.Second {
					t.Errorf("got %v after %v, want %v after 1s", got.err, got.took, gone)
				}
			})
		})
	}
}

func TestGuardOpen(t *testing.T) {
	t.Parallel()
	refused := responses.Unsupported("tools", "No tools.")
	gone := errors.New("the client is gone")
	untilCancelled := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	tests := []struct {
		name   string
		open   func(ctx context.Context) error
		cancel time.Duration // when the client goes
		want   error
		took   time.Duration
	}{
		{name: "refused", open: func(context.Context) error { return refused }, want: refused},
		{name: "too slow", open: untilCancelled, want: upstream.ErrFirstEvent, took: 10 * time.Second},
		{name: "client gone", open: untilCancelled, cancel: time.Second, want: gone, took: time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				if tt.cancel > 0 {
					time.AfterFunc(tt.cancel, func() { cancel(gone) })
				}
				start := time.Now()
				_, err := upstream.Guard(&scripted{open: tt.open}, upstream.Limits{FirstEvent: 10 * time.Second}).Open(ctx, &upstream.Turn{})
				if took := time.Since(start); err != tt.want || took != tt.took {
					t.Errorf("got %v after %v, want %v after %v", err, took, tt.want, tt.took)
				}
				cancel(nil)
			})
		})
	}
}

// TestGuardOpenCountsTowardsTheFirstEvent: the time to the first event begins
// when the turn is opened, not when the upstream has accepted it.
func TestGuardOpenCountsTowardsTheFirstEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &scripted{
			open:  func(context.Context) error { time.Sleep(6 * time.Second); return nil },
			steps: []step{silent(time.Hour)},
		}
		start := time.Now()
		s, err := upstream.Guard(d, upstream.Limits{FirstEvent: 10 * time.Second}).Open(t.Context(), &upstream.Turn{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, err := range s.Events {
			if took := time.Since(start); err != upstream.ErrFirstEvent || took != 10*time.Second {
				t.Errorf("got %v after %v, want %v after 10s", err, took, upstream.ErrFirstEvent)
			}
		}
	})
}

// TestGuardClose: closing a stream cancels what the driver waits for, at any
// time and from any goroutine, and leaves nothing behind.
func TestGuardClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &scripted{steps: []step{send(turn("a")[:3]...), silent(time.Hour)}}
		s, err := upstream.Guard(d, upstream.Limits{}).Open(t.Context(), &upstream.Turn{})
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { s.Close() })
		start := time.Now()
		var last error
		for _, err := range s.Events {
			last = err
		}
		if last == nil || time.Since(start) != time.Second {
			t.Errorf("got %v after %v, want an error after 1s", last, time.Since(start))
		}
	})
}

func TestGuardPassesOn(t *testing.T) {
	t.Parallel()
	d := &scripted{steps: []step{send(turn("a")...)}}
	guarded := upstream.Guard(d, upstream.Limits{})
	s, err := guarded.Open(t.Context(), &upstream.Turn{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if diff := cmp.Diff([]responses.Loss{{Param: "p", Reason: "r"}}, s.Losses); diff != "" {
		t.Errorf("losses (-want +got):\n%s", diff)
	}
	if got := s.Header.Get("Retry-After"); got != "1" {
		t.Errorf("the header has Retry-After %q, want 1", got)
	}
	// A reader may stop early; nobody asks the driver for more.
	for range s.Events {
		break
	}
	if models, err := guarded.(upstream.ModelLister).Models(t.Context()); models != nil || err != nil {
		t.Errorf("a driver that cannot list models lists %v, %v", models, err)
	}
	if err := guarded.Close(); err != nil {
		t.Error(err)
	}
}
