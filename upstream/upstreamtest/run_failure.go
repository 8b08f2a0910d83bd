package upstreamtest

import (
	"bytes"
	"encoding/json/v2"
	"net/http"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// statuses are what an upstream refuses a turn with.
var statuses = []struct {
	name       string
	status     int
	retryAfter string
	want       responses.Code
	private    bool // the message stays in the gateway
	wait       time.Duration
}{
	{name: "bad request", status: 400, want: responses.CodeInvalidRequest},
	{name: "key refused", status: 401, want: responses.CodeUpstream, private: true},
	{name: "payment required", status: 402, want: responses.CodeUpstream, private: true},
	{name: "forbidden", status: 403, want: responses.CodeUpstream, private: true},
	{name: "no such model", status: 404, want: responses.CodeModelNotFound},
	{name: "too large", status: 413, want: responses.CodeTooLarge},
	{name: "rate limit", status: 429, retryAfter: "7", want: responses.CodeRateLimit, wait: 7 * time.Second},
	{name: "server error", status: 500, want: responses.CodeUpstream},
	{name: "bad gateway", status: 502, want: responses.CodeUpstream},
	{name: "overloaded", status: 503, retryAfter: "2", want: responses.CodeOverloaded, wait: 2 * time.Second},
	{name: "time-out", status: 504, want: responses.CodeTimeout},
	{name: "redirect", status: 307, want: responses.CodeUpstream},
}

// checkStatus: what an HTTP error of the upstream becomes. Trouble with the
// gateway's own account is not the client's: it becomes a 502 and says nothing
// of what the upstream wrote about the key.
func checkStatus(t *testing.T, h *Harness) {
	const said = "The upstream said this about sk-secret."
	body, err := json.Marshal(map[string]any{"error": map[string]any{"message": said, "type": "some_error", "param": nil, "code": nil}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range statuses {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h.skip(t, "status/"+tt.name)
			reply := fakeupstream.Reply{Status: tt.status, Body: body, Header: http.Header{"Location": {"/elsewhere"}}}
			if tt.retryAfter != "" {
				reply.Header.Set("Retry-After", tt.retryAfter)
			}
			err := newBench(t, h, reply).fail(t)
			wantError(t, err, tt.want)
			e := responses.AsError(err)
			if got := e.Message == said; got == tt.private {
				t.Errorf("the message is %q, want the upstream's: %t", e.Message, !tt.private)
			}
			if e.RetryAfter != tt.wait {
				t.Errorf("RetryAfter is %v, want %v", e.RetryAfter, tt.wait)
			}
			if !upstream.SafeToRetry(err) {
				t.Error("not safe to retry, although the upstream refused the turn")
			}
		})
	}
}

// otherType is a 200 that is no answer.
type otherType struct {
	name  string
	reply fakeupstream.Reply
}

func otherTypes(h *Harness) []otherType {
	return []otherType{
		{"HTML", fakeupstream.Reply{ContentType: "text/html; charset=utf-8", Body: []byte("<!doctype html><title>Sign in</title>")}},
		{"HTML that says it is JSON", fakeupstream.JSON(200, "<!doctype html>")},
		{"HTML that says it is a stream", fakeupstream.SSE("<!doctype html>\n\n")},
		{"a stream that says it is text", fakeupstream.Reply{ContentType: "text/plain", Body: []byte(h.Stream)}},
		{"JSON of something else", fakeupstream.JSON(200, `{"status":"ok"}`)},
		{"JSON that is no object", fakeupstream.JSON(200, `[]`)},
		{"frame that is not JSON", fakeupstream.SSE("data: <html>\n\n" + h.Stream)},
		{"empty JSON", fakeupstream.JSON(200, "")},
		{"empty stream", fakeupstream.SSE("")},
		{"comments only", fakeupstream.SSE(": keep-alive\n\n: keep-alive\n\n")},
	}
}

// checkContentType: a 200 that is not an answer, such as a proxy's login page.
func checkContentType(t *testing.T, h *Harness) {
	for _, tt := range otherTypes(h) {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h.skip(t, "content type/"+tt.name)
			wantError(t, newBench(t, h, tt.reply).fail(t), responses.CodeUpstream)
		})
	}
}

// checkLongLine: a line without an end is refused while it comes, not collected.
func checkLongLine(t *testing.T, h *Harness) {
	const most = 256 << 20
	reply := fakeupstream.Reply{ContentType: "text/event-stream", Stream: func(w *fakeupstream.Writer) error {
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		if _, err := w.Write([]byte(h.Endless(0) + `data: {"type":"`)); err != nil {
			return err
		}
		for range most / len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				return err
			}
		}
		return nil
	}}
	b := newBench(t, h, reply)
	err := b.fail(t)
	wantError(t, err, responses.CodeUpstream)
	if e := responses.AsError(err); len(e.Message) > 1000 {
		t.Errorf("the message has %d bytes", len(e.Message))
	}
	x := b.exchange(t)
	awaitClosed(t, "letting go of the connection", x.Done())
	if x.Written() >= most {
		t.Errorf("the driver read all %d bytes", x.Written())
	}
}
