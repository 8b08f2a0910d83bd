package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/internal/server"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
)

// metered is an API behind one key with limits, called without a network so that
// it works on the clock of a synctest bubble.
type metered struct {
	*server.Server
	up upstreamFunc
}

func newMetered(t *testing.T, up upstreamFunc, limits server.Limits) *metered {
	t.Helper()
	m := &metered{up: up}
	m.Server = server.New(engine.New(memstore.NewWindow(nil), nil), m.generation(t, limits), &server.Options{Logger: slog.New(slog.DiscardHandler)})
	return m
}

func (m *metered) generation(t *testing.T, limits server.Limits) *server.Generation {
	t.Helper()
	return &server.Generation{Router: m.up, Keys: keyring(t,
		server.Key{Name: "limited", Secret: "limited", Limits: limits}, server.Key{Name: "free", Secret: "free"})}
}

func (m *metered) ask(t *testing.T, key, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(hello))
	r.Header.Set("Authorization", "Bearer "+key)
	w := httptest.NewRecorder()
	m.ServeHTTP(w, r)
	return w
}

func (m *metered) create(t *testing.T) *httptest.ResponseRecorder {
	t.Helper()
	return m.ask(t, "limited", http.MethodPost, "/v1/responses")
}

// uses answers every turn, and says that it took the tokens.
func uses(tokens *atomic.Int64) upstreamFunc {
	return func(context.Context, *upstream.Turn) (*upstream.Stream, error) {
		c := responses.NewComposer(0, time.Now)
		c.Text("x", nil)
		c.End(&responses.TurnEnd{Status: responses.StatusCompleted, Usage: &responses.Usage{TotalTokens: tokens.Load()}})
		return streamOf(c.Take(), nil), nil
	}
}

// ratelimits are the headers of an answer that speak of limits.
func ratelimits(h http.Header) map[string]string {
	got := map[string]string{}
	for name := range h {
		if short, ok := strings.CutPrefix(name, "X-Ratelimit-"); ok {
			got[short] = h.Get(name)
		}
	}
	return got
}

// TestRequestsPerMinute: ten times what a key may send comes through at the rate
// of its limit, and within 2 % of it (R35).
func TestRequestsPerMinute(t *testing.T) {
	t.Parallel()
	for _, perMinute := range []int64{30, 600, 700} {
		t.Run(fmt.Sprint(perMinute), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newMetered(t, says("x"), server.Limits{RequestsPerMinute: perMinute})
				admitted := int64(0)
				for range 10 * perMinute {
					switch w := m.create(t); {
					case w.Code == http.StatusOK:
						admitted++
					case w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "":
						t.Fatalf("%d %v: %s", w.Code, w.Header(), w.Body)
					}
					time.Sleep(time.Minute / time.Duration(10*perMinute))
				}
				if least, most := perMinute*99/100, perMinute*102/100+1; admitted < least || admitted > most {
					t.Errorf("%d were admitted, want %d to %d", admitted, least, most)
				}
			})
		})
	}
}

// TestRetryAfterIsTrue: who waits as long as it is told gets in, and who waits
// less does not.
func TestRetryAfterIsTrue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMetered(t, says("x"), server.Limits{RequestsPerMinute: 10})
		if w := m.create(t); w.Code != http.StatusOK {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
		w := m.create(t)
		const want = `{"error":{"type":"rate_limit_error","code":"rate_limit_exceeded","message":"This key may send 10 requests a minute; slow down.","param":null}}`
		if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "6" || w.Body.String() != want {
			t.Fatalf("%d %v: %s", w.Code, w.Header(), w.Body)
		}
		time.Sleep(6*time.Second - time.Millisecond)
		if w := m.create(t); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
			t.Errorf("too early: %d %v", w.Code, w.Header())
		}
		time.Sleep(time.Millisecond)
		if w := m.create(t); w.Code != http.StatusOK {
			t.Errorf("in time: %d: %s", w.Code, w.Body)
		}
	})
}

