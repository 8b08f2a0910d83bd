package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
)

// moody is a store that fails on command.
type moody struct {
	store.Store
	mu      sync.Mutex
	ready   error
	creates []error // what the next calls of Create answer; nil passes them on
	tried   int
	before  func() // called by Create
}

func (m *moody) Ready(ctx context.Context, shard uint16) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ready != nil {
		return m.ready
	}
	return m.Store.Ready(ctx, shard)
}

func (m *moody) Create(ctx context.Context, owner string, r *store.Record) error {
	m.mu.Lock()
	m.tried++
	var err error
	if len(m.creates) > 0 {
		err, m.creates = m.creates[0], m.creates[1:]
	}
	before := m.before
	m.mu.Unlock()
	if before != nil {
		before()
	}
	if err != nil {
		return err
	}
	return m.Store.Create(ctx, owner, r)
}

// memoryRig is an engine that remembers; its model answers with what it heard.
type memoryRig struct {
	*rig
	t      *testing.T
	store  *moody
	opened int
}

func newMemoryRig(t *testing.T, opts *engine.Options) *memoryRig {
	m := &memoryRig{t: t}
	opts.Store = &moody{}
	m.store = opts.Store.(*moody)
	m.store.Store = memstore.NewStore(&memstore.StoreOptions{Now: opts.Now, Retention: opts.Retention})
	m.rig = newRig(openFunc(func(_ context.Context, turn *upstream.Turn) (*upstream.Stream, error) {
		m.opened++
		var heard []string
		for _, it := range turn.Request.Input.Items {
			if msg, ok := it.(*responses.Message); ok {
				heard = append(heard, msg.Content.Text())
			}
		}
		events := script{events: say("[" + strings.Join(heard, " ") + "]")}.run
		return &upstream.Stream{Upstream: "fake", Events: events(t.Context()), Close: func() error { return nil }}, nil
	}), memstore.NewWindow(nil), opts)
	return m
}

// run makes a response and returns it as its last event shows it.
func (m *memoryRig) run(body string) *responses.Response {
	m.t.Helper()
	run, err := m.Start(m.t.Context(), &engine.Job{Owner: "o", Request: request(m.t, body)})
	if err != nil {
		m.t.Fatal(err)
	}
	events := readAll(m.t, m.rig, run)
	return events[len(events)-1].Response
}

// said is what a response says.
func said(r *responses.Response) string {
	if len(r.Output) == 0 {
		return ""
	}
	return r.Output[0].(*responses.Message).Content.Text()
}

func next(input string, previous *responses.Response) string {
	return fmt.Sprintf(`{"model":"m","input":%q,"previous_response_id":%q,"stream":true}`, input, previous.ID)
}

// TestStateIsStoredBeforeItIsDone: while the store has not answered, no reader sees
// the terminal event (R40).
func TestStateIsStoredBeforeItIsDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemoryRig(t, &engine.Options{})
		storing, stored := make(chan struct{}), make(chan struct{})
		m.store.before = func() { close(storing); <-stored }
		run, err := m.Start(t.Context(), &engine.Job{Owner: "o", Request: request(t, `{"model":"m","input":"a"}`)})
		if err != nil {
			t.Fatal(err)
		}
		var last responses.EventType
		heartbeats := 0
		read := make(chan struct{})
		go func() {
			defer close(read)
			for batch, err := range m.Follow(t.Context(), "o", run.ID(), -1) {
				if err != nil {
					t.Error(err)
				}
				if len(batch) == 0 {
					heartbeats++
					continue
				}
				last = batch[len(batch)-1].Type
			}
		}()
		<-storing
		time.Sleep(time.Minute)
		synctest.Wait()
		if last.Terminal() || last != responses.EventItemDone {
			t.Errorf("the last event is %s", last)
		}
		if heartbeats == 0 {
			t.Error("the stream was not kept alive")
		}
		close(stored)
		<-read
		if last != responses.EventCompleted {
			t.Errorf("it ended with %s", last)
		}
		<-run.Done()
	})
}

