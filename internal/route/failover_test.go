package route_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/internal/route"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// player is an upstream whose behaviour can be changed while it runs.
type player struct {
	name   string
	calls  atomic.Int64
	open   atomic.Int64 // streams that are not closed
	mu     sync.Mutex
	refuse error         // of Open
	early  error         // before the first event
	late   error         // after it
	wait   chan struct{} // streams wait for it after their first event
}

func (p *player) set(change func(p *player)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

func (p *player) Open(_ context.Context, t *upstream.Turn) (*upstream.Stream, error) {
	p.calls.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		return nil, p.refuse
	}
	p.open.Add(1)
	return &upstream.Stream{
		Losses: []responses.Loss{{Param: "by " + p.name}},
		Events: p.events(t.Request.Model, p.early, p.late, p.wait),
		Close:  sync.OnceValue(func() error { p.open.Add(-1); return nil }),
	}, nil
}

func (p *player) events(model string, early, late error, wait chan struct{}) iter.Seq2[responses.Event, error] {
	return func(yield func(responses.Event, error) bool) {
		if early != nil {
			yield(responses.Event{}, early)
			return
		}
		c := responses.NewComposer(0, time.Now)
		c.Text(model, nil)
		if late == nil {
			c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
		}
		for i, ev := range c.Take() {
			if !yield(ev, nil) {
				return
			}
			if i == 0 && wait != nil {
				<-wait
			}
		}
		if late != nil {
			yield(responses.Event{}, late)
		}
	}
}

func (p *player) Close() error { return nil }

