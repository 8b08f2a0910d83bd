package chat_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/chat"
)

// serve starts h and returns a driver for it. Both end with the test.
func serve(t testing.TB, h http.Handler, opts *chat.Options, state func(net.Conn, http.ConnState)) upstream.Driver {
	t.Helper()
	web := httptest.NewUnstartedServer(h)
	web.Config.ConnState = state
	web.Start()
	client := upstream.NewClient()
	base, err := url.Parse(web.URL + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	d := chat.New(upstream.Endpoint{Base: base, Client: client}, opts)
	t.Cleanup(func() {
		if err := errors.Join(d.Close(), d.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
		client.CloseIdleConnections()
		web.Close()
	})
	return d
}

// run runs one turn and returns its items and its end.
func run(t testing.TB, d upstream.Driver, runID, request string) ([]responses.Item, *responses.TurnEnd) {
	t.Helper()
	req, err := responses.DecodeRequest([]byte(request), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Open(t.Context(), &upstream.Turn{Request: req, RunID: runID})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var items []responses.Item
	var end *responses.TurnEnd
	for ev, err := range s.Events {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Type == responses.EventItemDone {
			items = append(items, ev.Item)
		}
		end = ev.End
	}
	return items, end
}

const (
	answer    = `data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}` + "\n\n"
	answerEnd = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
)

// TestConnectionIsReused: the end mark is not the end of the body, and a
// connection whose body was not read to its end is lost.
func TestConnectionIsReused(t *testing.T) {
	t.Parallel()
	var conns atomic.Int64
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, answer)
		http.NewResponseController(w).Flush()
		io.WriteString(w, answerEnd)
	})
	d := serve(t, handler, nil, func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			conns.Add(1)
		}
	})
	const turns = 8
	for range turns {
		run(t, d, "", `{"model":"m","input":"Hi."}`)
	}
	// A machine that is busy elsewhere may be late for one or the other.
	if got := conns.Load(); got > turns/2 {
		t.Errorf("%d turns took %d connections, want 1", turns, got)
	}
}

