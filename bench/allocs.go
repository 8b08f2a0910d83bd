package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/chat"
)

// allocDeltas is how many deltas an answer has whose allocations are counted:
// so many that those of the request do not matter.
const allocDeltas = 100_000

// measureAllocs counts what the whole way through the gateway allocates for one
// text delta: reading the upstream's frame, decoding, checking, logging, encoding
// and writing it. The gateway runs in this process, between a transport and a
// writer that allocate nothing.
func measureAllocs(ctx context.Context, r *rig, s *section) error {
	for _, kind := range []struct{ play, name string }{
		{playBurst, "bursts of 4 KiB"}, {playToken, "token by token"},
	} {
		cost, err := allocations(ctx, script{kind.play, allocDeltas})
		if err != nil {
			return err
		}
		r.say("allocs: %s: %.2f allocations per delta", kind.name, cost.count)
		note := fmt.Sprintf("%.0f bytes", cost.bytes)
		s.add(
			row{Metric: kind.name + ", per delta", Value: cost.count, Note: note, Limit: atMost(10).hard()},
			row{Metric: kind.name + ", per delta, as aimed at", Value: cost.count, Limit: atMost(6)},
		)
	}
	return nil
}

// allocCost is what one delta allocates.
type allocCost struct{ count, bytes float64 }

// allocations sends the script through a gateway, once to warm up and once to
// count. Nothing else may run in this process meanwhile.
func allocations(ctx context.Context, play script) (allocCost, error) {
	transport := cannedTransport{render(play)}
	gateway, err := antiphon.New(&antiphon.Options{
		Drivers: map[string]upstream.Driver{"canned": chat.New(upstream.Endpoint{
			Base: &url.URL{Scheme: "http", Host: "canned", Path: "/v1"}, Client: &http.Client{Transport: transport},
		}, nil)},
		Log:    memstore.NewWindow(nil),
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return allocCost{}, err
	}
	defer gateway.Close()
	if err := throughHandler(ctx, gateway.Handler(), play); err != nil {
		return allocCost{}, err
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = throughHandler(ctx, gateway.Handler(), play)
	runtime.ReadMemStats(&after)
	n := float64(play.n)
	return allocCost{float64(after.Mallocs-before.Mallocs) / n, float64(after.TotalAlloc-before.TotalAlloc) / n}, err
}

// throughHandler asks a handler for the script and checks that all of it came.
func throughHandler(ctx context.Context, h http.Handler, play script) error {
	body, err := responsesProtocol.body(play.String(), "play")
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway/v1/responses", strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	w := &countingWriter{header: http.Header{}}
	h.ServeHTTP(w, req)
	if w.seen.deltas != play.n || w.seen.last != "response.completed" {
		return fmt.Errorf("gateway: %d deltas came, not %d; the last event was %q", w.seen.deltas, play.n, w.seen.last)
	}
	return nil
}

// cannedTransport answers every request with the same answer.
type cannedTransport struct{ answer *canned }

func (t cannedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: -1,
		Header:  http.Header{"Content-Type": {"text/event-stream"}},
		Body:    &cannedReader{canned: t.answer},
		Request: req,
	}, nil
}

// countingWriter is a client that takes everything at once and keeps nothing.
type countingWriter struct {
	header http.Header
	seen   tally
}

func (w *countingWriter) Header() http.Header              { return w.header }
func (w *countingWriter) WriteHeader(int)                  {}
func (w *countingWriter) Write(p []byte) (int, error)      { return w.seen.Write(p) }
func (w *countingWriter) FlushError() error                { return nil }
func (w *countingWriter) SetWriteDeadline(time.Time) error { return nil }
