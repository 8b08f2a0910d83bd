package main

import (
	"flag"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// limitTime is short for every run of the tests; make show-routing asks for the
// real time.
var limitTime = flag.Duration("limit-time", 3*time.Second, "how long TestLimitsUnderLoad offers ten times what a key may send")

const (
	pacedKey   = "paced-key-0123456789"
	crowdedKey = "crowded-key-0123456789"
	perMinute  = 600
	atOnce     = 20
)

// limitsFile has a key that may send so often, and one that may send so many at
// once.
func (r *loadRig) limitsFile() string {
	return fmt.Sprintf(`admin: { listen: "127.0.0.1:0" }
auth:
  keys:
    - { name: paced, key: %s, limits: { requests_per_minute: %d } }
    - { name: crowded, key: %s, limits: { concurrent: %d } }
upstreams: { local: { protocol: chat, url: %q } }
models: { m: { upstream: local, model: tiny } }
`, pacedKey, perMinute, crowdedKey, atOnce, r.upstream)
}

// TestLimitsUnderLoad: at ten times what a key may send it gets what it may, within
// 2 %, and a limit of how many run at once is exact (R35).
func TestLimitsUnderLoad(t *testing.T) {
	t.Parallel()
	r := startLoad(t, (*loadRig).limitsFile)
	t.Run("requests per minute", func(t *testing.T) {
		t.Parallel()
		admitted, refused := r.offer(10*perMinute, *limitTime)
		allowed := perMinute * limitTime.Minutes()
		// A second's worth may come at once; over a minute that is within 2 %.
		least, most := int64(0.99*allowed), max(int64(1.02*allowed), int64(allowed)+12)
		if admitted < least || admitted > most {
			t.Errorf("%d were admitted, want %d to %d", admitted, least, most)
		}
		t.Logf("| %d a minute, %d offered in %s | %d admitted (%d to %d) |", perMinute, admitted+refused, *limitTime, admitted, least, most)
	})
	t.Run("at once", func(t *testing.T) {
		t.Parallel()
		const clients, rounds = 200, 3
		for round := range rounds {
			if running := r.crowd(clients); running != atOnce {
				t.Errorf("round %d: %d of %d ran at once, want %d", round, running, clients, atOnce)
			}
		}
		t.Logf("| %d at once, %d clients, %d times | %d run each time |", atOnce, clients, rounds, atOnce)
	})
}

// offer sends requests at a rate for a while.
func (r *loadRig) offer(perMinute int, d time.Duration) (admitted, refused int64) {
	var in, out atomic.Int64
	var wg sync.WaitGroup
	pace := time.Minute / time.Duration(perMinute)
	began := time.Now()
	for n := 0; ; n++ {
		next := began.Add(time.Duration(n) * pace) // what a busy machine delays is made up for
		if next.Sub(began) >= d {
			break
		}
		time.Sleep(time.Until(next))
		wg.Go(func() {
			status, answer, err := r.ask(r.t.Context(), pacedKey, `{"model":"m","input":"hello"}`)
			switch {
			case err == nil && status == http.StatusOK:
				in.Add(1)
			case err == nil && status == http.StatusTooManyRequests:
				out.Add(1)
			default:
				r.t.Errorf("got %d, %v: %s", status, err, answer)
			}
		})
	}
	wg.Wait()
	return in.Load(), out.Load()
}

// crowd sends streams at the same time, which do not end before all have been
// answered, and returns how many were let in.
func (r *loadRig) crowd(clients int) (running int64) {
	var in, answered atomic.Int64
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			status, answer, err := r.ask(r.t.Context(), crowdedKey, `{"model":"m","stream":true,"input":"count to 10 [[delay 200ms]]"}`)
			answered.Add(1)
			switch {
			case err == nil && status == http.StatusOK && strings.Contains(answer, "event: response.completed\n"):
				in.Add(1)
				if n := answered.Load(); n < int64(clients)-atOnce {
					r.t.Errorf("a stream ended when only %d had been answered: the load was too slow to tell", n)
				}
			case err == nil && status == http.StatusTooManyRequests:
			default:
				r.t.Errorf("got %d, %v: %s", status, err, answer)
			}
		})
	}
	wg.Wait()
	return in.Load()
}
