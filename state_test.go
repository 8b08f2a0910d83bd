package antiphon_test

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/chat"
	"github.com/antiphon-dev/antiphon/upstream/native"
)

// stateRig is a gateway that remembers, and the upstream behind it.
type stateRig struct {
	*testGateway
	t     *testing.T
	fake  *fakeupstream.Server
	store *memstore.Store
	key   string // that requests show, "" for none
}

// startState serves a gateway with a memory over the small model.
func startState(t *testing.T, protocol fakeupstream.Protocol, change func(o *antiphon.Options)) *stateRig {
	t.Helper()
	fake, address := startModel(t, protocol)
	base, err := url.Parse(address + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	client := upstream.NewClient()
	t.Cleanup(client.CloseIdleConnections)
	endpoint := upstream.Endpoint{Base: base, Client: client}
	driver := native.New(endpoint, nil)
	if protocol == fakeupstream.Chat {
		driver = chat.New(endpoint, nil)
	}
	kept := memstore.NewStore(nil)
	o := &antiphon.Options{Drivers: map[string]upstream.Driver{"fake": driver}, Store: kept}
	if change != nil {
		change(o)
	}
	return &stateRig{testGateway: serveGateway(t, o), t: t, fake: fake, store: kept}
}

// call sends a request and returns the answer.
func (r *stateRig) call(method, path, body string) (status int, header http.Header, answer []byte) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.URL+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if r.key != "" {
		req.Header.Set("Authorization", "Bearer "+r.key)
	}
	resp, err := r.Client().Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, answer
}

// answered is what these tests read of a response, an error or a list.
type answered struct {
	ID     string           `json:"id"`
	Object string           `json:"object"`
	Status string           `json:"status"`
	Store  bool             `json:"store"`
	Output []jsontext.Value `json:"output"`
	Data   []struct {
		ID      string         `json:"id"`
		Type    string         `json:"type"`
		Role    string         `json:"role"`
		CallID  string         `json:"call_id"`
		Content jsontext.Value `json:"content"`
	} `json:"data"`
	FirstID      string `json:"first_id"`
	LastID       string `json:"last_id"`
	HasMore      bool   `json:"has_more"`
	Deleted      bool   `json:"deleted"`
	Conversation *struct {
		ID string `json:"id"`
	} `json:"conversation"`
	Error *struct {
		Code    string `json:"code"`
		Param   string `json:"param"`
		Message string `json:"message"`
	} `json:"error"`
}

// do sends a request that must be answered with the given status.
func (r *stateRig) do(status int, method, path, body string) *answered {
	r.t.Helper()
	got, _, answer := r.call(method, path, body)
	if got != status {
		r.t.Fatalf("%s %s: status %d, want %d: %s", method, path, got, status, answer)
	}
	a := new(answered)
	if err := json.Unmarshal(answer, a); err != nil {
		r.t.Fatalf("%v: %s", err, answer)
	}
	return a
}

// create makes a response.
func (r *stateRig) create(body string) *answered {
	r.t.Helper()
	return r.do(200, "POST", "/v1/responses", body)
}

// refused makes none, and returns code and field of the error.
func (r *stateRig) refused(status int, method, path, body string) string {
	r.t.Helper()
	a := r.do(status, method, path, body)
	if a.Error == nil {
		r.t.Fatalf("%s %s: no error", method, path)
	}
	return a.Error.Code + " " + a.Error.Param
}

// heard is the conversation that the upstream got last, in one line for each
// message.
func (r *stateRig) heard() []string {
	r.t.Helper()
	all := r.fake.Requests()
	var body struct {
		Messages []message `json:"messages"`
		Input    []message `json:"input"`
	}
	if err := json.Unmarshal(all[len(all)-1].Body, &body); err != nil {
		r.t.Fatal(err)
	}
	var lines []string
	for _, m := range append(body.Messages, body.Input...) {
		lines = append(lines, m.line())
	}
	return lines
}

type message struct {
	Type      string         `json:"type"`
	Role      string         `json:"role"`
	Content   jsontext.Value `json:"content"`
	Name      string         `json:"name"`
	CallID    string         `json:"call_id"`
	Output    string         `json:"output"`
	ToolCalls []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tool_calls"`
}

