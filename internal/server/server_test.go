package server_test

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/internal/server"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"))
}

// upstreamFunc plays the router: it opens turns and lists models.
type upstreamFunc func(ctx context.Context, t *upstream.Turn) (*upstream.Stream, error)

func (f upstreamFunc) Open(ctx context.Context, t *upstream.Turn) (*upstream.Stream, error) {
	return f(ctx, t)
}

func (f upstreamFunc) Models(context.Context) ([]upstream.Model, error) {
	return []upstream.Model{{ID: "m", OwnedBy: "fake", ContextWindow: 4096}}, nil
}

// says answers every turn with text.
func says(text string) upstreamFunc {
	return func(context.Context, *upstream.Turn) (*upstream.Stream, error) {
		c := responses.NewComposer(0, time.Now)
		c.Text(text, nil)
		c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
		return streamOf(c.Take(), nil), nil
	}
}

func streamOf(events []responses.Event, err error) *upstream.Stream {
	return &upstream.Stream{
		Upstream: "fake",
		Losses:   []responses.Loss{{Param: "text.verbosity", Reason: `has no "verbosity"`}},
		Events: iter.Seq2[responses.Event, error](func(yield func(responses.Event, error) bool) {
			for _, ev := range events {
				if !yield(ev, nil) {
					return
				}
			}
			if err != nil {
				yield(responses.Event{}, err)
			}
		}),
		Close: func() error { return nil },
	}
}

// refuses answers every turn with an error.
func refuses(err error) upstreamFunc {
	return func(context.Context, *upstream.Turn) (*upstream.Stream, error) { return nil, err }
}

// breaks answers every turn with a word and then an error.
func breaks(err error) upstreamFunc {
	return func(context.Context, *upstream.Turn) (*upstream.Stream, error) {
		c := responses.NewComposer(0, time.Now)
		c.Text("so", nil)
		return streamOf(c.Take(), err), nil
	}
}

// syncBuffer is a log that several goroutines may write.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// gateway serves the API over a scripted upstream.
type gateway struct {
	*httptest.Server
	api    *server.Server
	engine *engine.Engine
	logs   *syncBuffer
}

func newGateway(t *testing.T, up upstreamFunc, opts *server.Options) *gateway {
	t.Helper()
	if opts == nil {
		opts = &server.Options{}
	}
	logs := new(syncBuffer)
	opts.Logger = slog.New(slog.NewJSONHandler(logs, nil))
	e := engine.New(memstore.NewWindow(nil), nil)
	api := server.New(e, &server.Generation{Router: up}, opts)
	srv := httptest.NewServer(api)
	t.Cleanup(func() {
		srv.Close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.Stop(ctx)
	})
	return &gateway{srv, api, e, logs}
}

func (g *gateway) do(t *testing.T, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, g.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := g.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// TestJSONAnswer: without stream the answer is one response object (R7, R10).
func TestJSONAnswer(t *testing.T) {
	t.Parallel()
	g := newGateway(t, says("hello"), nil)
	for _, path := range []string{"/v1/responses", "/responses"} {
		resp, body := g.do(t, "POST", path, `{"model":"m","input":"hi"}`, "Content-Type", "application/json; charset=utf-8")
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s: %d %s: %s", path, resp.StatusCode, resp.Header.Get("Content-Type"), body)
		}
		got, err := responses.DecodeResponse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		msg, ok := got.Output[0].(*responses.Message)
		if !ok || msg.Content.Text() != "hello" || got.Status != responses.StatusCompleted || got.Object != "response" {
			t.Errorf("%s: %s", path, body)
		}
		if !strings.HasPrefix(resp.Header.Get("X-Request-Id"), "req_") || resp.Header.Get("Antiphon-Upstream") != "fake" {
			t.Errorf("headers: %v", resp.Header)
		}
		if got, want := resp.Header.Get("Antiphon-Degraded"), `"text.verbosity";reason="has no 'verbosity'"`; got != want {
			t.Errorf("Antiphon-Degraded is %s, want %s", got, want)
		}
	}
}

// TestStreamedAnswer: with it, events that end in [DONE] (R7, R13).
func TestStreamedAnswer(t *testing.T) {
	t.Parallel()
	g := newGateway(t, says("hello"), nil)
	resp, body := g.do(t, "POST", "/v1/responses", `{"model":"m","input":"hi","stream":true}`)
	if resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Antiphon-Degraded") == "" {
		t.Errorf("headers: %v", resp.Header)
	}
	if !strings.HasPrefix(body, "event: response.created\ndata: {") || !strings.HasSuffix(body, "}\n\ndata: [DONE]\n\n") {
		t.Errorf("the stream is %s", body)
	}
}

