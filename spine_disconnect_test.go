package antiphon_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/internal/sse"
)

// TestSpineDisconnect: a client that leaves, before the first event or after any
// number of them, cancels the upstream call within a second, leaves no goroutine
// behind, and the access log says why. Streamed and not.
func TestSpineDisconnect(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			ignore := goleak.IgnoreCurrent()
			t.Cleanup(func() { goleak.VerifyNone(t, ignore) }) // runs after those of the servers
			fake, base := startModel(t, p.speaks)
			g := startGateway(t, p.driver, base, nil)
			prompts := []struct {
				name, body string
				events     int // leave after so many
			}{
				{"before the headers", `{"model":"tiny","input":"hi [[stall-first]]","stream":true}`, 0},
				{"before the headers, JSON", `{"model":"tiny","input":"hi [[stall-first]]"}`, 0},
				{"in the middle, JSON", `{"model":"tiny","input":"hi [[stall]]"}`, 0},
			}
			const streamed = 12 // created, in_progress, two added, eight numbers
			for n := range streamed {
				prompts = append(prompts, struct {
					name, body string
					events     int
				}{fmt.Sprintf("after event %d", n), `{"model":"tiny","input":"count to 500 [[delay 5ms]]","stream":true}`, n + 1})
			}
			for i, prompt := range prompts {
				arrived := make(chan *fakeupstream.Exchange, 1)
				go func() {
					x, err := fake.Await(t.Context(), i)
					if err != nil {
						t.Error(err)
					}
					arrived <- x
				}()
				x := leave(t, g, prompt.body, prompt.events, arrived)
				select {
				case <-x.Gone():
				case <-time.After(time.Second):
					t.Errorf("%s: the upstream call still runs after a second:\n%s", prompt.name, stacks())
				}
			}
			g.Close() // waits for the handlers, which write the log
			if got := strings.Count(g.logs.String(), "cause=client_gone"); got != len(prompts) {
				t.Errorf("the log names the cause %d times, want %d:\n%s", got, len(prompts), g.logs)
			}
		})
	}
}

// stacks is what every goroutine is doing.
func stacks() []byte {
	b := make([]byte, 1<<20)
	return b[:runtime.Stack(b, true)]
}

// leave sends a request and goes away after n events, or, if n is 0, once the
// upstream has the request. It returns the upstream's side of it.
func leave(t *testing.T, g *testGateway, body string, n int, arrived <-chan *fakeupstream.Exchange) *fakeupstream.Exchange {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if n == 0 {
		var x *fakeupstream.Exchange
		left := make(chan struct{})
		go func() {
			defer close(left)
			x = <-arrived
			cancel()
		}()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+"/v1/responses", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := g.Client().Do(req); err == nil {
			resp.Body.Close()
			t.Errorf("got an answer with status %d", resp.StatusCode)
		}
		<-left
		return x
	}
	resp := g.post(ctx, t, body)
	defer resp.Body.Close()
	for _, err := range sse.Read(resp.Body, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if n--; n == 0 {
			return <-arrived
		}
	}
	t.Fatal("the stream ended first")
	return nil
}

// TestSpineStalledReader: a client that stops reading blocks the upstream, not
// the memory: what the upstream could send is bounded by the buffers between.
func TestSpineStalledReader(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			fake, base := startModel(t, p.speaks)
			g := startGateway(t, p.driver, base, nil)
			resp := g.post(t.Context(), t, `{"model":"tiny","input":"count to 10000000","stream":true}`)
			defer resp.Body.Close()
			x, err := fake.Await(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			written := settled(t, x)
			const most = 24 << 20 // two sockets' buffers and the window
			if written > most {
				t.Errorf("the upstream could send %d bytes to a client that reads nothing", written)
			}
		})
	}
}

// settled waits until the exchange makes no more progress.
func settled(t *testing.T, x *fakeupstream.Exchange) int64 {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	last := int64(-1)
	for range 100 {
		<-tick.C
		if now := x.Written(); now == last && now > 0 {
			return now
		} else {
			last = now
		}
	}
	t.Fatalf("the upstream is still sending: %d bytes", last)
	return 0
}