// TestRateLimitHeaders: every answer to a limited key says how it stands, also
// that of a list and of an error, and no other does.
func TestRateLimitHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tokens atomic.Int64
		tokens.Store(1000)
		m := newMetered(t, uses(&tokens), server.Limits{RequestsPerMinute: 120, TokensPerMinute: 6000})
		for i, step := range []struct {
			path string
			want map[string]string
		}{
			{"/v1/models", map[string]string{
				"Limit-Requests": "120", "Remaining-Requests": "1", "Reset-Requests": "500ms",
				"Limit-Tokens": "6000", "Remaining-Tokens": "6000", "Reset-Tokens": "0s",
			}},
			{"/v1/responses", map[string]string{ // charged when it has ended
				"Limit-Requests": "120", "Remaining-Requests": "0", "Reset-Requests": "1s",
				"Limit-Tokens": "6000", "Remaining-Tokens": "6000", "Reset-Tokens": "0s",
			}},
			{"/v1/nothing", map[string]string{ // refused: it counts for nothing
				"Limit-Requests": "120", "Remaining-Requests": "0", "Reset-Requests": "1s",
				"Limit-Tokens": "6000", "Remaining-Tokens": "5000", "Reset-Tokens": "10s",
			}},
		} {
			method := http.MethodGet
			if step.path == "/v1/responses" {
				method = http.MethodPost
			}
			w := m.ask(t, "limited", method, step.path)
			if diff := cmp.Diff(step.want, ratelimits(w.Header())); diff != "" {
				t.Errorf("step %d, %d: headers (-want +got):\n%s", i, w.Code, diff)
			}
		}
		if w := m.ask(t, "free", http.MethodPost, "/v1/responses"); w.Code != http.StatusOK || len(ratelimits(w.Header())) != 0 {
			t.Errorf("a key without limits: %d %v", w.Code, w.Header())
		}
	})
}

// TestTokensPerMinute: what a response has used is paid back before the key gets
// another one, whatever the upstream says that was.
func TestTokensPerMinute(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		used int64
		debt time.Duration // until there is room for one token
	}{
		"room is left":      {5999, 0},
		"all of a minute":   {6000, 10 * time.Millisecond},
		"two minutes' more": {18000, 2*time.Minute + 10*time.Millisecond},
		"absurd":            {math.MaxInt64, time.Hour + 10*time.Millisecond},
		"negative":          {math.MinInt64, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var tokens atomic.Int64
				tokens.Store(test.used)
				m := newMetered(t, uses(&tokens), server.Limits{TokensPerMinute: 6000})
				if w := m.create(t); w.Code != http.StatusOK {
					t.Fatalf("%d: %s", w.Code, w.Body)
				}
				tokens.Store(0)
				if test.debt > 0 {
					time.Sleep(test.debt - time.Microsecond)
					if w := m.create(t); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
						t.Errorf("in debt: %d %v", w.Code, w.Header())
					}
					if w := m.ask(t, "limited", http.MethodGet, "/v1/models"); w.Code != http.StatusOK {
						t.Errorf("a list takes no tokens: %d", w.Code)
					}
					time.Sleep(time.Microsecond)
				}
				if w := m.create(t); w.Code != http.StatusOK {
					t.Errorf("paid back: %d: %s", w.Code, w.Body)
				}
			})
		})
	}
}

