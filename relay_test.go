package antiphon_test

import (
	"bytes"
	"encoding/json/v2"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/internal/sse"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/chat"
	"github.com/antiphon-dev/antiphon/upstream/native"
	"github.com/antiphon-dev/antiphon/upstream/upstreamtest"
)

// startRelay serves a gateway over native upstreams, with the model "fast" that
// they call "tiny" and every other name as it is.
func startRelay(t *testing.T, addresses ...string) *testGateway {
	t.Helper()
	client := upstream.NewClient()
	t.Cleanup(client.CloseIdleConnections)
	drivers := map[string]upstream.Driver{}
	var fast, rest antiphon.Model
	for i, address := range addresses {
		base, err := url.Parse(address + "/v1")
		if err != nil {
			t.Fatal(err)
		}
		name := string(rune('a' + i))
		drivers[name] = native.New(upstream.Endpoint{Base: base, Client: client}, nil)
		fast.Targets = append(fast.Targets, antiphon.Target{Upstream: name, Model: "tiny", Priority: i + 1})
		rest.Targets = append(rest.Targets, antiphon.Target{Upstream: name, Priority: i + 1})
	}
	return serveGateway(t, &antiphon.Options{Drivers: drivers, Models: map[string]antiphon.Model{"fast": fast, "*": rest}})
}

// stateless returns the request of a client that remembers by itself.
func stateless(t *testing.T, body []byte) string {
	t.Helper()
	out, err := responses.SetMembers(body, responses.Member{Name: "store", Value: []byte("false")},
		responses.Member{Name: "previous_response_id"}, responses.Member{Name: "conversation"}, responses.Member{Name: "background"})
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestRelayIsByteIdentical: a request that asks for no memory arrives at a native
// upstream byte for byte, and every answer, legal or not, comes back the same way,
// for every golden and for what nobody knows yet.
func TestRelayIsByteIdentical(t *testing.T) {
	t.Parallel()
	goldens, err := upstreamtest.Load("upstream/native/testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, golden := range goldens {
		if golden.Refused != nil {
			continue
		}
		t.Run(golden.Name, func(t *testing.T) {
			t.Parallel()
			fake := fakeupstream.NewServer(func(*fakeupstream.Exchange) fakeupstream.Reply {
				return fakeupstream.Reply{Status: golden.Status, ContentType: golden.Header.Get("Content-Type"), Header: golden.Header, Body: golden.Body}
			})
			g := startRelay(t, serve(t, fake))
			body := stateless(t, golden.Request)
			resp := g.post(t.Context(), t, body)
			defer resp.Body.Close()
			answer, err := io.ReadAll(resp.Body)
			if resp.StatusCode != golden.Status || !bytes.Equal(answer, golden.Body) {
				t.Errorf("the answer became %d %q", resp.StatusCode, answer)
			}
			// A stream that ends before its answer is whole must not end well.
			if cut := errors.Is(err, io.ErrUnexpectedEOF); cut != (golden.Streamed && golden.Status == 200 && !endsWell(golden.Body)) || err != nil && !cut {
				t.Errorf("the answer ended with %v", err)
			}
			if sent := fake.Requests()[0].Body; string(sent) != body {
				t.Errorf("the request became %s", sent)
			}
		})
	}
}

// endsWell reports whether a stream has a terminal event.
func endsWell(stream []byte) bool {
	for frame, err := range sse.Read(bytes.NewReader(stream), nil) {
		if err != nil {
			return false
		}
		var ev struct {
			Type responses.EventType `json:"type"`
		}
		if json.Unmarshal(frame.Data, &ev) == nil && ev.Type.Terminal() {
			return true
		}
	}
	return false
}

// TestRelayRenames: where the client knows the model by another name, that name is
// all that changes, in both directions.
func TestRelayRenames(t *testing.T) {
	t.Parallel()
	fake, base := startModel(t, fakeupstream.Responses)
	g := startRelay(t, base)
	for _, stream := range []bool{true, false} {
		body := withStream(t, []byte(`{"model": "fast", "input":"count to 3","store":false, "x" : [1.0, {"y":null}]}`), stream)
		resp := g.post(t.Context(), t, body)
		answer, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(answer), `"model":"tiny"`) || !strings.Contains(string(answer), `"model":"fast"`) || !strings.Contains(string(answer), "1 2 3") {
			t.Errorf("stream %t: %s", stream, answer)
		}
		requests := fake.Requests()
		var sent, want map[string]any
		if err := json.Unmarshal(requests[len(requests)-1].Body, &sent); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(strings.Replace(body, "fast", "tiny", 1)), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, sent); diff != "" {
			t.Errorf("the request (-want +got):\n%s", diff)
		}
	}
	if logs := g.logs.String(); strings.Count(logs, "relayed=true") != 2 || strings.Count(logs, "cause=completed") != 2 {
		t.Errorf("the log says %s", logs)
	}
}

