package engine_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openFunc is an engine.Opener.
type openFunc func(ctx context.Context, t *upstream.Turn) (*upstream.Stream, error)

func (f openFunc) Open(ctx context.Context, t *upstream.Turn) (*upstream.Stream, error) {
	return f(ctx, t)
}

// answer opens streams that yield what events yields.
func answer(events func(ctx context.Context) iter.Seq2[responses.Event, error]) openFunc {
	return func(ctx context.Context, _ *upstream.Turn) (*upstream.Stream, error) {
		return &upstream.Stream{Upstream: "fake", Events: events(ctx), Close: func() error { return nil }}, nil
	}
}

// rig is an engine whose jobs all go to the same opener.
type rig struct {
	*engine.Engine
	open engine.Opener
}

func newRig(open engine.Opener, log store.Log, opts *engine.Options) *rig {
	return &rig{engine.New(log, opts), open}
}

func (r *rig) Start(ctx context.Context, job *engine.Job) (*engine.Run, error) {
	job.Opener = r.open
	return r.Engine.Start(ctx, job)
}

// say is the events of a turn that says the given words.
func say(words ...string) []responses.Event {
	c := responses.NewComposer(0, time.Now)
	for _, w := range words {
		c.Text(w, nil)
	}
	c.End(&responses.TurnEnd{Status: responses.StatusCompleted, Usage: &responses.Usage{InputTokens: 1, OutputTokens: 2, TotalTokens: 3}})
	return c.Take()
}

// script yields events, then err if it is not nil, then waits if wait is true.
type script struct {
	events []responses.Event
	err    error
	wait   bool
	panics bool
}

func (s script) run(ctx context.Context) iter.Seq2[responses.Event, error] {
	return func(yield func(responses.Event, error) bool) {
		for _, ev := range s.events {
			if !yield(ev, nil) {
				return
			}
		}
		if s.panics {
			panic("a defect in a driver")
		}
		if s.wait {
			<-ctx.Done()
			yield(responses.Event{}, context.Cause(ctx))
			return
		}
		if s.err != nil {
			yield(responses.Event{}, s.err)
		}
	}
}

