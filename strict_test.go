package antiphon_test

import (
	"bytes"
	"encoding/json/v2"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/internal/openapitest"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream/upstreamtest"
)

// canary is a credential that nobody may read.
const canary = "sk-canary-5d41402abc4b2a76"

var strict = antiphon.Options{Mode: antiphon.ModeStrict}

// send sends a request and returns the answer with its body read.
func (g *testGateway) send(t *testing.T, method, path, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, g.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := g.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) { // a stream that was cut is an answer too
		t.Fatalf("%v after %s", err, b)
	}
	return resp, string(b)
}

// TestStrictPaths: there are known paths, with and without /v1, and no others (R30).
func TestStrictPaths(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		fake, base := startModel(t, p.speaks)
		g := startOver(t, base, p.driver, strict)
		for path, known := range map[string]bool{
			"POST /responses": true, "POST /chat/completions": true, "POST /embeddings": true, "GET /models": true,
			"POST /images/generations": false, "GET /files": false, "POST /files": false, "DELETE /files/1": false, "POST /completions": false,
			"POST /audio/speech": false, "GET /responses/../files": false, "POST /Responses": false, "PUT /embeddings": false, "GET /metrics": false,
		} {
			method, rest, _ := strings.Cut(path, " ")
			for _, root := range []string{"/v1", ""} {
				resp, body := g.send(t, method, root+rest, `{"model":"m"}`)
				if got := resp.StatusCode != http.StatusNotFound || strings.Contains(body, "upstream"); got != known {
					t.Errorf("%s: %s %s: %d %s", p.name, method, root+rest, resp.StatusCode, body)
				}
			}
		}
		for _, r := range fake.Requests() {
			if strings.Contains(r.Path, "file") || strings.Contains(r.Path, "images") {
				t.Errorf("%s: the upstream got %s", p.name, r.Path)
			}
		}
		if resp, body := g.send(t, "GET", "/healthz", ""); resp.StatusCode != 200 {
			t.Errorf("health: %d %s", resp.StatusCode, body)
		}
	}
}