func (m message) line() string {
	switch {
	case m.Type == "function_call":
		return "call " + m.Name
	case m.Type == "function_call_output":
		return "result " + m.Output
	case len(m.ToolCalls) > 0:
		return "call " + m.ToolCalls[0].Function.Name
	case m.Role == "tool":
		return "result " + text(m.Content)
	}
	return m.Role + ": " + text(m.Content)
}

// text is a content in words, however it is written.
func text(content jsontext.Value) string {
	if content.Kind() == '"' {
		var s string
		_ = json.Unmarshal(content, &s) // it is a string
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(content, &parts) // what is no list has no text
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// stateProtocols are the upstreams that these tests are about.
var stateProtocols = map[string]fakeupstream.Protocol{"chat": fakeupstream.Chat, "native": fakeupstream.Responses}

// TestStateChains: a response goes on from the whole chain before it, input and
// output in order, also across branches; instructions are not inherited (R40).
func TestStateChains(t *testing.T) {
	t.Parallel()
	for name, protocol := range stateProtocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startState(t, protocol, nil)
			first := r.create(`{"model":"m","input":"count to 2","instructions":"Be brief."}`)
			if !first.Store || !strings.HasPrefix(first.ID, "resp_") {
				t.Errorf("the first response: %+v", first)
			}
			second := r.create(`{"model":"m","input":"count to 3","previous_response_id":"` + first.ID + `"}`)
			r.create(`{"model":"m","input":[{"role":"user","content":"count to 4"}],"stream":false,"previous_response_id":"` + second.ID + `","store":false}`)
			want := []string{"user: count to 2", "assistant: 1 2", "user: count to 3", "assistant: 1 2 3", "user: count to 4"}
			if diff := cmp.Diff(want, r.heard()); diff != "" {
				t.Errorf("a chain of three (-want +got):\n%s", diff)
			}
			r.create(`{"model":"m","input":"count to 5","previous_response_id":"` + first.ID + `"}`)
			want = []string{"user: count to 2", "assistant: 1 2", "user: count to 5"}
			if diff := cmp.Diff(want, r.heard()); diff != "" {
				t.Errorf("a branch (-want +got):\n%s", diff)
			}
			if n := r.store.Stats().Responses; n != 3 {
				t.Errorf("%d responses are stored, want 3: store: false stores nothing", n)
			}
		})
	}
}

// TestStateRetrieves: what GET answers is what the client got, and what is deleted
// is gone, under any prefix of its id (R17, R42).
func TestStateRetrieves(t *testing.T) {
	t.Parallel()
	for name, protocol := range stateProtocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startState(t, protocol, nil)
			_, _, made := r.call("POST", "/v1/responses", `{"model":"m","input":"count to 2","metadata":{"a":"b"}}`)
			var a answered
			if err := json.Unmarshal(made, &a); err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{a.ID, strings.Replace(a.ID, "resp_", "chatcmpl-", 1), strings.Replace(a.ID, "resp_", "msg_", 1)} {
				status, _, got := r.call("GET", "/v1/responses/"+id, "")
				if status != 200 || !bytes.Equal(got, made) {
					t.Errorf("GET %s: %d\n%s, want\n%s", id, status, got, made)
				}
			}
			if d := r.do(200, "DELETE", "/responses/"+a.ID, ""); d.ID != a.ID || d.Object != "response" || !d.Deleted {
				t.Errorf("DELETE: %+v", d)
			}
			for _, method := range []string{"GET", "DELETE"} {
				if got := r.refused(404, method, "/v1/responses/"+a.ID, ""); got != "not_found " {
					t.Errorf("%s after it was deleted: %s", method, got)
				}
			}
			if got := r.refused(400, "POST", "/v1/responses", `{"model":"m","input":"x","previous_response_id":"`+a.ID+`"}`); got != "previous_response_not_found previous_response_id" {
				t.Errorf("going on from it: %s", got)
			}
		})
	}
}