// TestRefusals: an error names its field, has the status of its code, and the
// same shape everywhere (R2, R8).
func TestRefusals(t *testing.T) {
	t.Parallel()
	g := newGateway(t, says("x"), &server.Options{MaxBodyBytes: 2000})
	for name, test := range map[string]struct {
		method, path, body string
		header             []string
		status             int
		code, param        string
	}{
		"two spellings":  {body: `{"model":"a","MODEL":"b"}`, status: 400, code: "invalid_json", param: "MODEL"},
		"duplicate keys": {body: `{"model":"a","model":"b"}`, status: 400, code: "invalid_json", param: "model"},
		"deep nesting":   {body: `{"input":` + strings.Repeat("[", 1900), status: 400, code: "invalid_json", param: "input"},
		"invalid UTF-8":  {body: "{\"model\":\"\xff\"}", status: 400, code: "invalid_json", param: "model"},
		"messages":       {body: `{"model":"m","messages":[]}`, status: 400, code: "unsupported_parameter", param: "messages"},
		"too large":      {body: `{"input":"` + strings.Repeat("x", 2000) + `"}`, status: 413, code: "request_too_large"},
		"media type":     {body: `a=b`, header: []string{"Content-Type", "application/x-www-form-urlencoded"}, status: 415, code: "unsupported_media_type"},
		"encoding":       {body: `{}`, header: []string{"Content-Encoding", "br"}, status: 415, code: "unsupported_media_type"},
		"background":     {body: `{"model":"m","background":true}`, status: 400, code: "unsupported_parameter", param: "background"},
		"unknown path":   {method: "GET", path: "/v1/nothing", status: 404, code: "not_found"},
		"wrong method":   {method: "PUT", path: "/v1/responses", status: 405, code: "method_not_allowed"},
		"websocket":      {method: "GET", path: "/v1/responses", header: []string{"Connection", "Upgrade", "Upgrade", "websocket"}, status: 426, code: "upgrade_required"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if test.method == "" {
				test.method, test.path = "POST", "/v1/responses"
			}
			resp, body := g.do(t, test.method, test.path, test.body, test.header...)
			var got struct {
				Error responses.ErrorBody `json:"error"`
			}
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatalf("%v: %s", err, body)
			}
			param := ""
			if got.Error.Param != nil {
				param = *got.Error.Param
			}
			if resp.StatusCode != test.status || string(got.Error.Code) != test.code || param != test.param || got.Error.Message == "" || got.Error.Type == "" {
				t.Errorf("got %d %s", resp.StatusCode, body)
			}
		})
	}
}