// pool returns a router whose model "m" has the players as targets.
func pool(t *testing.T, change func(targets []route.Target), players ...*player) *route.Router {
	t.Helper()
	drivers := map[string]upstream.Driver{}
	var targets []route.Target
	for _, p := range players {
		drivers[p.name] = p
		targets = append(targets, route.Target{Upstream: p.name, Model: "model-" + p.name})
	}
	if change != nil {
		change(targets)
	}
	r, err := route.New(drivers, map[string]route.Model{"m": {Targets: targets}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ask runs one turn and returns what was said by whom.
func ask(t *testing.T, r *route.Router, key string) (text, by string, err error) {
	t.Helper()
	s, err := r.Open(t.Context(), &upstream.Turn{Request: &responses.Request{Model: "m", PromptCacheKey: key}})
	if err != nil {
		return "", "", err
	}
	defer s.Close()
	for ev, err := range s.Events {
		if err != nil {
			return text, s.Upstream, err
		}
		if ev.Type == responses.EventTextDelta {
			text += ev.Text
			if want := "by " + s.Upstream; s.Losses[0].Param != want {
				t.Errorf("the losses are %v, want those of %s", s.Losses, s.Upstream)
			}
		}
	}
	return text, s.Upstream, nil
}

func overloaded() error { return responses.UpstreamErrorf(responses.CodeOverloaded, "full") }

// TestFailover: what one target fails at, another does, as long as nothing was
// said; what the request itself is to blame for is not tried again (R32).
func TestFailover(t *testing.T) {
	t.Parallel()
	limited := responses.UpstreamErrorf(responses.CodeRateLimit, "slow down")
	limited.RetryAfter = time.Second
	bad := responses.UpstreamErrorf(responses.CodeInvalidRequest, "bad schema")
	for name, test := range map[string]struct {
		fault func(p *player)
		text  string // what the client gets; "" if it fails
		calls int64  // of the second target
	}{
		"no fault":                    {func(*player) {}, "model-a", 0},
		"refuses: 503":                {func(p *player) { p.refuse = overloaded() }, "model-b", 1},
		"refuses: 500":                {func(p *player) { p.refuse = responses.UpstreamErrorf(responses.CodeUpstream, "oops") }, "model-b", 1},
		"refuses: 429":                {func(p *player) { p.refuse = limited }, "model-b", 1},
		"refuses: no model":           {func(p *player) { p.refuse = responses.UpstreamErrorf(responses.CodeModelNotFound, "?") }, "model-b", 1},
		"has no place for it":         {func(p *player) { p.refuse = responses.Unsupported("tools[0]", "no") }, "model-b", 1},
		"a plain error":               {func(p *player) { p.refuse = errors.New("boom") }, "model-b", 1},
		"an error as the first event": {func(p *player) { p.early = overloaded() }, "model-b", 1},
		"silent to the first event":   {func(p *player) { p.early = upstream.ErrFirstEvent }, "model-b", 1},
		"a bad request":               {func(p *player) { p.refuse = bad }, "", 0},
		"a bad request, in a stream":  {func(p *player) { p.early = bad }, "", 0},
		"cut after it began":          {func(p *player) { p.late = overloaded() }, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := &player{name: "a"}, &player{name: "b"}
			test.fault(a)
			r := pool(t, func(targets []route.Target) { targets[1].Priority = 2 }, a, b)
			text, by, err := ask(t, r, "")
			if test.text == "" != (err != nil) || test.text != "" && (text != test.text || "model-"+by != test.text) {
				t.Errorf("got %q by %s and %v, want %q", text, by, err, test.text)
			}
			if b.calls.Load() != test.calls || a.open.Load()+b.open.Load() != 0 {
				t.Errorf("the second target was called %d times; %d streams are open", b.calls.Load(), a.open.Load()+b.open.Load())
			}
		})
	}
}

func TestAllTargetsFail(t *testing.T) {
	t.Parallel()
	a, b := &player{name: "a", refuse: overloaded()}, &player{name: "b", early: responses.UpstreamErrorf(responses.CodeTimeout, "late")}
	r := pool(t, func(targets []route.Target) { targets[1].Priority = 2 }, a, b)
	if _, _, err := ask(t, r, ""); responses.AsError(err).Code != responses.CodeTimeout {
		t.Errorf("got %v, want the last failure", err)
	}
}

// TestEjection: a target that fails again and again gets nothing but a probe now
// and then, at growing intervals, and is back with the first probe that succeeds.
func TestEjection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := &player{name: "a", refuse: overloaded()}, &player{name: "b"}
		r := pool(t, nil, a, b)
		for range 200 {
			if _, _, err := ask(t, r, ""); err != nil {
				t.Fatalf("a client saw a failure: %v", err)
			}
		}
		if got := a.calls.Load(); got != 5 {
			t.Errorf("the target failed %d times before it was ejected, want 5", got)
		}
		// Probes after 5 s, then 10 s later, then 20 s later.
		for i, wait := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
			time.Sleep(wait - time.Millisecond)
			before := a.calls.Load()
			for range 50 {
				_, _, _ = ask(t, r, "")
			}
			if got := a.calls.Load() - before; got != 0 {
				t.Errorf("round %d: %d calls while ejected", i, got)
			}
			time.Sleep(2 * time.Millisecond)
			for range 50 {
				_, _, _ = ask(t, r, "")
			}
			if got := a.calls.Load() - before; got != 1 {
				t.Errorf("round %d: %d probes, want 1", i, got)
			}
		}
		a.set(func(p *player) { p.refuse = nil })
		time.Sleep(40 * time.Second)
		before := a.calls.Load()
		for range 100 {
			if _, _, err := ask(t, r, ""); err != nil {
				t.Fatal(err)
			}
		}
		if got := a.calls.Load() - before; got < 20 {
			t.Errorf("the target got %d of 100 turns after it recovered", got)
		}
		t.Logf("| ejected after 5 failures | 0 calls between probes at 5, 10 and 20 s; %d of 100 turns with the first probe after it recovered |", a.calls.Load()-before)
	})
}