// TestStateWaitsForItsStore: a store that is away for a while costs time only; one
// that stays away costs the response, which says so (R40).
func TestStateWaitsForItsStore(t *testing.T) {
	t.Parallel()
	away := fmt.Errorf("connection refused: %w", store.ErrUnavailable)
	for name, test := range map[string]struct {
		failures int
		status   responses.Status
		cause    engine.Cause
	}{
		"back in time": {10, responses.StatusCompleted, engine.CauseCompleted},
		"gone":         {1000, responses.StatusFailed, engine.CauseStore},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemoryRig(t, &engine.Options{})
				for range test.failures {
					m.store.creates = append(m.store.creates, away)
				}
				began := time.Now()
				run, err := m.Start(t.Context(), &engine.Job{Owner: "o", Request: request(t, `{"model":"m","input":"a"}`)})
				if err != nil {
					t.Fatal(err)
				}
				events := readAll(t, m.rig, run)
				last := events[len(events)-1].Response
				if last.Status != test.status || run.End().Cause != test.cause {
					t.Errorf("it ended %s (%s) after %v", last.Status, run.End().Cause, time.Since(began))
				}
				if took := time.Since(began); took > 45*time.Second {
					t.Errorf("it took %v", took)
				}
				if m.store.tried > 60 {
					t.Errorf("the store was asked %d times", m.store.tried)
				}
				if test.status == responses.StatusFailed {
					if last.Error.Code != responses.CodeOverloaded || !strings.Contains(last.Error.Message, "store") {
						t.Errorf("the error is %+v", last.Error)
					}
					return
				}
				if _, err := m.Retrieve(t.Context(), "o", last.ID); err != nil {
					t.Errorf("it is not stored: %v", err)
				}
			})
		})
	}
}

// TestStateAsksItsStoreFirst: what cannot be kept is refused before a model is
// paid; what is not to be kept goes on (R40).
func TestStateAsksItsStoreFirst(t *testing.T) {
	t.Parallel()
	m := newMemoryRig(t, &engine.Options{})
	m.store.ready = store.ErrUnavailable
	_, err := m.Start(t.Context(), &engine.Job{Owner: "o", Request: request(t, `{"model":"m","input":"a"}`)})
	if e := responses.AsError(err); e == nil || e.Code != responses.CodeOverloaded || e.RetryAfter == 0 || m.opened != 0 {
		t.Errorf("%v, with %d calls of the model", err, m.opened)
	}
	if got := m.run(`{"model":"m","input":"a","store":false}`); got.Status != responses.StatusCompleted || m.store.tried != 0 {
		t.Errorf("store: false: %s, with %d writes", got.Status, m.store.tried)
	}
}

// TestStateTakesItsContextAlong: a response whose parent is deleted meanwhile, is
// too old or too far from its root holds the context itself (R40).
func TestStateTakesItsContextAlong(t *testing.T) {
	t.Parallel()
	const retention = 24 * time.Hour
	for name, test := range map[string]struct {
		turn  func(m *memoryRig, last *responses.Response) *responses.Response
		alone bool
	}{
		"young": {func(m *memoryRig, last *responses.Response) *responses.Response { return m.run(next("c", last)) }, false},
		"old": {func(m *memoryRig, last *responses.Response) *responses.Response {
			time.Sleep(retention/2 + time.Minute)
			return m.run(next("c", last))
		}, true},
		"deep": {func(m *memoryRig, last *responses.Response) *responses.Response {
			last = m.run(next("c", last))
			return m.run(next("d", last))
		}, true},
		"deleted": {func(m *memoryRig, last *responses.Response) *responses.Response {
			m.store.before = func() {
				m.store.before = nil
				if _, err := m.Delete(m.t.Context(), "o", last.ID); err != nil {
					m.t.Error(err)
				}
			}
			return m.run(next("c", last))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMemoryRig(t, &engine.Options{Retention: retention, ContextDepth: 3})
				last := test.turn(m, m.run(next("b", m.run(`{"model":"m","input":"a"}`))))
				record, err := m.store.Get(t.Context(), "o", last.ID)
				if err != nil {
					t.Fatal(err)
				}
				if alone := record.Link.ID == ""; alone != test.alone || alone != (len(record.Context) > 0) || alone && record.Depth != 0 {
					t.Errorf("link %+v, depth %d, %d items of context", record.Link, record.Depth, len(record.Context))
				}
				whole := said(last)
				if got := said(m.run(next("z", last))); got != fmt.Sprintf("[%s %s z]", strings.Trim(whole, "[]"), whole) {
					// The model answers with all that it heard, so nothing else can say the same.
					t.Errorf("the next one heard %s after %s", got, whole)
				}
			})
		})
	}
}