// TestClosedDriverSendsNothing, however fast the upstream would be.
func TestClosedDriverSendsNothing(t *testing.T) {
	t.Parallel()
	requests := 0
	client := &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		requests++
		return nil, errors.New("unexpected request")
	})}
	d := chat.New(upstream.Endpoint{Base: &url.URL{Scheme: "http", Host: "upstream.test"}, Client: client}, nil)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	req := &responses.Request{Model: "m", Input: responses.Input{Items: []responses.Item{responses.UserMessage("Hi.")}}}
	if _, err := d.Open(t.Context(), &upstream.Turn{Request: req}); err == nil || requests != 0 {
		t.Errorf("open: error %v after %d requests, want an error without any", err, requests)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestIDsAreInTheShardOfTheRun, so that what belongs together is found together.
func TestIDsAreInTheShardOfTheRun(t *testing.T) {
	t.Parallel()
	fake := fakeupstream.NewServer(func(*fakeupstream.Exchange) fakeupstream.Reply { return fakeupstream.SSE(answer + answerEnd) })
	t.Cleanup(fake.Close)
	d := serve(t, fake, nil, nil)
	items, _ := run(t, d, "resp_019a000000007abc8000000000000001", `{"model":"m","input":"Hi."}`)
	if len(items) != 1 {
		t.Fatalf("%d items, want 1", len(items))
	}
	if got, ok := responses.Shard(items[0].ItemID()); !ok || got != 0xabc {
		t.Errorf("the shard of %s is %x, want abc", items[0].ItemID(), got)
	}
}

// TestProvider runs turns against a provider that was not written for this
// driver. Streamed and whole, the turns are the same (R7, R12).
func TestProvider(t *testing.T) {
	t.Parallel()
	const tools = `"tools":[{"type":"function","name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}]`
	tests := []struct {
		name, request string
		want          []string
	}{
		{"text", `{"model":"m","input":"Hi."}`, []string{"message You said: Hi."}},
		{"reasoning", `{"model":"m","input":"think"}`, []string{"reasoning Let me think about it.", "message Thought about: think"}},
		{"refusal", `{"model":"m","input":"refuse"}`, []string{"message I will not do that."}},
		{
			"calls", `{"model":"m","input":"weather in Rome and Oslo, both",` + tools + `}`,
			[]string{`function_call weather {"city":"Rome"}`, `function_call weather {"city":"Oslo"}`},
		},
		{
			"result", `{"model":"m","input":[{"role":"user","content":"weather"},{"type":"function_call","call_id":"call_1","name":"weather","arguments":"{}"},
				{"type":"function_call_output","call_id":"call_1","output":"Sunny."}],` + tools + `}`,
			[]string{"message The tool answered: Sunny."},
		},
		{
			"image", `{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}]}`,
			[]string{"message I see 1 image(s): image/png."},
		},
	}
	for _, tt := range tests {
		for mode, opts := range map[string]*chat.Options{"streamed": nil, "whole": {NoStream: true}} {
			t.Run(tt.name+" "+mode, func(t *testing.T) {
				t.Parallel()
				fake := fakeupstream.NewServer(fakeupstream.NewModel(&fakeupstream.ModelOptions{Protocol: fakeupstream.Chat}).Answer)
				t.Cleanup(fake.Close)
				items, end := run(t, serve(t, fake, opts, nil), "", tt.request)
				if diff := cmp.Diff(tt.want, describe(items)); diff != "" {
					t.Errorf("items (-want +got):\n%s", diff)
				}
				if end.Status != responses.StatusCompleted || end.Usage == nil {
					t.Errorf("the turn ended %+v, want completed with usage", end)
				}
			})
		}
	}
}

// describe says what is in the items that does not change from run to run.
func describe(items []responses.Item) []string {
	var out []string
	for _, it := range items {
		s := it.Type() + " "
		switch it := it.(type) {
		case *responses.Message:
			s += it.Content.Text()
		case *responses.Reasoning:
			s += responses.TextOf(it.Summary)
		case *responses.FunctionCall:
			s += it.Name + " " + it.Arguments
		}
		out = append(out, s)
	}
	return out
}

func TestModels(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		reply fakeupstream.Reply
		want  []upstream.Model
		code  responses.Code
	}{
		{
			name:  "vLLM",
			reply: fakeupstream.JSON(200, `{"object":"list","data":[{"id":"qwen","object":"model","created":1763164800,"owned_by":"vllm","root":"qwen","max_model_len":32768,"permission":[]}]}`),
			want:  []upstream.Model{{ID: "qwen", Created: 1763164800, OwnedBy: "vllm", ContextWindow: 32768}},
		},
		{
			name:  "llama.cpp",
			reply: fakeupstream.JSON(200, `{"models":[{"name":"g"}],"object":"list","data":[{"id":"g","owned_by":"llamacpp","meta":{"vocab_type":2,"n_ctx_train":131072}}]}`),
			want:  []upstream.Model{{ID: "g", OwnedBy: "llamacpp", ContextWindow: 131072}},
		},
		{
			name:  "other words, or none",
			reply: fakeupstream.JSON(200, `{"data":[{"id":"a","context_window":8192},{"id":"b","context_length":4096,"meta":null},{"id":"c","max_model_len":null}]}`),
			want:  []upstream.Model{{ID: "a", ContextWindow: 8192}, {ID: "b", ContextWindow: 4096}, {ID: "c"}},
		},
		{name: "none", reply: fakeupstream.JSON(200, `{"object":"list","data":[]}`), want: []upstream.Model{}},
		{name: "too long", reply: fakeupstream.JSON(200, strings.Repeat(" ", 17<<20)+`{"data":[]}`), code: responses.CodeUpstream},
		{name: "not JSON", reply: fakeupstream.JSON(200, `<html>`), code: responses.CodeUpstream},
		{name: "no such path", reply: fakeupstream.JSON(404, `{}`), code: responses.CodeModelNotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			fake := fakeupstream.NewServer(fakeupstream.Script(tt.reply))
			t.Cleanup(fake.Close)
			got, err := serve(t, fake, nil, nil).(upstream.ModelLister).Models(t.Context())
			if tt.code != "" {
				if e := responses.AsError(err); e == nil || e.Code != tt.code {
					t.Fatalf("models: %v, want code %s", err, tt.code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("models (-want +got):\n%s", diff)
			}
			if x := fake.Requests()[0]; x.Method != "GET" || x.Path != "/v1/models" {
				t.Errorf("the request was %s %s", x.Method, x.Path)
			}
		})
	}
}