// TestBrokenAnswersEject: a target whose answers break off after they have begun
// looks healthy at first; it is ejected all the same.
func TestBrokenAnswersEject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := &player{name: "a", late: overloaded()}, &player{name: "b"}
		r := pool(t, nil, a, b)
		for range 500 {
			_, _, _ = ask(t, r, "")
		}
		if got := a.calls.Load(); got != 5 {
			t.Errorf("%d answers broke off before the target was ejected, want 5", got)
		}
		a.set(func(p *player) { p.late = nil })
		time.Sleep(5 * time.Second)
		for range 100 {
			if _, _, err := ask(t, r, ""); err != nil {
				t.Fatal(err)
			}
		}
		if got := a.calls.Load(); got < 25 {
			t.Errorf("the target got %d turns after it recovered", got-5)
		}
	})
}

// TestHealthOutlivesTheRouter: a new configuration does not send traffic back to a
// target that is known to be bad (R36).
func TestHealthOutlivesTheRouter(t *testing.T) {
	t.Parallel()
	a, b := &player{name: "a", refuse: overloaded()}, &player{name: "b"}
	drivers := map[string]upstream.Driver{"a": a, "b": b}
	models := map[string]route.Model{"m": {Targets: []route.Target{{Upstream: "a"}, {Upstream: "b"}}}}
	var previous *route.Router
	for range 5 {
		r, err := route.New(drivers, models, &route.Options{Previous: previous})
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			if _, _, err := ask(t, r, ""); err != nil {
				t.Fatal(err)
			}
		}
		previous = r
	}
	if got := a.calls.Load(); got != 5 {
		t.Errorf("the bad target was called %d times over five routers, want 5", got)
	}
}

// TestSoleTargetIsNotEjected: leaving the only target alone helps nobody.
func TestSoleTargetIsNotEjected(t *testing.T) {
	t.Parallel()
	a := &player{name: "a", refuse: overloaded()}
	r := pool(t, nil, a)
	for range 50 {
		if _, _, err := ask(t, r, ""); responses.AsError(err).Code != responses.CodeOverloaded {
			t.Fatalf("got %v", err)
		}
	}
	a.set(func(p *player) { p.refuse = nil })
	if _, _, err := ask(t, r, ""); err != nil {
		t.Errorf("after it recovered: %v", err)
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limited := responses.UpstreamErrorf(responses.CodeRateLimit, "slow down")
		limited.RetryAfter = 30 * time.Second
		a, b := &player{name: "a", refuse: limited}, &player{name: "b"}
		r := pool(t, nil, a, b)
		for range 100 {
			if _, _, err := ask(t, r, ""); err != nil {
				t.Fatal(err)
			}
		}
		if got := a.calls.Load(); got != 1 {
			t.Errorf("the target was asked %d times in the time that it asked for", got)
		}
		time.Sleep(30 * time.Second)
		for range 100 {
			_, _, _ = ask(t, r, "")
		}
		if got := a.calls.Load(); got != 2 {
			t.Errorf("the target was asked %d times, want once more", got)
		}
	})
}

func TestWeights(t *testing.T) {
	t.Parallel()
	a, b, c := &player{name: "a"}, &player{name: "b"}, &player{name: "c"}
	r := pool(t, func(targets []route.Target) { targets[0].Weight, targets[1].Weight = 3, 1; targets[2].Weight = -1 }, a, b, c)
	const n = 10_000
	for range n {
		if _, _, err := ask(t, r, ""); err != nil {
			t.Fatal(err)
		}
	}
	if share := float64(a.calls.Load()) / n; math.Abs(share-0.75) > 0.0375 || c.calls.Load() != 0 {
		t.Errorf("shares are %.3f, %d and %d of %d, want 3:1:0 within 5 %%", share, b.calls.Load(), c.calls.Load(), n)
	}
	t.Logf("| weights 3 : 1 : 0, %d requests | %d : %d : %d, %.1f %% off (at most 5) |", n, a.calls.Load(), b.calls.Load(), c.calls.Load(), 100*math.Abs(float64(a.calls.Load())/n-0.75)/0.75)
}

