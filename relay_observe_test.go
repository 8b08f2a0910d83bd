package antiphon_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/native"
)

// requestNotes keeps what a RequestObserver is told.
type requestNotes struct {
	antiphon.NopObserver
	mu      sync.Mutex
	ends    []antiphon.RequestEnd
	streams int
}

var _ antiphon.RequestObserver = (*requestNotes)(nil)

func (n *requestNotes) RequestStarted(ctx context.Context, _ *http.Request) context.Context {
	return ctx
}

func (n *requestNotes) StreamStarted(context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.streams++
}

func (n *requestNotes) RequestEnded(_ context.Context, e *antiphon.RequestEnd) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ends = append(n.ends, *e)
}

// TestRelayIsObserved: usage, timing and the order of events of what is relayed
// reach the observer and the log, by the upstream's name, and not a byte of it
// changes (R30, R33).
func TestRelayIsObserved(t *testing.T) {
	t.Parallel()
	const (
		created   = "data: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"r\"}}\n\n"
		running   = "data: {\"type\":\"response.in_progress\",\"sequence_number\":1,\"response\":{\"id\":\"r\"}}\n\n"
		completed = "data: {\"type\":\"response.completed\",\"sequence_number\":2,\"response\":{\"usage\":{\"input_tokens\":1,\"output_tokens\":2,\"total_tokens\":3}}}\n\n"
		delta     = "data: {\"type\":\"response.output_text.delta\",\"delta\":\"x\"}\n\n"
	)
	for name, tt := range map[string]struct {
		reply  fakeupstream.Reply
		stream bool
		broken string
		cause  string
		tokens int64
		events int64
	}{
		"a sound stream":     {fakeupstream.SSE(created + running + completed + "data: [DONE]\n\n"), true, "", "completed", 3, 3},
		"text without item":  {fakeupstream.SSE(created + running + delta + completed), true, `event 2 ("response.output_text.delta"): no item is open`, "completed", 3, 4},
		"text after the end": {fakeupstream.SSE(created + running + completed + delta), true, `event 3 ("response.output_text.delta"): after the terminal event`, "completed", 3, 4},
		"a number left out":  {fakeupstream.SSE(created + completed), true, `event 1 ("response.completed"): sequence_number is 2, not 1`, "completed", 3, 2},
		"no end":             {fakeupstream.SSE(created + running), true, "the stream ended without a terminal event", "upstream", 0, 2},
		"a whole answer":     {fakeupstream.JSON(200, `{"status":"incomplete","usage":{"total_tokens":5}}`), false, "", "incomplete", 5, 0},
		"a refusal":          {fakeupstream.JSON(400, `{"error":{"message":"no"}}`), false, "", "refused", 0, 0},
		"a failure":          {fakeupstream.JSON(500, `{"error":{"message":"no"}}`), false, "", "upstream", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, address := startTarget(t, func(*fakeupstream.Exchange) fakeupstream.Reply { return tt.reply })
			base, err := url.Parse(address + "/v1")
			if err != nil {
				t.Fatal(err)
			}
			client := upstream.NewClient()
			t.Cleanup(client.CloseIdleConnections)
			notes := new(requestNotes)
			g := serveGateway(t, &antiphon.Options{
				Drivers:  map[string]upstream.Driver{"acme": native.New(upstream.Endpoint{Base: base, Client: client}, nil)},
				Models:   map[string]antiphon.Model{"m": antiphon.ModelAt("acme", "")},
				Observer: notes,
			})
			body := `{"model":"m","input":"x","store":false}`
			if tt.stream {
				body = `{"model":"m","input":"x","store":false,"stream":true}`
			}
			resp, err := http.Post(g.URL+"/v1/responses", "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got := readUntilCut(resp)
			if want := string(tt.reply.Body); got != want {
				t.Errorf("the answer became %q", got)
			}
			g.Server.Close() // waits for the handler, which observes last
			notes.mu.Lock()
			defer notes.mu.Unlock()
			if len(notes.ends) != 1 {
				t.Fatalf("told of %d answers", len(notes.ends))
			}
			end := notes.ends[0]
			broken, tokens := "", int64(0)
			if end.Broken != nil {
				broken = end.Broken.Error()
			}
			if end.Usage != nil {
				tokens = end.Usage.TotalTokens
			}
			if end.Upstream != "acme" || end.Model != "m" || end.Route != "POST /v1/responses" || !end.Relayed || end.Stream != tt.stream || (notes.streams == 1) != tt.stream || end.FirstEvent <= 0 || end.Duration < end.FirstEvent {
				t.Errorf("told %+v", end)
			}
			if broken != tt.broken || string(end.Cause) != tt.cause || tokens != tt.tokens || end.Events != tt.events {
				t.Errorf("told of %q, %s, %d tokens, %d events", broken, end.Cause, tokens, end.Events)
			}
			log := g.logs.String()
			if tt.broken != "" && !(strings.Contains(log, "level=WARN") && strings.Contains(log, "upstream=acme") && strings.Contains(log, tt.broken[strings.LastIndex(tt.broken, ":")+1:])) {
				t.Errorf("the log says %s", log)
			}
			if tt.broken == "" && strings.Contains(log, "broken=") {
				t.Errorf("the log complains: %s", log)
			}
		})
	}
}

// readUntilCut reads what comes of an answer, which may be cut off.
func readUntilCut(resp *http.Response) string {
	var b strings.Builder
	buf := make([]byte, 4<<10)
	for {
		n, err := resp.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return b.String()
		}
	}
}

// TestSanitizedStreamsAreObserved: a stream that is cleaned on its way is a stream to
// whoever observes, like any other (R35).
func TestSanitizedStreamsAreObserved(t *testing.T) {
	t.Parallel()
	_, base := startTarget(t, func(*fakeupstream.Exchange) fakeupstream.Reply {
		return fakeupstream.SSE("data: {\"choices\":[]}\n\ndata: {\"choices\":[],\"usage\":{\"total_tokens\":3}}\n\ndata: [DONE]\n\n")
	})
	notes := new(requestNotes)
	opts := strict
	opts.Observer = notes
	g := startOver(t, base, protocols[1].driver, opts)
	g.send(t, "POST", "/v1/chat/completions", `{"model":"m","messages":[],"stream":true}`)
	g.Server.Close() // waits for the handler, which observes last
	notes.mu.Lock()
	defer notes.mu.Unlock()
	if len(notes.ends) != 1 || notes.streams != 1 || !notes.ends[0].Stream || notes.ends[0].Usage == nil || notes.ends[0].Usage.TotalTokens != 3 {
		t.Errorf("told of %d streams and %+v", notes.streams, notes.ends)
	}
}
