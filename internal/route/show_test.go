package route_test

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/antiphon-dev/antiphon/internal/route"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// showTurns is small for every run of the tests; make show-routing asks for the
// real size.
var showTurns = flag.Int("show-turns", 4_000, "how many turns the tests send that show how load is shared")

// busy is an upstream whose turns take a while.
type busy struct {
	open, most atomic.Int64
}

func (b *busy) Open(context.Context, *upstream.Turn) (*upstream.Stream, error) {
	n := b.open.Add(1)
	for most := b.most.Load(); n > most && !b.most.CompareAndSwap(most, n); most = b.most.Load() {
	}
	return &upstream.Stream{
		Close: sync.OnceValue(func() error { b.open.Add(-1); return nil }),
		Events: func(yield func(responses.Event, error) bool) {
			c := responses.NewComposer(0, time.Now)
			c.Text("x", nil)
			time.Sleep(time.Duration(10+rand.IntN(90)) * time.Millisecond)
			c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
			for _, ev := range c.Take() {
				if !yield(ev, nil) {
					return
				}
			}
		},
	}, nil
}

func (*busy) Close() error { return nil }

// shared runs turns on four targets, inFlight at a time, each with the key that
// keyOf says. It returns who ran the turns of each key.
func shared(t *testing.T, inFlight, turns int, keyOf func(i int) string) (players map[string]*busy, by map[string]map[string]int) {
	t.Helper()
	players, by = map[string]*busy{}, map[string]map[string]int{}
	drivers := map[string]upstream.Driver{}
	var model route.Model
	for _, name := range []string{"a", "b", "c", "d"} {
		players[name] = new(busy)
		drivers[name] = players[name]
		model.Targets = append(model.Targets, route.Target{Upstream: name})
	}
	r, err := route.New(drivers, map[string]route.Model{"m": model}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan string)
	for range inFlight {
		wg.Go(func() {
			for key := range next {
				s, err := r.Open(t.Context(), &upstream.Turn{Request: &responses.Request{Model: "m", PromptCacheKey: key}})
				if err != nil {
					t.Error(err)
					continue
				}
				for _, err := range s.Events {
					if err != nil {
						t.Error(err)
					}
				}
				_ = s.Close()
				mu.Lock()
				if by[key] == nil {
					by[key] = map[string]int{}
				}
				by[key][s.Upstream]++
				mu.Unlock()
			}
		})
	}
	for i := range turns {
		next <- keyOf(i)
	}
	close(next)
	wg.Wait()
	return players, by
}

// stayed is the share of turns that ran where most of those with their key did.
func stayed(by map[string]map[string]int) float64 {
	home, all := 0, 0
	for _, targets := range by {
		most := 0
		for _, n := range targets {
			most = max(most, n)
			all += n
		}
		home += most
	}
	return float64(home) / float64(all)
}

// TestShowAffinity: at even load a key stays on its target at least 99 % of the
// time (R32).
func TestShowAffinity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const inFlight, keys = 400, 1000
		_, by := shared(t, inFlight, *showTurns, func(i int) string { return fmt.Sprint("key", i%keys) })
		share := stayed(by)
		if share < 0.99 {
			t.Errorf("%.2f %% of the turns stayed on the target of their key", 100*share)
		}
		t.Logf("| affinity, %d turns, %d in flight, %d keys | %.2f %% stay on the target of their key (at least 99) |", *showTurns, inFlight, keys, 100*share)
	})
}

// TestShowSkew: however few keys most turns have, no target gets more than 1.25
// times the mean of what is in flight (R32).
func TestShowSkew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const inFlight = 400
		zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.5, 1, 999)
		players, _ := shared(t, inFlight, *showTurns, func(int) string { return fmt.Sprint("key", zipf.Uint64()) })
		most := int64(0)
		for _, p := range players {
			most = max(most, p.most.Load())
		}
		if bound := math.Ceil(1.25 * inFlight / 4); float64(most) > bound {
			t.Errorf("a target had %d turns at once, at most %.0f are allowed", most, bound)
		}
		t.Logf("| skew, %d turns, %d in flight, a few keys hot | the fullest target had %.3f of the mean in flight (at most 1.25) |", *showTurns, inFlight, float64(most)/(inFlight/4))
	})
}