func request(t *testing.T, body string) *responses.Request {
	t.Helper()
	req, err := responses.DecodeRequest([]byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func start(t *testing.T, e *rig) *engine.Run {
	t.Helper()
	run, err := e.Start(t.Context(), &engine.Job{Owner: "o", Request: request(t, `{"model":"m","input":"hi"}`)})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// readAll follows a run to its end, checks the order of its events, and returns
// them.
func readAll(t *testing.T, e *rig, run *engine.Run) []responses.Event {
	t.Helper()
	var events []responses.Event
	for batch, err := range e.Follow(t.Context(), "o", run.ID(), -1) {
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range batch {
			ev, err := responses.DecodeEvent(append([]byte(nil), entry.Data...))
			if err != nil {
				t.Fatalf("%s: %v", entry.Data, err)
			}
			events = append(events, ev)
		}
	}
	if err := responses.CheckSequence(events); err != nil {
		t.Fatal(err)
	}
	<-run.Done()
	return events
}

// TestEveryEndHasOneTerminalEventAndOneCause covers every way in which a run can
// end by itself (R13-R16).
func TestEveryEndHasOneTerminalEventAndOneCause(t *testing.T) {
	t.Parallel()
	words := say("hello", " world")
	cut := words[:4] // added, part added, two deltas
	incomplete := responses.NewComposer(0, time.Now)
	incomplete.Text("hel", nil)
	incomplete.End(&responses.TurnEnd{Status: responses.StatusIncomplete, Reason: responses.ReasonMaxOutputTokens})
	upstreamErr := responses.UpstreamErrorf(responses.CodeRateLimit, "slow down")
	refuse := func(err error) openFunc {
		return func(context.Context, *upstream.Turn) (*upstream.Stream, error) { return nil, err }
	}
	for name, test := range map[string]struct {
		open  openFunc
		last  responses.EventType
		cause engine.Cause
		code  responses.Code
	}{
		"completed":               {answer(script{events: words}.run), responses.EventCompleted, engine.CauseCompleted, ""},
		"incomplete":              {answer(script{events: incomplete.Take()}.run), responses.EventIncomplete, engine.CauseIncomplete, ""},
		"stops without an end":    {answer(script{events: cut}.run), responses.EventFailed, engine.CauseUpstream, responses.CodeUpstream},
		"says nothing at all":     {answer(script{}.run), responses.EventFailed, engine.CauseUpstream, responses.CodeUpstream},
		"fails before an event":   {answer(script{err: upstreamErr}.run), responses.EventFailed, engine.CauseUpstream, responses.CodeRateLimit},
		"fails in the middle":     {answer(script{events: cut, err: upstreamErr}.run), responses.EventFailed, engine.CauseUpstream, responses.CodeRateLimit},
		"a plain error":           {answer(script{err: errors.New("secret detail")}.run), responses.EventFailed, engine.CauseInternal, responses.CodeServer},
		"silent for too long":     {answer(script{events: cut, err: upstream.ErrIdle}.run), responses.EventFailed, engine.CauseIdle, responses.CodeTimeout},
		"panics":                  {answer(script{events: cut, panics: true}.run), responses.EventFailed, engine.CausePanic, responses.CodeServer},
		"refused by the driver":   {refuse(responses.Unsupported("tools[0]", "no")), responses.EventFailed, engine.CauseRefused, responses.CodeUnsupported},
		"refused by the upstream": {refuse(upstreamErr), responses.EventFailed, engine.CauseUpstream, responses.CodeRateLimit},
		"unknown model":           {refuse(responses.InvalidParam(responses.CodeModelNotFound, "model", "no")), responses.EventFailed, engine.CauseRefused, responses.CodeModelNotFound},
		"longer than allowed":     {answer(script{events: cut, wait: true}.run), responses.EventFailed, engine.CauseTotalTime, responses.CodeTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newRig(test.open, memstore.NewWindow(nil), nil)
				run := start(t, e)
				events := readAll(t, e, run)
				last := events[len(events)-1]
				if last.Type != test.last {
					t.Errorf("the last event is %s, want %s", last.Type, test.last)
				}
				end := run.End()
				if end.Cause != test.cause {
					t.Errorf("the cause is %s, want %s", end.Cause, test.cause)
				}
				if test.code == "" && end.Err != nil || test.code != "" && (end.Err == nil || end.Err.Code != test.code) {
					t.Errorf("the error is %v, want code %q", end.Err, test.code)
				}
				if test.code != "" && last.Response.Error.Code != test.code {
					t.Errorf("response.error.code is %q, want %q", last.Response.Error.Code, test.code)
				}
				if end.Events != int64(len(events)) {
					t.Errorf("%d events were counted, %d were read", end.Events, len(events))
				}
			})
		})
	}
}

// TestFailuresCostToo: what a turn used before it failed is counted (R16).
func TestFailuresCostToo(t *testing.T) {
	t.Parallel()
	costly := &upstream.Costly{Err: responses.UpstreamErrorf(responses.CodeUpstream, "no"), Usage: &responses.Usage{TotalTokens: 9}}
	e := newRig(answer(script{events: say("so")[:3], err: costly}.run), memstore.NewWindow(nil), nil)
	run := start(t, e)
	events := readAll(t, e, run)
	last := events[len(events)-1].Response
	if last.Usage == nil || last.Usage.TotalTokens != 9 || run.End().Usage.TotalTokens != 9 || last.Error.Code != responses.CodeUpstream {
		t.Errorf("usage is %+v, the error %+v", last.Usage, last.Error)
	}
}

func TestErrorsOfOthersStayPrivate(t *testing.T) {
	t.Parallel()
	e := newRig(answer(script{err: errors.New("secret detail")}.run), memstore.NewWindow(nil), nil)
	run := start(t, e)
	events := readAll(t, e, run)
	if got := events[len(events)-1].Response.Error.Message; got != "The gateway could not finish the response." {
		t.Errorf("the client is told %q", got)
	}
}