// TestStrictRefusesByName: each kind of schema error is a 400 that names what is
// wrong, and nothing reaches the upstream (R5, R30).
func TestStrictRefusesByName(t *testing.T) {
	t.Parallel()
	fake, base := startModel(t, fakeupstream.Responses)
	g := startOver(t, base, protocols[1].driver, strict)
	for name, test := range map[string]struct{ path, body, param, code string }{
		"wrong type":               {"responses", `{"model":"m","input":"x","temperature":"hot"}`, "temperature", "invalid_type"},
		"wrong type inside":        {"responses", `{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":7}]}]}`, "input[0].content[0].text", "invalid_type"},
		"not an item":              {"responses", `{"model":"m","input":["x"]}`, "input[0]", "invalid_type"},
		"out of range":             {"responses", `{"model":"m","input":"x","top_p":1.5}`, "top_p", "invalid_value"},
		"below the range":          {"responses", `{"model":"m","input":"x","max_output_tokens":1}`, "max_output_tokens", "invalid_value"},
		"missing":                  {"responses", `{"model":"m","input":[{"type":"function_call","name":"f","arguments":"{}"}]}`, "input[0].call_id", "missing_required_parameter"},
		"missing inside a tool":    {"responses", `{"model":"m","input":"x","tools":[{"type":"function"}]}`, "tools[0].name", "invalid_value"},
		"unknown word":             {"responses", `{"model":"m","input":"x","truncation":"some"}`, "truncation", "invalid_value"},
		"unknown role":             {"responses", `{"model":"m","input":[{"role":"narrator","content":"x"}]}`, "input[0].role", "invalid_value"},
		"unknown choice":           {"responses", `{"model":"m","input":"x","tool_choice":"maybe"}`, "tool_choice", "invalid_value"},
		"a choice of nothing":      {"responses", `{"model":"m","input":"x","tool_choice":{"type":"function","name":"f"}}`, "tool_choice", "invalid_value"},
		"duplicate":                {"responses", `{"model":"m","input":"x","input":"y"}`, "input", "invalid_json"},
		"duplicate inside":         {"responses", `{"model":"m","input":[{"role":"user","role":"system","content":"x"}]}`, "input[0].role", "invalid_json"},
		"another spelling":         {"responses", `{"model":"m","input":"x","Model":"n"}`, "Model", "invalid_json"},
		"another spelling, deeper": {"responses", `{"model":"m","input":[{"role":"user","Content":"x"}]}`, "input[0].Content", "invalid_json"},
		"of another API":           {"responses", `{"model":"m","messages":[]}`, "messages", "unsupported_parameter"},
		"not JSON":                 {"responses", `{"model":`, "model", "invalid_json"},
		"too long":                 {"responses", `{"model":"m","input":"x","metadata":{"k":"` + strings.Repeat("v", 600) + `"}}`, "metadata.k", "invalid_value"},
		"no messages":              {"chat/completions", `{"model":"m"}`, "messages", "missing_required_parameter"},
		"messages of a wrong type": {"chat/completions", `{"model":"m","messages":"x"}`, "messages", "invalid_type"},
		"a model of a wrong type":  {"chat/completions", `{"model":1,"messages":[]}`, "model", "invalid_type"},
		"nothing to embed":         {"embeddings", `{"model":"m","input":null}`, "input", "missing_required_parameter"},
		"an embedding of two":      {"embeddings", `{"model":"m","model":"n","input":"x"}`, "model", "invalid_json"},
	} {
		resp, body := g.send(t, "POST", "/v1/"+test.path, test.body)
		var got struct {
			Error struct {
				Param string `json:"param"`
				Code  string `json:"code"`
			} `json:"error"`
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if resp.StatusCode != 400 || got.Error.Param != test.param || got.Error.Code != test.code {
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
		}
	}
	if n := len(fake.Requests()); n > 0 {
		t.Errorf("%d requests reached the upstream", n)
	}
}

// TestStrictStrips: what nobody published is taken out and named, and never refused,
// also in requests that would otherwise be relayed (R6, R30).
func TestStrictStrips(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		fake, base := startModel(t, p.speaks)
		g := startOver(t, base, p.driver, strict)
		resp, body := g.send(t, "POST", "/v1/responses", `{"model":"m","store":false,"acme_top_k":4,"input":[{"type":"acme:thought"},{"role":"user","acme_x":1,"content":"count to 3"}],"tools":[{"type":"telepathy"}],"reasoning":{"effort":"low","acme_b":1}}`)
		if resp.StatusCode != 200 || !strings.Contains(body, "1 2 3") {
			t.Fatalf("%s: %d %s", p.name, resp.StatusCode, body)
		}
		want := []string{
			`"acme_top_k";reason="unknown member"`, `"input[0]";reason="unknown item type acme:thought"`, `"input[1].acme_x";reason="unknown member"`,
			`"tools[0]";reason="unknown tool type telepathy"`, `"reasoning.acme_b";reason="unknown member"`,
		}
		if diff := cmp.Diff(sorted(want), sorted(resp.Header.Values("Antiphon-Stripped"))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", p.name, diff)
		}
		if sent := string(fake.Requests()[0].Body); strings.Contains(sent, "acme") || strings.Contains(sent, "telepathy") {
			t.Errorf("%s: the upstream got %s", p.name, sent)
		}
		if logs := g.logs.String(); strings.Contains(logs, "relayed=true") || !strings.Contains(logs, "stripped=") {
			t.Errorf("%s: the log says %s", p.name, logs)
		}
		if _, body := g.send(t, "POST", "/v1/responses", `{"model":"m","input":"hello"}`); strings.Contains(body, "Stripped") {
			t.Error(body)
		}
	}
	fake, base := startModel(t, fakeupstream.Chat)
	g := startOver(t, base, protocols[0].driver, strict)
	resp, body := g.send(t, "POST", "/v1/chat/completions?acme=1", `{"model":"m","top_k":4,"messages":[{"role":"user","content":"hello"}]}`)
	if got := resp.Header.Get("Antiphon-Stripped"); resp.StatusCode != 200 || got != `"top_k";reason="unknown member"` {
		t.Errorf("%d %q %s", resp.StatusCode, got, body)
	}
	if sent := fake.Requests()[0]; strings.Contains(string(sent.Body), "top_k") {
		t.Errorf("the upstream got %s", sent.Body)
	}
}

func sorted(list []string) map[string]bool {
	set := map[string]bool{}
	for _, s := range list {
		set[s] = true
	}
	return set
}