// TestRelayFailsOver: a relayed request moves on like any other, also from an
// error inside the first events of a stream, and the last answer passes as it is.
func TestRelayFailsOver(t *testing.T) {
	t.Parallel()
	failing := map[string]func(*fakeupstream.Exchange) fakeupstream.Reply{
		"down": nil,
		"500": func(*fakeupstream.Exchange) fakeupstream.Reply {
			return fakeupstream.JSON(500, `{"error":{"message":"oops"}}`)
		},
		"429": func(*fakeupstream.Exchange) fakeupstream.Reply {
			return fakeupstream.JSON(429, `{"error":{"message":"slow"}}`)
		},
		"error as first": func(*fakeupstream.Exchange) fakeupstream.Reply {
			return fakeupstream.SSE("data: {\"type\":\"error\",\"message\":\"x\"}\n\n")
		},
		"failed after start": func(*fakeupstream.Exchange) fakeupstream.Reply {
			return fakeupstream.SSE("event: response.created\r\ndata: {\"type\":\"response.created\",\"response\":{}}\r\n\r\ndata: {\"type\":\"response.failed\",\"response\":{}}\r\n\r\n")
		},
		"nothing at all": func(*fakeupstream.Exchange) fakeupstream.Reply { return fakeupstream.SSE("") },
	}
	const body = `{"model":"m","input":"count to 3","store":false,"stream":true}`
	for name, answer := range failing {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, bad := startTarget(t, answer)
			_, good := startModel(t, fakeupstream.Responses)
			g := startRelay(t, bad, good)
			status, got := g.postJSON(t, body)
			if status != http.StatusOK || !bytes.Contains(got, []byte("response.completed")) || bytes.Contains(got, []byte("response.failed")) {
				t.Errorf("got %d %s", status, got)
			}
		})
	}
	t.Run("nobody is left", func(t *testing.T) {
		t.Parallel()
		_, bad := startTarget(t, failing["429"])
		g := startRelay(t, bad)
		if status, got := g.postJSON(t, body); status != 429 || string(got) != `{"error":{"message":"slow"}}` {
			t.Errorf("got %d %s", status, got)
		}
	})
}

// TestRelayOrRun: what needs more than bytes is run.
func TestRelayOrRun(t *testing.T) {
	t.Parallel()
	_, base := startModel(t, fakeupstream.Responses)
	g := startRelay(t, base)
	for name, test := range map[string]struct {
		body    string
		relayed bool
	}{
		"stateless":     {`{"model":"tiny","input":"x","store":false}`, true},
		"stores":        {`{"model":"tiny","input":"x"}`, false},
		"stores, said":  {`{"model":"tiny","input":"x","store":true}`, false},
		"rendered item": {`{"model":"tiny","input":[{"role":"user","content":"x"},{"type":"message","id":"msg_1_use_tool","role":"assistant","content":"y"}],"store":false}`, false},
		"obsidian mode": {`{"model":"tiny","input":"x","store":false}`, false},
	} {
		before := strings.Count(g.logs.String(), "relayed=true")
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL+"/v1/responses", strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		if name == "obsidian mode" {
			req.Header.Set("X-Proxy-Output-Mode", "obsidian-xml")
		}
		resp, err := g.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if got := strings.Count(g.logs.String(), "relayed=true") > before; resp.StatusCode != 200 || got != test.relayed {
			t.Errorf("%s: status %d, relayed %t", name, resp.StatusCode, got)
		}
	}
}