// TestReaderDecidesTheEnd covers the ends that come from the reader's side.
func TestReaderDecidesTheEnd(t *testing.T) {
	t.Parallel()
	endless := func(ctx context.Context) iter.Seq2[responses.Event, error] {
		return func(yield func(responses.Event, error) bool) {
			for _, ev := range say("x")[:2] {
				if !yield(ev, nil) {
					return
				}
			}
			delta := say("x")[2]
			delta.ItemID = say("x")[0].Item.ItemID()
			for yield(delta, nil) {
			}
		}
	}
	for name, test := range map[string]struct {
		cancel error // nil: nobody reads, so the window fills
		cause  engine.Cause
		after  time.Duration
	}{
		"client gone": {engine.ErrClientGone, engine.CauseClientGone, 0},
		"cancelled":   {engine.ErrCancelled, engine.CauseCancelled, 0},
		"slow reader": {nil, engine.CauseSlowReader, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newRig(answer(endless), memstore.NewWindow(nil), nil)
				began := time.Now()
				run := start(t, e)
				synctest.Wait() // the window is full
				if test.cancel != nil {
					run.Cancel(test.cancel)
				}
				<-run.Done()
				if got := run.End().Cause; got != test.cause {
					t.Errorf("the cause is %s, want %s", got, test.cause)
				}
				if got := time.Since(began); got != test.after {
					t.Errorf("it took %v, want %v", got, test.after)
				}
			})
		})
	}
}

func TestReadyTellsHowToBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		accept := make(chan struct{})
		e := newRig(openFunc(func(ctx context.Context, turn *upstream.Turn) (*upstream.Stream, error) {
			<-accept
			s, err := answer(script{events: say("x")}.run)(ctx, turn)
			s.Losses = []responses.Loss{{Param: "truncation", Reason: "no such thing"}}
			return s, err
		}), memstore.NewWindow(nil), nil)
		run, err := e.Start(t.Context(), &engine.Job{Owner: "o", Request: request(t, `{"model":"m","input":"hi","store":true}`)})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case <-run.Ready():
			t.Fatal("ready before an upstream accepted")
		default:
		}
		close(accept)
		<-run.Ready()
		if head := run.Head(); head.Upstream != "fake" || len(head.Losses) != 2 || run.Refusal() != nil {
			t.Errorf("head is %+v and the refusal %v", head, run.Refusal())
		}
		readAll(t, e, run)
	})
}

func TestRefusalIsKnownWhenReady(t *testing.T) {
	t.Parallel()
	want := responses.UpstreamErrorf(responses.CodeQuota, "no money")
	e := newRig(openFunc(func(context.Context, *upstream.Turn) (*upstream.Stream, error) { return nil, want }), memstore.NewWindow(nil), nil)
	run := start(t, e)
	<-run.Ready()
	if run.Refusal() != want {
		t.Errorf("the refusal is %v, want %v", run.Refusal(), want)
	}
	<-run.Done()
}

// TestStateIsRefusedByName: what needs memory is never ignored (R40).
func TestStateIsRefusedByName(t *testing.T) {
	t.Parallel()
	e := newRig(answer(script{events: say("x")}.run), memstore.NewWindow(nil), nil)
	for param, body := range map[string]string{
		"previous_response_id": `{"model":"m","input":"x","previous_response_id":"resp_1"}`,
		"conversation":         `{"model":"m","input":"x","conversation":{"id":"conv_1"}}`,
		"background":           `{"model":"m","input":"x","background":true}`,
	} {
		_, err := e.Start(t.Context(), &engine.Job{Owner: "o", Request: request(t, body)})
		if got := responses.AsError(err); got == nil || got.Code != responses.CodeUnsupported || got.Param != param {
			t.Errorf("%s: %v", param, err)
		}
	}
	for name, body := range map[string]string{
		"null conversation": `{"model":"m","input":"x","conversation":null,"previous_response_id":null}`,
		"not in background": `{"model":"m","input":"x","background":false}`,
	} {
		run, err := e.Start(t.Context(), &engine.Job{Owner: "o", Request: request(t, body)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		<-run.Done()
	}
}

func TestIDsStayUniqueWithinAResponse(t *testing.T) {
	t.Parallel()
	item := func(i int) []responses.Event {
		call := &responses.FunctionCall{ID: "fc_same", CallID: "call_1", Name: "f", Arguments: "{}"}
		return []responses.Event{
			{Type: responses.EventItemAdded, OutputIndex: i, Item: call},
			{Type: responses.EventArgumentsDelta, OutputIndex: i, ItemID: "fc_same", Text: "{}"},
			{Type: responses.EventArgumentsDone, OutputIndex: i, ItemID: "fc_same", Text: "{}"},
			{Type: responses.EventItemDone, OutputIndex: i, Item: call},
		}
	}
	events := append(item(0), item(1)...)
	events = append(events, responses.Event{Type: responses.EventTurnEnd, End: &responses.TurnEnd{Status: responses.StatusCompleted}})
	e := newRig(answer(script{events: events}.run), memstore.NewWindow(nil), nil)
	got := readAll(t, e, start(t, e)) // the grammar checks ids within an item
	out := got[len(got)-1].Response.Output
	if a, b := out[0].ItemID(), out[1].ItemID(); a == b || !responses.ValidID(responses.PrefixFunctionCall, b) {
		t.Errorf("ids are %q and %q", a, b)
	}
}

func TestStopWaitsThenCancels(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newRig(answer(script{events: say("x")[:3], wait: true}.run), memstore.NewWindow(nil), nil)
		run := start(t, e)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := e.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stop: %v", err)
		}
		if got := time.Since(began); got != time.Minute {
			t.Errorf("stop took %v, want 1m", got)
		}
		if end := run.End(); end.Cause != engine.CauseDrain {
			t.Errorf("the cause is %s", end.Cause)
		}
		if _, err := e.Start(t.Context(), &engine.Job{Request: request(t, `{"model":"m"}`)}); !errors.Is(err, engine.ErrDrain) {
			t.Errorf("start after stop: %v", err)
		}
		if e.Running() != 0 {
			t.Errorf("%d runs are left", e.Running())
		}
	})
}

