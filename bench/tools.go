package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/tool"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/chat"
)

// toolRounds is how many rounds a loop has, with toolCalls calls in each.
const (
	toolRounds = 20
	toolCalls  = 3
)

// measureTools compares a loop of the gateway, whose tools take no time, with the
// same model calls made one after the other without it: the same bodies, to the same
// server, read to their ends. A model that takes 20 ms to answer is a very fast one;
// one that takes none shows what a round itself costs.
func measureTools(ctx context.Context, r *rig, s *section) error {
	for _, m := range []struct {
		name  string
		think time.Duration
		limit *limit
	}{
		{"a model that takes 20 ms", 20 * time.Millisecond, atMost(1.1)},
		{"a model that takes no time", 0, nil},
	} {
		loop, bare, err := compareLoops(ctx, m.think, pick(r, 15, 5))
		if err != nil {
			return err
		}
		ratio := float64(loop) / float64(bare)
		each := (loop - bare) / (toolRounds + 1)
		r.say("tools: %s: loop %v, bare calls %v, %v a round", m.name, loop, bare, each)
		s.add(row{
			Metric: fmt.Sprintf("%d rounds of %d calls over the bare calls, %s", toolRounds, toolCalls, m.name), Value: ratio, Unit: "×",
			Note: fmt.Sprintf("%v a round", each.Round(time.Microsecond)), Limit: m.limit,
		})
	}
	return nil
}

// compareLoops returns the median times of a loop and of its bare calls, measured in
// turns.
func compareLoops(ctx context.Context, think time.Duration, times int) (loop, bare time.Duration, err error) {
	model := &loopModel{think: think}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, 0, err
	}
	srv := &http.Server{Handler: model, ReadHeaderTimeout: time.Minute}
	defer srv.Close()
	go func() { _ = srv.Serve(l) }()
	gateway, err := loopGateway(l.Addr().String())
	if err != nil {
		return 0, 0, err
	}
	defer gateway.Close()
	client := upstream.NewClient()
	defer client.CloseIdleConnections()
	var loops, bares []time.Duration
	for i := range times + 1 {
		model.forget()
		took, err := runLoop(ctx, gateway)
		if err != nil {
			return 0, 0, err
		}
		direct, err := runBare(ctx, client, "http://"+l.Addr().String(), model.bodies())
		if err != nil {
			return 0, 0, err
		}
		if i > 0 { // the first one warms up
			loops, bares = append(loops, took), append(bares, direct)
		}
	}
	return middle(loops), middle(bares), nil
}

func middle(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

// loopGateway is a gateway with a tool that does nothing.
func loopGateway(host string) (*antiphon.Gateway, error) {
	tools, err := tool.Functions(tool.Function{
		Tool: tool.Tool{Name: "nothing"},
		Run:  func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("done"), nil },
	})
	if err != nil {
		return nil, err
	}
	return antiphon.New(&antiphon.Options{
		Drivers: map[string]upstream.Driver{"model": chat.New(upstream.Endpoint{Base: &url.URL{Scheme: "http", Host: host, Path: "/v1"}}, nil)},
		Tools:   []tool.Executor{tools},
		Log:     memstore.NewWindow(nil),
		Logger:  slog.New(slog.DiscardHandler),
	})
}

// runLoop runs one response to its end.
func runLoop(ctx context.Context, g *antiphon.Gateway) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "/v1/responses",
		strings.NewReader(`{"model":"m","store":false,"stream":true,"input":"go","tools":[{"type":"function","name":"nothing"}]}`))
	if err != nil {
		return 0, err
	}
	w := &tailWriter{header: http.Header{}}
	began := time.Now()
	g.Handler().ServeHTTP(w, req)
	took := time.Since(began)
	if !bytes.Contains(w.tail, []byte("response.completed")) {
		return 0, fmt.Errorf("the loop ended with %s", w.tail)
	}
	return took, nil
}

// runBare makes the calls of a loop one after the other.
func runBare(ctx context.Context, client *http.Client, base string, bodies [][]byte) (time.Duration, error) {
	if len(bodies) != toolRounds+1 {
		return 0, fmt.Errorf("the loop made %d calls, not %d", len(bodies), toolRounds+1)
	}
	began := time.Now()
	for _, body := range bodies {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", bytes.NewReader(body))
		if err != nil {
			return 0, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// loopModel calls the tool until it has called it often enough. It remembers what it
// was asked.
type loopModel struct {
	think time.Duration

	mu    sync.Mutex
	asked [][]byte // guarded by mu
}

func (m *loopModel) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = nil
}

func (m *loopModel) bodies() [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

// ServeHTTP implements [http.Handler].
func (m *loopModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m.mu.Lock()
	m.asked = append(m.asked, body)
	m.mu.Unlock()
	time.Sleep(m.think)
	w.Header().Set("Content-Type", "text/event-stream")
	if bytes.Count(body, []byte(`"role":"tool"`)) >= toolRounds*toolCalls {
		_, _ = io.WriteString(w, textChunk("That is all.")+string(endChunks(1)))
		return
	}
	for i := range toolCalls {
		_, _ = io.WriteString(w, chunk(fmt.Sprintf(
			`{"tool_calls":[{"index":%d,"id":"call_%d","type":"function","function":{"name":"nothing","arguments":"{}"}}]}`, i, i), `null`))
	}
	_, _ = io.WriteString(w, chunk(`{}`, `"tool_calls"`)+"data: [DONE]\n\n")
}

// tailWriter is a writer that keeps the end of what it is given.
type tailWriter struct {
	header http.Header
	tail   []byte
}

func (w *tailWriter) Header() http.Header { return w.header }
func (w *tailWriter) WriteHeader(int)     {}
func (w *tailWriter) Flush()              {}

func (w *tailWriter) Write(p []byte) (int, error) {
	w.tail = append(w.tail, p...)
	if n := len(w.tail) - 1<<16; n > 0 {
		w.tail = slices.Delete(w.tail, 0, n)
	}
	return len(p), nil
}
