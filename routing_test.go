package antiphon_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/upstream"
)

// routingRequests is small for every run of the tests; make show-routing asks for
// the real size.
var routingRequests = flag.Int("routing-requests", 300, "how many requests TestRoutingSurvives sends for each fault")

const routingConcurrency = 50

// cutAfterFirst begins an answer and breaks off.
func cutAfterFirst(*fakeupstream.Exchange) fakeupstream.Reply {
	const begun = `data: {"choices":[{"index":0,"delta":{"content":"You"}}]}` + "\n\n"
	reply := fakeupstream.SSE(begun + "data: {")
	reply.Fault = fakeupstream.Fault{Kind: fakeupstream.Cut, After: len(begun) + 3}
	return reply
}

// routingFaults are what one of three targets does, in turn.
var routingFaults = []struct {
	name   string
	answer func(*fakeupstream.Exchange) fakeupstream.Reply // nil: the server is down
	// began is true if answers begin on the target before they fail: these
	// failures cannot be hidden.
	began bool
}{
	{name: "refuses connections"},
	{name: "answers 500", answer: func(*fakeupstream.Exchange) fakeupstream.Reply {
		return fakeupstream.JSON(500, `{"error":{"message":"oops"}}`)
	}},
	{name: "answers 429 with Retry-After", answer: func(*fakeupstream.Exchange) fakeupstream.Reply {
		r := fakeupstream.JSON(429, `{"error":{"message":"slow down"}}`)
		r.Header = http.Header{"Retry-After": {"1"}}
		return r
	}},
	{name: "stalls before the first event", answer: func(*fakeupstream.Exchange) fakeupstream.Reply {
		return fakeupstream.Reply{Fault: fakeupstream.Fault{Kind: fakeupstream.StallFirst}}
	}},
	{name: "sends an error inside a 200 stream", answer: func(*fakeupstream.Exchange) fakeupstream.Reply {
		return fakeupstream.SSE("data: {\"error\":{\"message\":\"overloaded\",\"type\":\"server_error\"}}\n\n")
	}},
	{name: "cuts after the first delta", answer: cutAfterFirst, began: true},
}

// What requests are, of which every other one is streamed: one that is run, and one
// that passes as it came.
const (
	routedRun   = `{"model":"tiny","input":"count to 3","stream":%t}`
	routedRelay = `{"model":"tiny","input":"count to 3","store":false,"stream":%t}`
)

// TestRoutingSurvives: one of three targets is bad, in every way that targets are;
// clients see no failure, but for answers that had begun on it (R32). The table is
// what make show-routing prints.
func TestRoutingSurvives(t *testing.T) {
	for _, fault := range routingFaults {
		if !fault.began {
			t.Run(fault.name+", relayed", func(t *testing.T) {
				_, bad := startTarget(t, fault.answer)
				_, good := startModel(t, fakeupstream.Responses)
				_, other := startModel(t, fakeupstream.Responses)
				g := startPool(t, protocols[1].driver, []string{bad, good, other})
				began := time.Now()
				failed, _ := load(t, g, routedRelay, *routingRequests)
				if failed != 0 {
					t.Errorf("%d requests failed", failed)
				}
				if relayed := strings.Count(g.logs.String(), "relayed=true"); relayed != *routingRequests {
					t.Errorf("%d requests were relayed", relayed)
				}
				t.Logf("| %-36s | %5d requests | %3d client-visible failures | %-15s | %6s |",
					fault.name, *routingRequests, failed, "relayed", time.Since(began).Round(10*time.Millisecond))
			})
		}
		t.Run(fault.name, func(t *testing.T) {
			bad, badURL := startTarget(t, fault.answer)
			targets := []string{badURL}
			for range 2 {
				_, base := startTarget(t, fakeupstream.NewModel(nil).Answer)
				targets = append(targets, base)
			}
			g := startPool(t, protocols[0].driver, targets)
			began := time.Now()
			failed, failedWell := load(t, g, routedRun, *routingRequests)
			took := time.Since(began)

			begunOnBad := int64(0)
			if fault.began {
				begunOnBad = int64(len(bad.Requests()))
				if begunOnBad == 0 {
					t.Error("no answer began on the bad target: nothing was tested")
				}
			}
			if failed != begunOnBad || failedWell != failed {
				t.Errorf("%d requests failed, %d of them as they should; %d had begun on the bad target", failed, failedWell, begunOnBad)
			}
			t.Logf("| %-36s | %5d requests | %3d client-visible failures | %3d begun on it | %6s |",
				fault.name, *routingRequests, failed, begunOnBad, took.Round(10*time.Millisecond))
		})
	}
}

// startTarget serves an upstream; without an answer its address refuses.
func startTarget(t *testing.T, answer func(*fakeupstream.Exchange) fakeupstream.Reply) (*fakeupstream.Server, string) {
	t.Helper()
	if answer == nil {
		down := httptest.NewServer(http.NotFoundHandler())
		down.Close()
		return nil, down.URL
	}
	fake := fakeupstream.NewServer(answer)
	return fake, serve(t, fake)
}

// startPool serves a gateway whose model "tiny" has a target at each address.
func startPool(t *testing.T, driver func(e upstream.Endpoint) upstream.Driver, addresses []string) *testGateway {
	t.Helper()
	drivers := map[string]upstream.Driver{}
	var model antiphon.Model
	client := upstream.NewClient()
	t.Cleanup(client.CloseIdleConnections)
	for i, address := range addresses {
		base, err := url.Parse(address + "/v1")
		if err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("target%d", i)
		drivers[name] = driver(upstream.Endpoint{Base: base, Client: client})
		model.Targets = append(model.Targets, antiphon.Target{Upstream: name})
	}
	return serveGateway(t, &antiphon.Options{
		Drivers:  drivers,
		Models:   map[string]antiphon.Model{"tiny": model},
		Timeouts: antiphon.Timeouts{FirstEvent: 2 * time.Second}, // not less: a busy machine is no stalled target
	})
}

// load sends n requests, every other one streamed. failedWell are the failures
// that were told as such: an HTTP error, or response.failed and nothing after it.
func load(t *testing.T, g *testGateway, body string, n int) (failed, failedWell int64) {
	t.Helper()
	var bad, well atomic.Int64
	var wg sync.WaitGroup
	turn := make(chan int)
	for range routingConcurrency {
		wg.Go(func() {
			for i := range turn {
				ok, told := request(t, g, fmt.Sprintf(body, i%2 == 0), i%2 == 0)
				if !ok {
					bad.Add(1)
				}
				if !ok && told {
					well.Add(1)
				}
			}
		})
	}
	for i := range n {
		turn <- i
	}
	close(turn)
	wg.Wait()
	return bad.Load(), well.Load()
}

func request(t *testing.T, g *testGateway, body string, stream bool) (ok, told bool) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+"/v1/responses", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return false, false
	}
	resp, err := g.Client().Do(req)
	if err != nil {
		t.Error(err)
		return false, false
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
		return false, false
	}
	text := string(b)
	switch {
	case resp.StatusCode != http.StatusOK:
		return false, strings.Contains(text, `"error"`)
	case !stream:
		return strings.Contains(text, `"status":"completed"`) && strings.Contains(text, `"text":"1 2 3"`), false
	default:
		completed, failed := strings.Count(text, "event: response.completed\n"), strings.Count(text, "event: response.failed\n")
		return completed == 1 && failed == 0 && strings.Contains(text, `"text":"1 2 3"`), failed == 1 && completed == 0
	}
}