// TestStrictHeaderIsTame: a client cannot write into its own headers by the names
// that it makes up, or make them long.
func TestStrictHeaderIsTame(t *testing.T) {
	t.Parallel()
	_, base := startModel(t, fakeupstream.Responses)
	g := startOver(t, base, protocols[1].driver, strict)
	var names strings.Builder
	for i := range 5000 {
		names.WriteString(`,"` + strings.Repeat("x", i%300) + string(rune('a'+i%26)) + `\r\nSet-Cookie: a=b\"\\ÿ` + time.Duration(i).String() + `":1`)
	}
	resp, body := g.send(t, "POST", "/v1/responses", `{"model":"m","input":"hello"`+names.String()+`}`)
	if resp.StatusCode != 200 || resp.Header.Get("Set-Cookie") != "" {
		t.Fatalf("%d %v %s", resp.StatusCode, resp.Header, body)
	}
	if got := resp.Header.Values("Antiphon-Stripped"); len(got) != 65 || got[64] != `".";reason="and 4936 more"` {
		t.Errorf("%d values, the last %q", len(got), got[len(got)-1])
	}
}

// TestStrictGoldens sends every golden of every driver through a strict gateway,
// streamed and not (R30, R61). Stream and JSON agree, all of it validates against
// the Open Responses document, and nothing of it is the upstream's own invention.
func TestStrictGoldens(t *testing.T) {
	t.Parallel()
	checker := openapitest.Load(t)
	for _, p := range protocols {
		goldens, err := upstreamtest.Load(p.goldens)
		if err != nil {
			t.Fatal(err)
		}
		for _, golden := range goldens {
			t.Run(p.name+"/"+golden.Name, func(t *testing.T) {
				t.Parallel()
				answer := askGolden(t, checker, p.driver, golden, antiphon.Options{Mode: antiphon.ModeStrict})
				if answer == nil {
					return
				}
				compareAnswers(t, checker, answer.status, answer.whole, answer.events)
				for i := range answer.events {
					checkPublished(t, answer.events[i])
				}
			})
		}
	}
}

// checkPublished fails if there is something to strip from an event that was sent.
func checkPublished(t *testing.T, ev responses.Event) {
	t.Helper()
	if ev.Response != nil { // the stripper is for turns: look at what turns are made of
		for _, it := range ev.Response.Output {
			checkPublished(t, responses.Event{Type: responses.EventItemDone, Item: it})
		}
		return
	}
	var s responses.AnswerStripper
	if ev.Type == responses.EventError {
		return
	}
	kept := s.Strip(&ev)
	end := responses.Event{Type: responses.EventTurnEnd, End: &responses.TurnEnd{}}
	s.Strip(&end)
	if !kept || len(end.End.Stripped) > 0 {
		t.Errorf("%s was sent with %v", ev.Type, end.End.Stripped)
	}
}

// leaky are answers of an upstream that tell who it is.
var leaky = map[string]fakeupstream.Reply{
	"no such key":    fakeupstream.JSON(401, `{"error":{"message":"Incorrect key `+canary+` of Acme GmbH","code":"invalid_api_key"}}`),
	"pay first":      fakeupstream.JSON(402, `{"error":{"message":"Acme GmbH owes us"}}`),
	"not you":        fakeupstream.JSON(403, `{"error":{"message":"Acme GmbH may not"}}`),
	"quota":          fakeupstream.JSON(429, `{"error":{"message":"Acme GmbH is out of credit","type":"insufficient_quota","code":"insufficient_quota"}}`),
	"rate":           fakeupstream.JSON(429, `{"error":{"message":"Acme GmbH: 500 per minute"}}`),
	"broken":         fakeupstream.JSON(500, `{"error":{"message":"Acme GmbH node 7, Bearer `+canary+`"}}`),
	"a bad request":  fakeupstream.JSON(400, `{"error":{"message":"Acme GmbH says no","param":"temperature"}}`),
	"elsewhere":      {Status: 302, Header: http.Header{"Location": {"https://acme-gmbh.test"}}},
	"a page":         {Status: 502, ContentType: "text/html", Body: []byte(`<h1>Acme GmbH</h1>`)},
	"not an answer":  fakeupstream.JSON(200, `{"acme":"Acme GmbH"`),
	"in the stream":  fakeupstream.SSE("data: {\"type\":\"response.created\",\"response\":{}}\n\ndata: {\"type\":\"error\",\"error\":{\"message\":\"Acme GmbH is out of credit\",\"code\":\"insufficient_quota\"}}\n\n"),
	"not an event":   fakeupstream.SSE("data: {\"acme\": Acme GmbH\n\n"),
	"in its words":   fakeupstream.SSE("data: {\"type\":\"error\",\"error\":{\"message\":\"Acme GmbH, key " + canary + "\",\"code\":\"server_error\"}}\n\n"),
	"in a bad frame": fakeupstream.SSE("data: {\"acme\": Acme GmbH " + canary + "\n\n"),
	"failed at last": fakeupstream.SSE("data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"server_error\",\"message\":\"Acme GmbH node 7\"},\"usage\":{\"input_tokens\":1,\"output_tokens\":1,\"total_tokens\":2,\"acme_cost\":1}}}\n\n"),
}