// TestAffinity: the same key stays on one target at even load, and no target gets
// more than its share and a quarter when every turn has the same key.
func TestAffinity(t *testing.T) {
	t.Parallel()
	players := []*player{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}}
	r := pool(t, nil, players...)
	moved, homes := 0, map[string]string{}
	for i := range 2000 {
		key := fmt.Sprint("key", i%50)
		_, by, err := ask(t, r, key)
		if err != nil {
			t.Fatal(err)
		}
		if home := homes[key]; home != "" && home != by {
			moved++
		}
		homes[key] = by
	}
	if moved > 20 {
		t.Errorf("%d of 2000 turns left the target of their key", moved)
	}

	release := make(chan struct{})
	var wg sync.WaitGroup
	for _, p := range players {
		p.set(func(p *player) { p.wait = release })
	}
	const open = 100
	for i := range open {
		wg.Go(func() { _, _, _ = ask(t, r, "hot") })
		for total := int64(0); total <= int64(i); { // one after another, so that the load is known
			total = 0
			for _, p := range players {
				total += p.open.Load()
			}
		}
	}
	for _, p := range players {
		if got := p.open.Load(); float64(got) > math.Ceil(1.25*open/4) {
			t.Errorf("%s has %d of %d turns", p.name, got, open)
		}
	}
	close(release)
	wg.Wait()
}

func TestTargetLimits(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	a, b := &player{name: "a", wait: release}, &player{name: "b"}
	r := pool(t, func(targets []route.Target) { targets[0].Concurrent = 2; targets[1].Priority = 2 }, a, b)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { _, _, _ = ask(t, r, "") })
	}
	for a.open.Load() < 2 {
		time.Sleep(time.Millisecond)
	}
	if _, by, err := ask(t, r, ""); err != nil || by != "b" {
		t.Errorf("the third turn went to %s: %v", by, err)
	}
	close(release)
	wg.Wait()
	if _, by, err := ask(t, r, ""); err != nil || by != "a" {
		t.Errorf("after that a turn went to %s: %v", by, err)
	}
}

func TestTargetPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, b := &player{name: "a"}, &player{name: "b"}
		r := pool(t, func(targets []route.Target) { targets[0].RequestsPerMinute = 60; targets[1].Priority = 2 }, a, b)
		for range 100 {
			if _, _, err := ask(t, r, ""); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if got := a.calls.Load(); got != 10 {
			t.Errorf("%d turns in 10 s at 60 a minute", got)
		}
	})
}

// TestRetryBudget: when everything fails, retries do not multiply the load.
func TestRetryBudget(t *testing.T) {
	t.Parallel()
	a, b := &player{name: "a", early: responses.Unsupported("x", "no")}, &player{name: "b", early: responses.Unsupported("x", "no")}
	r := pool(t, nil, a, b)
	const n = 1000
	for range n {
		_, _, _ = ask(t, r, "")
	}
	if got := a.calls.Load() + b.calls.Load(); got > n+n/5+100 {
		t.Errorf("%d calls for %d turns", got, n)
	}
}

func TestPatternsAndShape(t *testing.T) {
	t.Parallel()
	a := &player{name: "a"}
	r, err := route.New(map[string]upstream.Driver{"a": a}, map[string]route.Model{
		"exact":   route.To("a", ""),
		"lab/*":   route.To("a", "*"),
		"lab/x-*": route.To("a", "special-*"),
		"*":       route.To("a", ""),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, name := range []string{"exact", "lab/one", "lab/x-two", "other"} {
		s, err := r.Open(t.Context(), &upstream.Turn{Request: &responses.Request{Model: name}})
		if err != nil {
			t.Fatal(err)
		}
		for ev, err := range s.Events {
			if err == nil && ev.Type == responses.EventTextDelta {
				got[name] = ev.Text
			}
		}
		s.Close()
	}
	want := map[string]string{"exact": "exact", "lab/one": "one", "lab/x-two": "special-two", "other": "other"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if _, err := route.New(map[string]upstream.Driver{"a": a}, map[string]route.Model{"a*b": route.To("a", "")}, nil); err == nil {
		t.Error("a star in the middle was accepted")
	}
}