// TestTokensThatNobodyCounted: what an upstream does not say, or a client does not
// wait for, is estimated: neither is a way to use more than the key may (R35).
func TestTokensThatNobodyCounted(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 40_000)
	for name, test := range map[string]struct {
		body  string
		words int
		waits bool // the client, for the end
		free  bool // it costs nothing
	}{
		"a long answer, and no usage":            {hello, 10_000, true, false},
		"a long question, and no usage":          {`{"model":"m","input":"` + long + `"}`, 1, true, false},
		"a long answer that nobody waits for":    {hello, 10_000, false, false},
		"a short one":                            {hello, 1, true, true},
		"a long question that is not even asked": {`{"model":"m","input":7,"x":"` + long + `"}`, 0, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				m := newMetered(t, func(context.Context, *upstream.Turn) (*upstream.Stream, error) {
					c := responses.NewComposer(0, time.Now)
					var events []responses.Event
					for range test.words {
						c.Text("word ", nil)
						events = append(events, c.Take()...)
					}
					c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
					end := c.Take()
					return &upstream.Stream{Close: func() error { return nil }, Events: func(yield func(responses.Event, error) bool) {
						for _, ev := range events {
							if !yield(ev, nil) {
								return
							}
						}
						if !test.waits {
							leave()
							synctest.Wait()
						}
						for _, ev := range end {
							if !yield(ev, nil) {
								return
							}
						}
					}}, nil
				}, server.Limits{TokensPerMinute: 6000})
				r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/responses", strings.NewReader(test.body))
				r.Header.Set("Authorization", "Bearer limited")
				m.ServeHTTP(httptest.NewRecorder(), r)
				w := m.ask(t, "limited", http.MethodPost, "/v1/nothing")
				if free := w.Code != http.StatusTooManyRequests; free != test.free {
					t.Errorf("%d %v", w.Code, ratelimits(w.Header()))
				}
			})
		})
	}
}

// TestReloadKeepsWhatWasUsed: a new configuration changes a limit, not what was
// used of it, and runs of the old one still count.
func TestReloadKeepsWhatWasUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tokens atomic.Int64
		tokens.Store(12000)
		release := make(chan struct{})
		m := newMetered(t, func(ctx context.Context, turn *upstream.Turn) (*upstream.Stream, error) {
			<-release
			return uses(&tokens)(ctx, turn)
		}, server.Limits{TokensPerMinute: 6000, Concurrent: 1})
		done := make(chan int)
		go func() { done <- m.create(t).Code }()
		synctest.Wait()
		m.Use(m.generation(t, server.Limits{TokensPerMinute: 6000, Concurrent: 1}))
		if w := m.create(t); w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "1 responses at the same time") {
			t.Errorf("beside a run of the old generation: %d: %s", w.Code, w.Body)
		}
		close(release)
		if code := <-done; code != http.StatusOK {
			t.Fatalf("the first: %d", code)
		}
		m.Use(m.generation(t, server.Limits{TokensPerMinute: 6000}))
		if w := m.create(t); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "61" {
			t.Errorf("after a reload: %d %v", w.Code, w.Header())
		}
		m.Use(m.generation(t, server.Limits{TokensPerMinute: 60000}))
		if w := m.create(t); w.Code != http.StatusOK {
			t.Errorf("with a higher limit: %d: %s", w.Code, w.Body)
		}
	})
}

// TestConcurrentLimitIsExact: never more than the limit at once, never less than
// it while there is demand, and every place comes back, however its run ended.
func TestConcurrentLimitIsExact(t *testing.T) {
	t.Parallel()
	const limit, clients = 7, 100
	var running, most atomic.Int64
	enough := make(chan struct{})
	m := newMetered(t, func(ctx context.Context, turn *upstream.Turn) (*upstream.Stream, error) {
		n := running.Add(1)
		defer running.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-enough
		for most.Load() < limit { // those that were let in may still be on their way
			runtime.Gosched()
		}
		switch n % 3 {
		case 0:
			panic("a defect")
		case 1:
			return nil, responses.UpstreamErrorf(responses.CodeUpstream, "broken")
		}
		return says("x")(ctx, turn)
	}, server.Limits{Concurrent: limit})
	for round := range 3 {
		enough = make(chan struct{})
		var refused atomic.Int64
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				if m.create(t).Code == http.StatusTooManyRequests && refused.Add(1) == clients-limit {
					close(enough) // all that can get in are in
				}
			})
		}
		wg.Wait()
		if refused.Load() != clients-limit || most.Load() != limit {
			t.Errorf("round %d: %d refused, want %d; %d at once, want %d", round, refused.Load(), clients-limit, most.Load(), limit)
		}
	}
}