// failingLog is a log that stops taking entries.
type failingLog struct {
	store.Log
	left int
}

var errDisk = errors.New("disk full")

func (l *failingLog) Append(ctx context.Context, owner, id string, epoch, first int64, entries []store.Entry) (bool, error) {
	if l.left--; l.left < 0 {
		return false, errDisk
	}
	return l.Log.Append(ctx, owner, id, epoch, first, entries)
}

func TestLogThatFails(t *testing.T) {
	t.Parallel()
	t.Run("at the start", func(t *testing.T) {
		t.Parallel()
		e := newRig(answer(script{events: say("x")}.run), &failingLog{memstore.NewWindow(nil), 1}, nil)
		_, err := e.Start(t.Context(), &engine.Job{Owner: "o", Request: request(t, `{"model":"m"}`)})
		if !errors.Is(err, errDisk) || e.Running() != 0 {
			t.Errorf("got %v with %d runs left", err, e.Running())
		}
	})
	t.Run("in the middle", func(t *testing.T) {
		t.Parallel()
		e := newRig(answer(script{events: say("x")}.run), &failingLog{memstore.NewWindow(nil), 4}, nil)
		run := start(t, e)
		<-run.Done()
		if end := run.End(); end.Cause != engine.CauseInternal || !errors.Is(end.Err, errDisk) {
			t.Errorf("ended with %s: %v", end.Cause, end.Err)
		}
	})
}

// recorder notes the hooks in order.
type recorder struct {
	engine.NopObserver
	calls []string
}

func (r *recorder) RunStarted(*engine.RunInfo) { r.calls = append(r.calls, "started") }
func (r *recorder) RunAccepted(_ *engine.RunInfo, up string, _ []responses.Loss) {
	r.calls = append(r.calls, "accepted "+up)
}
func (r *recorder) RunCommitted(*engine.RunInfo, time.Duration) {
	r.calls = append(r.calls, "committed")
}
func (r *recorder) RunEnded(_ *engine.RunInfo, end *engine.RunEnd) {
	r.calls = append(r.calls, "ended "+string(end.Cause))
}

func TestObserverHearsOfARunInOrder(t *testing.T) {
	t.Parallel()
	var rec recorder
	e := newRig(answer(script{events: say("a", "b")}.run), memstore.NewWindow(nil), &engine.Options{Observer: &rec})
	run := start(t, e)
	readAll(t, e, run)
	want := []string{"started", "accepted fake", "committed", "ended completed"}
	if len(rec.calls) != len(want) {
		t.Fatalf("got %v, want %v", rec.calls, want)
	}
	for i := range want {
		if rec.calls[i] != want[i] {
			t.Fatalf("got %v, want %v", rec.calls, want)
		}
	}
}