// TestStateContextIsBounded: more than may stand before a model is refused with what
// to do (R40).
func TestStateContextIsBounded(t *testing.T) {
	t.Parallel()
	m := newMemoryRig(t, &engine.Options{ContextBytes: 1200})
	last := m.run(fmt.Sprintf(`{"model":"m","input":%q}`, strings.Repeat("x", 300)))
	last = m.run(next("b", last))
	_, err := m.Start(t.Context(), &engine.Job{Owner: "o", Request: request(t, next("c", last))})
	if e := responses.AsError(err); e == nil || e.Code != responses.CodeContextLength || e.Param != "previous_response_id" || e.Code.Status() != 400 {
		t.Errorf("beyond the bound: %v", err)
	}
}

// TestStateReferencesAreBounded: references are small, what they stand for is not;
// together it may be as large as a context, and one that is repeated counts once (R40).
func TestStateReferencesAreBounded(t *testing.T) {
	t.Parallel()
	m := newMemoryRig(t, &engine.Options{ContextBytes: 1200})
	var refs []string
	for range 4 {
		r := m.run(fmt.Sprintf(`{"model":"m","input":%q}`, strings.Repeat("x", 300)))
		refs = append(refs, fmt.Sprintf(`{"type":"item_reference","id":%q}`, r.Output[0].ItemID()))
	}
	body := func(refs []string) string { return `{"model":"m","input":[` + strings.Join(refs, ",") + `]}` }
	m.run(body([]string{refs[0], refs[1], refs[0], refs[1], refs[0]}))
	_, err := m.Start(t.Context(), &engine.Job{Owner: "o", Request: request(t, body(refs))})
	if e := responses.AsError(err); e == nil || e.Code != responses.CodeContextLength || e.Param != "input" {
		t.Errorf("beyond the bound: %v", err)
	}
}

// TestStateKeepsFailures: a stream that failed can be fetched and not be gone on
// from; an answer that is no stream has no id to ask for (R14).
func TestStateKeepsFailures(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{true, false} {
		m := newMemoryRig(t, &engine.Options{})
		m.open = answer(script{events: say("a")[:3], err: errors.New("broken")}.run)
		last := m.run(fmt.Sprintf(`{"model":"m","input":"a","stream":%t}`, stream))
		_, err := m.Retrieve(t.Context(), "o", last.ID)
		if stored := err == nil; stored != stream {
			t.Errorf("stream %t: %v", stream, err)
		}
	}
}

// TestStateItemIDs: an upstream that counts its items anew in every answer does not
// overwrite what it said before (R17).
func TestStateItemIDs(t *testing.T) {
	t.Parallel()
	m := newMemoryRig(t, &engine.Options{})
	events := say("same")
	for i := range events {
		if events[i].Item != nil {
			events[i].Item = responses.WithItemID(events[i].Item, "msg_1")
		}
		events[i].ItemID = "msg_1"
	}
	m.open = answer(func(ctx context.Context) iter.Seq2[responses.Event, error] { return script{events: events}.run(ctx) })
	first := m.run(`{"model":"m","input":"a"}`)
	second := m.run(next("b", first))
	if a, b := first.Output[0].ItemID(), second.Output[0].ItemID(); a != "msg_1" || a == b {
		t.Errorf("the items are %s and %s", a, b)
	}
}

// TestStateObsidian: what is rendered for a client is neither stored nor replayed
// (R19).
func TestStateObsidian(t *testing.T) {
	t.Parallel()
	m := newMemoryRig(t, &engine.Options{})
	c := responses.NewComposer(0, time.Now)
	c.Whole(&responses.FunctionCall{ID: "fc_1", CallID: "call_1", Name: "f", Arguments: "{}", Status: responses.StatusCompleted})
	c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
	m.open = answer(script{events: c.Take()}.run)
	run, err := m.Start(t.Context(), &engine.Job{Owner: "o", Output: engine.OutputObsidian, Request: request(t, `{"model":"m","input":"a"}`)})
	if err != nil {
		t.Fatal(err)
	}
	events := readAll(t, m.rig, run)
	if n := len(events[len(events)-1].Response.Output); n != 2 {
		t.Fatalf("%d items for the client", n)
	}
	record, err := m.store.Get(t.Context(), "o", run.ID())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"fc_1"}, idsOf(record.Output)); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

func idsOf(items []store.Item) (ids []string) {
	for _, it := range items {
		ids = append(ids, it.ID)
	}
	return ids
}
