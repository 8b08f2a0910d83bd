package native_test

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/native"
)

// newUpstream starts an upstream with the answer, and a driver for it.
func newUpstream(t *testing.T, answer func(*fakeupstream.Exchange) fakeupstream.Reply, opts *native.Options) (upstream.Driver, *fakeupstream.Server) {
	t.Helper()
	fake := fakeupstream.NewServer(answer)
	web := httptest.NewServer(fake)
	base, err := url.Parse(web.URL + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	client := upstream.NewClient()
	d := native.New(upstream.Endpoint{Base: base, Client: client}, opts)
	t.Cleanup(func() {
		d.Close()
		fake.Close()
		client.CloseIdleConnections()
		web.Close()
	})
	return d, fake
}

// turn runs a turn to its end and returns its done items.
func turn(t *testing.T, ctx context.Context, d upstream.Driver, body string) []responses.Item {
	t.Helper()
	req, err := responses.DecodeRequest([]byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Open(ctx, &upstream.Turn{Request: req})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer s.Close()
	var fold responses.Fold
	for ev, err := range s.Events {
		if err != nil {
			t.Fatalf("turn: %v", err)
		}
		fold.Add(&ev)
	}
	return fold.Output()
}

// TestRotatedIDGoesBack: an item that the upstream knows by another id than the
// client does goes back under the upstream's (R17).
func TestRotatedIDGoesBack(t *testing.T) {
	t.Parallel()
	stream := `data: {"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"a/1","summary":[]}}

data: {"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"b/2","summary":[],"encrypted_content":"sealed"}}

data: {"type":"response.completed"}

`
	d, fake := newUpstream(t, func(*fakeupstream.Exchange) fakeupstream.Reply { return fakeupstream.SSE(stream) }, nil)
	items := turn(t, t.Context(), d, `{"model":"m","input":"Think."}`)
	id := items[0].ItemID()
	if !responses.ValidID(responses.PrefixReasoning, id) {
		t.Fatalf("the public id is %q", id)
	}
	item, err := json.Marshal(items[0])
	if err != nil {
		t.Fatal(err)
	}
	turn(t, t.Context(), d, `{"model":"m","input":[{"role":"user","content":"Think."},`+string(item)+`]}`)
	sent := fake.Requests()[1].Body
	if !bytes.Contains(sent, []byte(`"id":"b/2"`)) || bytes.Contains(sent, []byte(id)) {
		t.Errorf("the upstream received %s, want the id b/2", sent)
	}
}

// TestModelWithoutEncryptedReasoning: some models refuse a request for what they
// do not have. What only the gateway asked for is then left out, and from then
// on not asked for; what the client asked for is the client's to hear about.
func TestModelWithoutEncryptedReasoning(t *testing.T) {
	t.Parallel()
	answer := func(x *fakeupstream.Exchange) fakeupstream.Reply {
		if bytes.Contains(x.Body, []byte("encrypted_content")) {
			return fakeupstream.JSON(400, `{"error":{"message":"Not with this model.","type":"invalid_request_error","param":"include","code":null}}`)
		}
		return fakeupstream.SSE("data: {\"type\":\"response.completed\"}\n\n")
	}
	d, fake := newUpstream(t, answer, nil)
	for _, want := range []int{2, 3} {
		turn(t, t.Context(), d, `{"model":"m","input":"Hi."}`)
		if got := len(fake.Requests()); got != want {
			t.Errorf("the upstream has received %d requests, want %d", got, want)
		}
	}
	req, err := responses.DecodeRequest([]byte(`{"model":"m","input":"Hi.","include":["reasoning.encrypted_content"]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Open(t.Context(), &upstream.Turn{Request: req}); responses.AsError(err).Param != "include" {
		t.Errorf("open: %v, want the upstream's refusal", err)
	}
}

// TestReasoningOfAnotherUpstream: reasoning that another upstream has encrypted is
// left out if this one refuses it, and reported; all else goes as it came (R31, R40).
func TestReasoningOfAnotherUpstream(t *testing.T) {
	t.Parallel()
	answer := func(x *fakeupstream.Exchange) fakeupstream.Reply {
		if bytes.Contains(x.Body, []byte(`"foreign"`)) {
			return fakeupstream.JSON(400, `{"error":{"message":"It could not be verified.","type":"invalid_request_error","param":null,"code":"invalid_encrypted_content"}}`)
		}
		return fakeupstream.SSE("data: {\"type\":\"response.completed\"}\n\n")
	}
	const before, after = `{"role":"user","content":"a","x":1}`, `{"role":"user","content":"b"}`
	tests := map[string]struct {
		items    string
		requests int
		lost     string // "" means that the refusal is the answer's
	}{
		"reasoning":  {`{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"foreign"},`, 2, "input[1].encrypted_content"},
		"compaction": {`{"type":"compaction","id":"cmp_1","encrypted_content":"foreign"},`, 1, ""},
		"both": {`{"type":"compaction","id":"cmp_1","encrypted_content":"foreign"},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"foreign"},`,
			2, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, fake := newUpstream(t, answer, nil)
			req, err := responses.DecodeRequest([]byte(`{"model":"m","input":[`+before+`,`+tt.items+after+`]}`), nil)
			if err != nil {
				t.Fatal(err)
			}
			s, err := d.Open(t.Context(), &upstream.Turn{Request: req})
			if got := len(fake.Requests()); got != tt.requests {
				t.Errorf("the upstream has received %d requests, want %d", got, tt.requests)
			}
			if tt.lost == "" {
				if !errors.Is(err, upstream.ErrSealed) {
					t.Errorf("open: %v, want the upstream's refusal", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if len(s.Losses) != 1 || s.Losses[0].Param != tt.lost {
				t.Errorf("losses are %v", s.Losses)
			}
			var body struct {
				Input []struct {
					Content string `json:"content"`
					X       int    `json:"x"`
				} `json:"input"`
			}
			if err := json.Unmarshal(fake.Requests()[1].Body, &body); err != nil {
				t.Fatal(err)
			}
			if in := body.Input; len(in) != 2 || in[0].Content != "a" || in[0].X != 1 || in[1].Content != "b" {
				t.Errorf("the upstream received %+v", in)
			}
		})
	}
}

// TestConnectionIsUsedAgain: the little that follows the last event is read, so
// that the next turn does not need another connection.
func TestConnectionIsUsedAgain(t *testing.T) {
	t.Parallel()
	reply := fakeupstream.SSE("data: {\"type\":\"response.completed\"}\n\ndata: [DONE]\n\n")
	reply.Fault.Chunk = 30 // the end comes later than the last event
	d, _ := newUpstream(t, func(*fakeupstream.Exchange) fakeupstream.Reply { return reply }, nil)
	var reused atomic.Int32
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		if c.Reused {
			reused.Add(1)
		}
	}})
	for range 3 {
		turn(t, ctx, upstream.Guard(d, upstream.Limits{}), `{"model":"m","input":"Hi."}`)
	}
	if reused.Load() != 2 {
		t.Errorf("%d of the last two turns used a connection again", reused.Load())
	}
}

// TestUpstreamThatDoesNotHangUp: the end of the answer is not waited for long.
func TestUpstreamThatDoesNotHangUp(t *testing.T) {
	t.Parallel()
	reply := fakeupstream.SSE("data: {\"type\":\"response.completed\"}\n\n")
	reply.Fault = fakeupstream.Fault{Kind: fakeupstream.Stall, After: len(reply.Body)}
	d, fake := newUpstream(t, func(*fakeupstream.Exchange) fakeupstream.Reply { return reply }, nil)
	turn(t, t.Context(), d, `{"model":"m","input":"Hi."}`)
	<-fake.Requests()[0].Gone()
}

func TestOptions(t *testing.T) {
	t.Parallel()
	answer := func(*fakeupstream.Exchange) fakeupstream.Reply {
		return fakeupstream.SSE("data: <broken>\n\ndata: {\"type\":\"response.completed\"}\n\n")
	}
	d, fake := newUpstream(t, answer, &native.Options{Stateful: true, SkipMalformed: true})
	turn(t, t.Context(), d, `{"model":"m","input":"Hi."}`)
	if sent := string(fake.Requests()[0].Body); strings.Contains(sent, "store") || strings.Contains(sent, "include") {
		t.Errorf("the upstream received %s, want neither store nor include", sent)
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		reply fakeupstream.Reply
		want  []upstream.Model
		code  responses.Code
	}{
		{name: "first party", reply: fakeupstream.JSON(200, `{"object":"list","data":[{"id":"a","object":"model","created":5,"owned_by":"x"},{"id":"b"}]}`), want: []upstream.Model{{ID: "a", Created: 5, OwnedBy: "x"}, {ID: "b"}}},
		{name: "context windows", reply: fakeupstream.JSON(200, `{"data":[{"id":"a","max_model_len":8},{"id":"b","context_length":9},{"id":"c","context_window":10}]}`), want: []upstream.Model{{ID: "a", ContextWindow: 8}, {ID: "b", ContextWindow: 9}, {ID: "c", ContextWindow: 10}}},
		{name: "none", reply: fakeupstream.JSON(200, `{"data":[]}`), want: []upstream.Model{}},
		{name: "not there", reply: fakeupstream.JSON(404, `{}`), code: responses.CodeModelNotFound},
		{name: "not JSON", reply: fakeupstream.Reply{ContentType: "text/html", Body: []byte("<html>")}, code: responses.CodeUpstream},
		{name: "not a list", reply: fakeupstream.JSON(200, `{"data":7}`), code: responses.CodeUpstream},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, fake := newUpstream(t, func(*fakeupstream.Exchange) fakeupstream.Reply { return tt.reply }, nil)
			got, err := d.(upstream.ModelLister).Models(t.Context())
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("models (-want +got):\n%s", diff)
			}
			if e := responses.AsError(err); e != nil && e.Code != tt.code || e == nil && tt.code != "" {
				t.Errorf("error %v, want code %q", err, tt.code)
			}
			if x := fake.Requests()[0]; x.Method != "GET" || x.Path != "/v1/models" {
				t.Errorf("the upstream received %s %s", x.Method, x.Path)
			}
		})
	}
}