// TestSanitized: in strict mode, and in the other for an upstream that is to be
// sanitized, clients read nothing of its account and none of its words, whatever
// they send; the log has them, but for the credential (R33).
func TestSanitized(t *testing.T) {
	t.Parallel()
	modes := map[string]antiphon.Options{
		"strict":   strict,
		"sanitize": {Upstreams: map[string]antiphon.Upstream{"up": {Sanitize: true}}},
	}
	for mode, opts := range modes {
		for name, reply := range leaky {
			t.Run(mode+"/"+name, func(t *testing.T) {
				t.Parallel()
				_, base := startTarget(t, func(*fakeupstream.Exchange) fakeupstream.Reply { return reply })
				g := startOver(t, base, protocols[1].driver, opts)
				for _, call := range []struct{ path, body string }{
					{"responses", `{"model":"m","input":"x","store":false}`},
					{"responses", `{"model":"m","input":"x","store":false,"stream":true}`},
					{"responses", `{"model":"m","input":"x"}`},
					{"chat/completions", `{"model":"m","messages":[{"role":"user","content":"x"}]}`},
					{"embeddings", `{"model":"m","input":"x"}`},
				} {
					resp, body := g.send(t, "POST", "/v1/"+call.path, call.body)
					all := strings.ToLower(body)
					for name, values := range resp.Header {
						all += strings.ToLower(name + strings.Join(values, ""))
					}
					if strings.Contains(all, "acme") || strings.Contains(all, canary) {
						t.Errorf("%s %s: the client reads %d %v %s", call.path, call.body, resp.StatusCode, resp.Header, body)
					}
					if s := resp.StatusCode; s == 401 || s == 402 || s == 403 || s == 302 || strings.Contains(body, "insufficient_quota") {
						t.Errorf("%s: status %d %s", call.path, s, body)
					}
				}
				logs := g.logs.String()
				if strings.Contains(logs, canary) {
					t.Errorf("the credential is in the log: %s", logs)
				}
				if name != "elsewhere" && name != "a page" && !strings.Contains(logs, "Acme GmbH") {
					t.Errorf("the log does not say what the upstream said: %s", logs)
				}
			})
		}
	}
}

// TestNobodyReadsTheCredential: not even where an upstream's words are passed on,
// as an answer that is run is in transparent mode.
func TestNobodyReadsTheCredential(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		for name, reply := range map[string]fakeupstream.Reply{
			"a status":  fakeupstream.JSON(500, `{"error":{"message":"no `+canary+`"}}`),
			"a frame":   fakeupstream.SSE("event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"no " + canary + "\"}}\n\n"),
			"nonsense":  fakeupstream.SSE("data: Bearer " + canary + "\n\n"),
			"an object": fakeupstream.JSON(200, `{"error":{"message":"no `+canary+`"}}`),
			"a failure": fakeupstream.SSE("data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"message\":\"no " + canary + "\"},\"usage\":{\"input_tokens\":1,\"output_tokens\":0,\"total_tokens\":1}}}\n\n"),
		} {
			_, base := startTarget(t, func(*fakeupstream.Exchange) fakeupstream.Reply { return reply })
			g := startOver(t, base, p.driver, antiphon.Options{})
			for _, stream := range []bool{false, true} {
				resp, body := g.send(t, "POST", "/v1/responses", withStream(t, []byte(`{"model":"m","input":"x"}`), stream))
				if strings.Contains(body, canary) || !strings.Contains(body, "error") {
					t.Errorf("%s, %s: the client reads %d %s", p.name, name, resp.StatusCode, body)
				}
			}
			if logs := g.logs.String(); strings.Contains(logs, canary) {
				t.Errorf("%s, %s: the log says %s", p.name, name, logs)
			}
		}
	}
}