// TestNoRelay: one target that is not to be relayed to is enough for the requests
// of a pool to be run; APIs that cannot be run pass all the same.
func TestNoRelay(t *testing.T) {
	t.Parallel()
	_, base := startModel(t, fakeupstream.Responses)
	u, err := url.Parse(base + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	client := upstream.NewClient()
	t.Cleanup(client.CloseIdleConnections)
	at := func() upstream.Driver { return native.New(upstream.Endpoint{Base: u, Client: client}, nil) }
	opts := &antiphon.Options{
		Drivers:   map[string]upstream.Driver{"a": at(), "b": at()},
		Upstreams: map[string]antiphon.Upstream{"b": {NoRelay: true}},
		Models: map[string]antiphon.Model{
			"relayed": antiphon.ModelAt("a", "tiny"), "run": antiphon.ModelAt("b", "tiny"),
			"both": {Targets: []antiphon.Target{{Upstream: "a", Model: "tiny", Weight: 1000}, {Upstream: "b", Model: "tiny", Priority: 2}}},
		},
	}
	g := serveGateway(t, opts)
	for model, relayed := range map[string]bool{"relayed": true, "run": false, "both": false} {
		before := strings.Count(g.logs.String(), "relayed=true")
		status, body := g.postJSON(t, `{"model":"`+model+`","input":"count to 3","store":false}`)
		if got := strings.Count(g.logs.String(), "relayed=true") > before; status != 200 || !bytes.Contains(body, []byte("1 2 3")) || got != relayed {
			t.Errorf("%s: relayed %t, got %d %s", model, got, status, body)
		}
	}
	resp, err := g.Client().Post(g.URL+"/v1/embeddings", "application/json", strings.NewReader(`{"model":"run","input":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, _ := io.ReadAll(resp.Body); bytes.Contains(answer, []byte("model_not_found")) {
		t.Errorf("embeddings did not pass: %s", answer)
	}
	opts.Upstreams["c"] = antiphon.Upstream{NoRelay: true}
	if _, err := antiphon.New(opts); err == nil || !strings.Contains(err.Error(), `"c"`) {
		t.Errorf("settings of nobody: %v", err)
	}
}

// TestOtherAPIsPass: Chat Completions and embeddings go to the upstream of their
// model as they came, whatever it is called here, and nowhere else.
func TestOtherAPIsPass(t *testing.T) {
	t.Parallel()
	chatFake, chatURL := startModel(t, fakeupstream.Chat)
	vectors, vectorsURL := startTarget(t, func(*fakeupstream.Exchange) fakeupstream.Reply {
		return fakeupstream.JSON(200, `{"object":"list","model":"tiny","data":[{"embedding":[0.5, 1.0]}]}`)
	})
	for name, test := range map[string]struct {
		fake             *fakeupstream.Server
		address          string
		path, body, want string
		status           int
	}{
		"a chat":           {chatFake, chatURL, "/v1/chat/completions", `{"model":"fast","messages":[{"role":"user","content":"hello"}]}`, `"content":"You said: hello"`, 200},
		"a streamed chat":  {chatFake, chatURL, "/v1/chat/completions", `{"model":"fast","stream":true,"messages":[{"role":"user","content":"hello"}]}`, "data: [DONE]", 200},
		"without /v1":      {chatFake, chatURL, "/chat/completions", `{"model":"fast","messages":[{"role":"user","content":"hello"}]}`, `"content":"You said: hello"`, 200},
		"embeddings":       {vectors, vectorsURL, "/v1/embeddings", `{"model":"fast","input":["a", "b"]}`, `{"embedding":[0.5, 1.0]}`, 200},
		"no such model":    {chatFake, chatURL, "/v1/chat/completions", `{"model":"slow","messages":[]}`, "model_not_found", 404},
		"two spellings":    {chatFake, chatURL, "/v1/chat/completions", `{"model":"fast","Model":"slow"}`, "invalid_json", 400},
		"refused upstream": {chatFake, chatURL, "/v1/chat/completions", `{"model":"fast","messages":[{"role":"user","content":"[[status 418]]"}]}`, "error", 418},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, err := url.Parse(test.address + "/v1")
			if err != nil {
				t.Fatal(err)
			}
			client := upstream.NewClient()
			t.Cleanup(client.CloseIdleConnections)
			g := serveGateway(t, &antiphon.Options{
				Drivers: map[string]upstream.Driver{"up": chat.New(upstream.Endpoint{Base: base, Client: client}, nil)},
				Models:  map[string]antiphon.Model{"fast": antiphon.ModelAt("up", "tiny")},
			})
			resp, err := g.Client().Post(g.URL+test.path, "application/json", strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			answer, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != test.status || !strings.Contains(string(answer), test.want) {
				t.Errorf("got %d %s", resp.StatusCode, answer)
			}
			if test.status == 200 && (strings.Contains(string(answer), `"model":"tiny"`) || !strings.Contains(string(answer), `"model":"fast"`)) {
				t.Errorf("the model has the upstream's name in %s", answer)
			}
		})
	}
}
