package antiphon_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/internal/sse"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/chat"
	"github.com/antiphon-dev/antiphon/upstream/native"
)

// protocols are the kinds of upstream that every whole-gateway test runs over.
var protocols = []struct {
	name    string
	speaks  fakeupstream.Protocol
	goldens string
	driver  func(e upstream.Endpoint) upstream.Driver
}{
	{"chat", fakeupstream.Chat, "upstream/chat/testdata", func(e upstream.Endpoint) upstream.Driver { return chat.New(e, nil) }},
	{"native", fakeupstream.Responses, "upstream/native/testdata", func(e upstream.Endpoint) upstream.Driver { return native.New(e, nil) }},
}

// testGateway is a gateway over one upstream, with a client of its own.
type testGateway struct {
	*httptest.Server
	logs *lockedBuffer
}

// startGateway serves a gateway whose only upstream is at base.
func startGateway(t *testing.T, driver func(e upstream.Endpoint) upstream.Driver, base string, now func() time.Time) *testGateway {
	t.Helper()
	return startOver(t, base, driver, antiphon.Options{Now: now})
}

// startOver serves the gateway that opts describes over one upstream at base.
func startOver(t *testing.T, base string, driver func(e upstream.Endpoint) upstream.Driver, opts antiphon.Options) *testGateway {
	t.Helper()
	u, err := url.Parse(base + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	client := upstream.NewClient()
	t.Cleanup(client.CloseIdleConnections)
	opts.Drivers = map[string]upstream.Driver{
		"up": driver(upstream.Endpoint{Base: u, Client: client, Auth: upstream.BearerAuth(canary)}),
	}
	return serveGateway(t, &opts)
}

// serveGateway serves the gateway that opts describes, with a log that can be
// read.
func serveGateway(t *testing.T, opts *antiphon.Options) *testGateway {
	t.Helper()
	logs := new(lockedBuffer)
	opts.Log, opts.Logger = memstore.NewWindow(nil), slog.New(slog.NewTextHandler(logs, nil))
	g, err := antiphon.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(g.Handler())
	t.Cleanup(func() {
		srv.Close()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return &testGateway{srv, logs}
}

// startModel serves the small model in one protocol.
func startModel(t *testing.T, speaks fakeupstream.Protocol) (*fakeupstream.Server, string) {
	t.Helper()
	fake := fakeupstream.NewServer(fakeupstream.NewModel(&fakeupstream.ModelOptions{Protocol: speaks}).Answer)
	return fake, serve(t, fake)
}

func serve(t *testing.T, fake *fakeupstream.Server) string {
	web := httptest.NewServer(fake)
	t.Cleanup(func() {
		fake.Close()
		web.Close()
	})
	return web.URL
}

// post sends a request and returns the answer; the caller closes its body.
func (g *testGateway) post(ctx context.Context, t *testing.T, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.URL+"/v1/responses", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := g.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// postJSON returns the status and the whole body of an answer.
func (g *testGateway) postJSON(t *testing.T, body string) (int, []byte) {
	t.Helper()
	resp := g.post(t.Context(), t, body)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, b
}

// readStream decodes a streamed answer and checks what holds for every stream:
// the frames' names, the grammar, and [DONE] at the end (R13).
func readStream(t *testing.T, body io.Reader) (events []responses.Event, raw [][]byte) {
	t.Helper()
	done := false
	for frame, err := range sse.Read(body, nil) {
		if err != nil {
			t.Fatal(err)
		}
		if done {
			t.Fatalf("after [DONE]: %s", frame.Data)
		}
		if string(frame.Data) == "[DONE]" {
			done = true
			continue
		}
		data := bytes.Clone(frame.Data)
		ev, err := responses.DecodeEvent(data)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if string(ev.Type) != frame.Type {
			t.Errorf("the frame is named %q, the event %q", frame.Type, ev.Type)
		}
		events, raw = append(events, ev), append(raw, data)
	}
	if !done {
		t.Error("no [DONE]")
	}
	if err := responses.CheckSequence(events); err != nil {
		t.Fatal(err)
	}
	return events, raw
}

// withStream returns the request body with stream set.
func withStream(t *testing.T, body []byte, stream bool) string {
	t.Helper()
	out, err := responses.SetMembers(body, responses.Member{Name: "stream", Value: fmt.Append(nil, stream)})
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// mintedID matches ids that the gateway makes, or the small model.
var mintedID = regexp.MustCompile(`\b(resp|msg|fc|ctc|rs|call|cmp|tsc|item|mcp|mcpl|mcpr)_([0-9a-f]{32}|[0-9A-Z]{16}[0-9a-f]{8})\b`)

// stableIDs replaces minted ids by their order of appearance.
func stableIDs(b []byte) string {
	seen := map[string]string{}
	return mintedID.ReplaceAllStringFunc(string(b), func(id string) string {
		if seen[id] == "" {
			seen[id] = fmt.Sprintf("%s%d", id[:strings.Index(id, "_")+1], len(seen)+1)
		}
		return seen[id]
	})
}

// lockedBuffer is a log that several goroutines may write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