// TestSanitizedModels: nor does the list of models tell whose they are.
func TestSanitizedModels(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]fakeupstream.Reply{
		"a list":  fakeupstream.JSON(200, `{"object":"list","data":[{"id":"m","object":"model","owned_by":"org-acme","acme":1}]}`),
		"a death": fakeupstream.JSON(500, `{"error":{"message":"Acme GmbH node 7"}}`),
	} {
		_, base := startTarget(t, func(*fakeupstream.Exchange) fakeupstream.Reply { return reply })
		for _, p := range protocols {
			g := startOver(t, base, p.driver, strict)
			resp, body := g.send(t, "GET", "/v1/models", "")
			if strings.Contains(strings.ToLower(body), "acme") || (resp.StatusCode == 200) != (name == "a list") {
				t.Errorf("%s, %s: got %d %s", p.name, name, resp.StatusCode, body)
			}
			if name == "a list" && !strings.Contains(body, `"id":"m"`) {
				t.Errorf("%s: %s", p.name, body)
			}
		}
	}
}

// TestSanitizedAnswers: good answers lose what only their upstream has, and nothing
// else; an upstream beside it that is not sanitized is relayed as ever.
func TestSanitizedAnswers(t *testing.T) {
	t.Parallel()
	answers := map[string]struct {
		reply            fakeupstream.Reply
		path, body, want string
	}{
		"chat": {
			fakeupstream.JSON(200, `{"id":"c","model":"m","acme":1,"choices":[{"index":0,"acme":1,"message":{"role":"assistant","content":"hi","reasoning_content":"so","acme":{"choices":1}},"finish_reason":"stop"}],"usage":{"total_tokens":3,"acme_cost":1}}`),
			"chat/completions", `{"model":"m","messages":[]}`,
			`{"id":"c","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi","reasoning_content":"so"},"finish_reason":"stop"}],"usage":{"total_tokens":3}}`,
		},
		"a streamed chat": {
			fakeupstream.SSE(": acme\n\nevent: acme\ndata: {\"id\":\"c\",\ndata: \"acme\":1,\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\",\"acme\":1}}]}\n\ndata: [DONE]\n\n"),
			"chat/completions", `{"model":"m","messages":[],"stream":true}`,
			"data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n",
		},
		"embeddings": {
			fakeupstream.JSON(200, `{"object":"list","acme":1,"data":[{"embedding":[0.50,1.0],"index":0,"acme":1}],"model":"m"}`),
			"embeddings", `{"model":"m","input":"x"}`,
			`{"object":"list","data":[{"embedding":[0.50,1.0],"index":0}],"model":"m"}`,
		},
	}
	for name, test := range answers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reply := test.reply
			reply.Header = http.Header{"X-Acme-Org": {"Acme"}, "X-Ratelimit-Remaining-Tokens": {"7"}}
			_, base := startTarget(t, func(*fakeupstream.Exchange) fakeupstream.Reply { return reply })
			g := startOver(t, base, protocols[1].driver, strict)
			resp, body := g.send(t, "POST", "/v1/"+test.path, test.body)
			if resp.StatusCode != 200 || body != test.want || resp.Header.Get("X-Acme-Org") != "" || resp.Header.Get("X-Ratelimit-Remaining-Tokens") != "" {
				t.Errorf("got %d %v %s", resp.StatusCode, resp.Header, body)
			}
			plain := startOver(t, base, protocols[1].driver, antiphon.Options{})
			if _, body := plain.send(t, "POST", "/v1/"+test.path, test.body); body != string(test.reply.Body) && name != "a streamed chat" {
				t.Errorf("without sanitizing it became %s", body)
			}
		})
	}
	t.Run("an error inside a stream", func(t *testing.T) {
		t.Parallel()
		_, base := startTarget(t, func(*fakeupstream.Exchange) fakeupstream.Reply {
			return fakeupstream.SSE("data: {\"id\":\"c\",\"choices\":[]}\n\ndata: {\"error\":{\"message\":\"Acme GmbH is out of credit\"}}\n\ndata: [DONE]\n\n")
		})
		g := startOver(t, base, protocols[1].driver, strict)
		resp, err := g.Client().Post(g.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m","messages":[],"stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err == nil || bytes.Contains(body, []byte("Acme")) || !bytes.Contains(body, []byte(`{"error":`)) || bytes.Contains(body, []byte("[DONE]")) {
			t.Errorf("got %s and %v", body, err)
		}
		if logs := g.logs.String(); !strings.Contains(logs, "Acme GmbH") {
			t.Errorf("the log says %s", logs)
		}
	})
}