// TestStateStreams: a stream is stored as well, before its last event is out (R40).
func TestStateStreams(t *testing.T) {
	t.Parallel()
	r := startState(t, fakeupstream.Chat, nil)
	_, _, stream := r.call("POST", "/v1/responses", `{"model":"m","input":"count to 2","stream":true}`)
	_, rest, _ := strings.Cut(string(stream), `"id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	if a := r.do(200, "GET", "/v1/responses/"+id, ""); a.Status != "completed" || len(a.Output) != 1 {
		t.Errorf("what was stored: %+v", a)
	}
	_, _, stream = r.call("POST", "/v1/responses", `{"model":"m","input":"count to 9 [[cut]]","stream":true}`)
	_, rest, _ = strings.Cut(string(stream), `"id":"`)
	id, _, _ = strings.Cut(rest, `"`)
	if a := r.do(200, "GET", "/v1/responses/"+id, ""); a.Status != "failed" || a.Error == nil {
		t.Errorf("a stream that failed: %+v", a)
	}
	if got := r.refused(400, "POST", "/v1/responses", `{"model":"m","input":"x","previous_response_id":"`+id+`"}`); got != "invalid_value previous_response_id" {
		t.Errorf("going on from what failed: %s", got)
	}
}

// TestStateless: without a store, what needs one is refused by name (R40).
func TestStateless(t *testing.T) {
	t.Parallel()
	r := startState(t, fakeupstream.Chat, func(o *antiphon.Options) { o.Store = nil })
	a := r.create(`{"model":"m","input":"count to 2"}`)
	if a.Store {
		t.Error("it says that it is stored")
	}
	for param, value := range map[string]string{"previous_response_id": `"` + a.ID + `"`, "conversation": `"conv_1"`} {
		if got := r.refused(400, "POST", "/v1/responses", `{"model":"m","input":"x","`+param+`":`+value+`}`); got != "unsupported_parameter "+param {
			t.Errorf("%s: %s", param, got)
		}
	}
	if got := r.refused(404, "GET", "/v1/responses/"+a.ID, ""); got != "not_found " {
		t.Errorf("GET: %s", got)
	}
}

// TestStateIncludes: the sealed form of reasoning is stored and goes back to the
// model; clients get it if they ask, with the answer, in its events, and with a
// response that they fetch (R12, R42).
func TestStateIncludes(t *testing.T) {
	t.Parallel()
	r := startState(t, fakeupstream.Responses, nil)
	for body, want := range map[string]bool{
		``: false, `,"stream":true`: false, `,"store":false`: false,
		`,"include":["reasoning.encrypted_content"]`: true, `,"stream":true,"include":["reasoning.encrypted_content"]`: true,
	} {
		_, _, answer := r.call("POST", "/v1/responses", `{"model":"m","input":"please think about seven"`+body+`}`)
		if strings.Contains(string(answer), "encrypted_content\":\"") != want || !strings.Contains(string(answer), `"type":"reasoning"`) {
			t.Errorf("answer to %q: %s", body, answer)
		}
	}
	_, _, made := r.call("POST", "/v1/responses", `{"model":"m","input":"please think about seven"}`)
	var a answered
	if err := json.Unmarshal(made, &a); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]bool{"": false, "?include=reasoning.encrypted_content": true, "?include[]=reasoning.encrypted_content": true, "?include=other": false} {
		_, _, body := r.call("GET", "/v1/responses/"+a.ID+query, "")
		if strings.Contains(string(body), "encrypted_content") != want || !strings.Contains(string(body), `"type":"reasoning"`) {
			t.Errorf("%q: %s", query, body)
		}
		if !want && !bytes.Equal(body, made) {
			t.Errorf("%q: fetched\n%s, answered\n%s", query, body, made)
		}
	}
	r.create(`{"model":"m","input":"count to 2","previous_response_id":"` + a.ID + `"}`)
	all := r.fake.Requests()
	if sent := string(all[len(all)-1].Body); !strings.Contains(sent, `"encrypted_content":"`) {
		t.Errorf("the model gets its reasoning back as %s", sent)
	}
}

// TestStateLosses: what an upstream did not honour is told with a response that is
// fetched as with the answer itself (R31).
func TestStateLosses(t *testing.T) {
	t.Parallel()
	r := startState(t, fakeupstream.Chat, nil)
	_, header, body := r.call("POST", "/v1/responses", `{"model":"m","input":"count to 2","truncation":"auto","text":{"verbosity":"low"}}`)
	var a answered
	if err := json.Unmarshal(body, &a); err != nil {
		t.Fatal(err)
	}
	_, again, _ := r.call("GET", "/v1/responses/"+a.ID, "")
	want := header.Values("Antiphon-Degraded")
	if diff := cmp.Diff(want, again.Values("Antiphon-Degraded")); diff != "" || len(want) != 2 {
		t.Errorf("losses (-answer +fetched):\n%s", diff)
	}
}