// TestFailureBeforeAndAfterHeaders: a refusal of the upstream is an HTTP status
// for both kinds of client; a failure after that is in the stream, and an HTTP
// status for JSON, with the same code and message (R12, R14).
func TestFailureBeforeAndAfterHeaders(t *testing.T) {
	t.Parallel()
	limited := responses.UpstreamErrorf(responses.CodeRateLimit, "too fast")
	limited.RetryAfter = 1500 * time.Millisecond
	for name, test := range map[string]struct {
		up     upstreamFunc
		stream bool
		status int
		in     string
	}{
		"before, stream": {refuses(limited), true, 429, `"code":"rate_limit_exceeded"`},
		"before, JSON":   {refuses(limited), false, 429, `"code":"rate_limit_exceeded"`},
		"after, stream":  {breaks(limited), true, 200, "event: response.failed\n"},
		"after, JSON":    {breaks(limited), false, 429, `"message":"too fast"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t, test.up, nil)
			body := `{"model":"m","input":"hi"}`
			if test.stream {
				body = `{"model":"m","input":"hi","stream":true}`
			}
			resp, got := g.do(t, "POST", "/v1/responses", body)
			if resp.StatusCode != test.status || !strings.Contains(got, test.in) || !strings.Contains(got, "too fast") {
				t.Errorf("%d: %s", resp.StatusCode, got)
			}
			if resp.StatusCode == 429 && resp.Header.Get("Retry-After") != "2" {
				t.Errorf("Retry-After is %q", resp.Header.Get("Retry-After"))
			}
			if strings.Contains(got, "response.completed") {
				t.Error("a failure was also a success")
			}
		})
	}
}

// TestHoldTime: a stream's headers do not wait for a slow upstream for ever.
func TestHoldTime(t *testing.T) {
	t.Parallel()
	accept := make(chan struct{})
	g := newGateway(t, func(ctx context.Context, turn *upstream.Turn) (*upstream.Stream, error) {
		<-accept
		return nil, responses.UpstreamErrorf(responses.CodeOverloaded, "full")
	}, &server.Options{Hold: 20 * time.Millisecond})
	req, err := http.NewRequestWithContext(t.Context(), "POST", g.URL+"/v1/responses", strings.NewReader(`{"model":"m","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := g.Client().Do(req) // returns with the headers, although nothing was accepted
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	close(accept)
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || !strings.Contains(string(body), "event: response.failed\n") {
		t.Errorf("%v, %d: %s", err, resp.StatusCode, body)
	}
}

func TestPanicIsAnAnswer(t *testing.T) {
	t.Parallel()
	g := newGateway(t, func(context.Context, *upstream.Turn) (*upstream.Stream, error) { panic("a defect") }, nil)
	resp, body := g.do(t, "POST", "/v1/responses", `{"model":"m"}`)
	if resp.StatusCode != 500 || strings.Contains(body, "defect") {
		t.Errorf("%d: %s", resp.StatusCode, body)
	}
	g.Close()
	if !strings.Contains(g.logs.String(), "a defect") {
		t.Errorf("the log does not say why: %s", g.logs)
	}
}

// TestAccessLogSaysShapeAndCauseButNoContent (R35).
func TestAccessLogSaysShapeAndCauseButNoContent(t *testing.T) {
	t.Parallel()
	g := newGateway(t, says("top secret answer"), nil)
	resp, _ := g.do(t, "POST", "/v1/responses", `{"model":"m","input":[{"role":"user","content":"private question"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}],
		"tools":[{"type":"function","name":"f"}]}`)
	g.Close()
	var line struct {
		RequestID string `json:"request_id"`
		Model     string `json:"model"`
		Input     string `json:"input"`
		Tools     string `json:"tools"`
		Cause     string `json:"cause"`
		Upstream  string `json:"upstream"`
		Status    int    `json:"status"`
	}
	if err := json.Unmarshal([]byte(g.logs.String()), &line); err != nil {
		t.Fatalf("%v: %s", err, g.logs)
	}
	if line.RequestID != resp.Header.Get("X-Request-Id") || line.Model != "m" || line.Input != "function_call:1,message:1" ||
		line.Tools != "function:1" || line.Cause != "completed" || line.Upstream != "fake" || line.Status != 200 {
		t.Errorf("the log says %s", g.logs)
	}
	if strings.Contains(g.logs.String(), "private") || strings.Contains(g.logs.String(), "secret") {
		t.Errorf("content in the log: %s", g.logs)
	}
}

// TestGenerations: a request keeps the generation that it began with, and the old
// one is known to be drained when the last of its requests has ended (R36).
func TestGenerations(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	g := newGateway(t, func(ctx context.Context, turn *upstream.Turn) (*upstream.Stream, error) {
		<-release
		return says("old")(ctx, turn)
	}, nil)
	answer := make(chan string)
	go func() {
		_, body := g.do(t, "POST", "/v1/responses", `{"model":"m","input":"x"}`)
		answer <- body
	}()
	for g.engine.Running() == 0 {
		time.Sleep(time.Millisecond)
	}
	drained := g.api.Use(&server.Generation{Router: says("new")})
	done := make(chan struct{})
	go func() {
		drained()
		close(done)
	}()
	if _, body := g.do(t, "POST", "/v1/responses", `{"model":"m","input":"x"}`); !strings.Contains(body, `"new"`) {
		t.Errorf("a request after the change got %s", body)
	}
	select {
	case <-done:
		t.Error("drained while a request of the old generation is running")
	default:
	}
	close(release)
	if body := <-answer; !strings.Contains(body, `"old"`) {
		t.Errorf("the request that was running got %s", body)
	}
	<-done
}

func TestModelsAndHealth(t *testing.T) {
	t.Parallel()
	g := newGateway(t, says("x"), nil)
	if _, body := g.do(t, "GET", "/v1/models", ""); body != `{"object":"list","data":[{"id":"m","object":"model","created":0,"owned_by":"fake","context_window":4096}]}` {
		t.Errorf("models: %s", body)
	}
	if resp, _ := g.do(t, "GET", "/readyz", ""); resp.StatusCode != 200 {
		t.Errorf("readyz: %d", resp.StatusCode)
	}
	g.api.Drain()
	if resp, _ := g.do(t, "GET", "/readyz", ""); resp.StatusCode != 503 {
		t.Errorf("readyz while draining: %d", resp.StatusCode)
	}
	if resp, _ := g.do(t, "GET", "/healthz", ""); resp.StatusCode != 200 {
		t.Errorf("healthz while draining: %d", resp.StatusCode)
	}
}
