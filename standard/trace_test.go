package standard_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/standard"
)

// A receiver takes spans as a collector does, by OTLP over HTTP.
type receiver struct {
	mu    sync.Mutex
	spans []*trace.Span
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var export collector.ExportTraceServiceRequest
	if err != nil || proto.Unmarshal(body, &export) != nil || req.URL.Path != "/v1/traces" || req.Header.Get("X-Token") != "t" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range export.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
}

// tree returns the spans as lines, each below its parent and indented.
func (r *receiver) tree(parent []byte) (lines []string) {
	for _, s := range r.spans {
		if string(s.ParentSpanId) != string(parent) {
			continue
		}
		line := s.Name
		if s.Status.GetCode() == trace.Status_STATUS_CODE_ERROR {
			line += " !" + s.Status.Message
		}
		lines = append(lines, line)
		for _, l := range r.tree(s.SpanId) {
			lines = append(lines, "  "+l)
		}
	}
	return lines
}

// TestTraceOfAResponse: a request that failed over and had two rounds of tools is
// one trace, below the client's own, with every attempt and call; the upstream that
// is trusted is told of it, and the other is not (R35, R44).
func TestTraceOfAResponse(t *testing.T) {
	t.Parallel()
	var spans receiver
	collectorServer := httptest.NewServer(&spans)
	defer collectorServer.Close()
	var told sync.Map
	serve := func(name string, answer func(*fakeupstream.Exchange) fakeupstream.Reply) string {
		fake := fakeupstream.NewServer(func(x *fakeupstream.Exchange) fakeupstream.Reply {
			if x.Method == http.MethodPost {
				told.Store(name, x.Header.Get("Traceparent"))
			}
			return answer(x)
		})
		s := httptest.NewServer(fake)
		t.Cleanup(s.Close)
		t.Cleanup(fake.Close)
		return s.URL + "/v1"
	}
	broken := serve("broken", func(*fakeupstream.Exchange) fakeupstream.Reply {
		return fakeupstream.JSON(http.StatusServiceUnavailable, `{"error":{"message":"secret prose"}}`)
	})
	sound := serve("sound", func(x *fakeupstream.Exchange) fakeupstream.Reply {
		if n := strings.Count(string(x.Body), `"role":"tool"`); n < 2 {
			return fakeupstream.SSE(fmt.Sprintf(`data: {"choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"call_%d","function":{"name":"get_weather","arguments":"{}"}}]}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: [DONE]

`, n))
		}
		return fakeupstream.SSE("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Sunny.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	})
	weather := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "sun") }))
	defer weather.Close()
	c, err := config.Parse(fmt.Appendf(nil, `
upstreams:
  broken: { protocol: chat, url: %q }
  sound: { protocol: chat, url: %q, trusted: true }
models:
  m: { targets: [{ upstream: broken, model: x }, { upstream: sound, model: x, priority: 2 }] }
tools: { http: [{ name: get_weather, url: %q, approval: never }] }
traces: { endpoint: "%s/v1/traces", headers: { X-Token: t } }
`, broken, sound, weather.URL, collectorServer.URL), nil)
	if err != nil {
		t.Fatal(err)
	}
	telemetry, err := standard.NewTelemetry(c, "1")
	if err != nil {
		t.Fatal(err)
	}
	g, err := standard.New(t.Context(), c, &standard.Options{Telemetry: telemetry})
	if err != nil {
		t.Fatal(err)
	}
	api := httptest.NewServer(g.Handler())
	const traceID, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, api.URL+"/v1/responses",
		strings.NewReader(`{"model":"m","input":"x","stream":true,"tools":[{"type":"function","name":"get_weather"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", "00-"+traceID+"-"+parent+"-01")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || !strings.Contains(string(body), "event: response.completed") {
		t.Fatalf("%v: %s", err, body)
	}
	api.Close()
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	if err := telemetry.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	root, err := hex.DecodeString(parent)
	if err != nil {
		t.Fatal(err)
	}
	spans.mu.Lock()
	defer spans.mu.Unlock()
	want := []string{
		"POST /v1/responses",
		"  round 0", "    attempt broken !server_is_overloaded", "    attempt sound", "    execute_tool get_weather",
		"  round 1", "    attempt broken !server_is_overloaded", "    attempt sound", "    execute_tool get_weather",
		"  round 2", "    attempt broken !server_is_overloaded", "    attempt sound",
	}
	if diff := cmp.Diff(want, spans.tree(root)); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	for _, s := range spans.spans {
		if hex.EncodeToString(s.TraceId) != traceID {
			t.Errorf("%s is of another trace", s.Name)
		}
		if text := s.String(); strings.Contains(text, "secret prose") || strings.Contains(text, "Sunny") {
			t.Errorf("%s has content in it: %s", s.Name, text)
		}
	}
	if v, _ := told.Load("sound"); !strings.Contains(v.(string), traceID) {
		t.Errorf("the trusted upstream was told %q", v)
	}
	if v, _ := told.Load("broken"); v != "" {
		t.Errorf("the other upstream was told %q", v)
	}
}
