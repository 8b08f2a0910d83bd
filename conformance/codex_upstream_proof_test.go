//go:build unix

package conformance_test

import (
	"encoding/json/v2"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/responses"
)

// arrived returns the bodies of the requests for responses that came to the
// provider.
func (g *codexGateway) arrived(t *testing.T) []map[string]any {
	t.Helper()
	var bodies []map[string]any
	for _, x := range g.provider.Requests() {
		if x.Method != http.MethodPost {
			continue
		}
		var body map[string]any
		if err := json.Unmarshal(x.Body, &body); err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, body)
	}
	return bodies
}

// TestCodexUpstreamIsBare: what arrives at the provider is the client's
// instructions, input, tools and settings, and nothing of Codex's own, for models
// that Codex knows and for one that it does not (R50).
func TestCodexUpstreamIsBare(t *testing.T) {
	t.Parallel()
	g := startCodexGateway(t, "")
	const tool = `{"type":"function","name":"get_weather","description":"The weather.","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}}`
	for _, test := range []struct{ name, settings, want string }{
		{"plain", `"input":"no tool: hello"`, `{"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"no tool: hello"}]}],"tools":[],"reasoning":{}}`},
		{
			"whole",
			`"instructions":"Be brief.","input":[{"role":"system","content":"S"},{"role":"user","content":"no tool: hello"}],"tools":[` + tool + `],"reasoning":{"effort":"high","summary":"auto"},
				"service_tier":"flex","text":{"format":{"type":"json_schema","name":"n","strict":true,"schema":{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}}}`,
			`{"input":[{"type":"message","role":"developer","content":[{"type":"input_text","text":"Be brief."}]},{"type":"message","role":"developer","content":[{"type":"input_text","text":"S"}]},
				{"type":"message","role":"user","content":[{"type":"input_text","text":"no tool: hello"}]}],
				"tools":[{"type":"function","name":"get_weather","description":"The weather.","strict":false,"parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}}],
				"reasoning":{"effort":"high","summary":"auto"},"service_tier":"flex",
				"text":{"format":{"type":"json_schema","name":"codex_output_schema","strict":true,"schema":{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"],"additionalProperties":false}}}}`,
		},
	} {
		for _, model := range []string{"gpt-5.5", "gpt-6.1-sol", "gpt-6-astra", "never-heard-of"} {
			before := len(g.arrived(t))
			if _, err := g.ask(t.Context(), fmt.Sprintf(`{"model":%q,%s}`, model, test.settings)); err != nil {
				t.Fatalf("%s, %s: %v", model, test.name, err)
			}
			got := g.arrived(t)[before:]
			if len(got) != 1 {
				t.Fatalf("%s, %s: %d calls arrived, want 1", model, test.name, len(got))
			}
			var want map[string]any
			// What every call of Codex has: it streams, keeps nothing, and asks for
			// reasoning that can go back.
			fixed := fmt.Sprintf(`{"model":%q,"stream":true,"store":false,"tool_choice":"auto","parallel_tool_calls":true,"include":["reasoning.encrypted_content"]}`, model)
			for _, part := range []string{fixed, test.want} {
				if err := json.Unmarshal([]byte(part), &want); err != nil {
					t.Fatal(err)
				}
			}
			for _, own := range []string{"client_metadata", "prompt_cache_key"} { // beside what the model reads
				delete(got[0], own)
			}
			for _, item := range got[0]["input"].([]any) {
				delete(item.(map[string]any), "id") // Codex gives one to each
			}
			if diff := cmp.Diff(want, got[0]); diff != "" {
				t.Errorf("%s, %s: what arrived (-ours +got):\n%s", model, test.name, diff)
			}
		}
	}
}

// steps is how long the tool loop is.
const steps = 10

// TestCodexUpstreamLoop: a tool loop by stateless replay makes one call at the
// provider for each step, and the whole history arrives there each time, item by
// item, with its reasoning (R17, R50).
func TestCodexUpstreamLoop(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"replayed", "previous_response_id"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			g := startCodexGateway(t, "")
			prompt := "Work. [[insist]]"
			for i := range steps {
				prompt += fmt.Sprintf(" [[reason]] [[call note {\"n\":%d}]]", i)
			}
			input := []any{map[string]any{"role": "user", "content": prompt}}
			want := []any{map[string]any{"type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": prompt}}}}
			previous := ""
			for i := range steps + 1 {
				request := map[string]any{
					"model": "gpt-5.5", "input": input, "include": []string{responses.IncludeEncryptedReasoning},
					"tools": []any{map[string]any{"type": "function", "name": "note", "parameters": map[string]any{
						"type": "object", "properties": map[string]any{"n": map[string]any{"type": "integer"}}, "required": []string{"n"},
					}}},
				}
				if previous != "" {
					request["previous_response_id"] = previous
				}
				body, err := json.Marshal(request)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := g.ask(t.Context(), string(body))
				if err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
				calls := g.arrived(t)
				if len(calls) != i+1 {
					t.Fatalf("step %d: %d calls arrived at the provider, want %d", i, len(calls), i+1)
				}
				if diff := cmp.Diff(want, history(t, calls[i]["input"])); diff != "" {
					t.Fatalf("step %d: the history (-sent +arrived):\n%s", i, diff)
				}
				if i == steps {
					if text := said(resp); !strings.Contains(text, "noted 9") {
						t.Errorf("the answer is %q", text)
					}
					break
				}
				output := map[string]any{"type": "function_call_output", "call_id": callOf(t, resp).CallID, "output": fmt.Sprintf("noted %d %s", i, strings.Repeat("x", 20_000))}
				happened := append(items(t, resp.Output), output)
				want = append(want, history(t, happened)...)
				input = append(input, happened...)
				if way == "previous_response_id" {
					input, previous = []any{output}, resp.ID
				}
			}
		})
	}
}

func callOf(t *testing.T, r *responses.Response) *responses.FunctionCall {
	t.Helper()
	i := slices.IndexFunc(r.Output, func(it responses.Item) bool { return it.Type() == responses.TypeFunctionCall })
	if i < 0 {
		t.Fatalf("no call in %+v", r.Output)
	}
	return r.Output[i].(*responses.FunctionCall)
}

// items returns output as a client sends it back.
func items(t *testing.T, output []responses.Item) []any {
	t.Helper()
	data, err := json.Marshal(output)
	if err != nil {
		t.Fatal(err)
	}
	var list []any
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// history returns items without what Codex adds to them: ids where there were none,
// and members that are null. A status says nothing of the past that the model reads.
func history(t *testing.T, list any) []any {
	t.Helper()
	var out []any
	for _, it := range list.([]any) {
		clean := map[string]any{}
		for name, v := range it.(map[string]any) {
			typ, _ := it.(map[string]any)["type"].(string)
			added := name == "id" && (typ == responses.TypeMessage || typ == responses.TypeFunctionCallOutput)
			if v == nil || added || name == "status" {
				continue
			}
			clean[name] = v
		}
		out = append(out, clean)
	}
	return out
}

// TestCodexUpstreamFailures: what the provider says of a failure arrives as far as
// Codex passes it on, with our statuses (R8, R15).
func TestCodexUpstreamFailures(t *testing.T) {
	t.Parallel()
	g := startCodexGateway(t, "")
	for prompt, want := range map[string]struct {
		status int
		code   responses.Code
	}{
		"[[status 400]]":                      {400, responses.CodeInvalidRequest},
		"[[status 401]]":                      {502, responses.CodeUpstream},
		"[[status 403]]":                      {502, responses.CodeUpstream},
		"[[status 404]]":                      {404, responses.CodeModelNotFound},
		"[[status 413]]":                      {413, responses.CodeTooLarge},
		"[[status 429]]":                      {429, responses.CodeRateLimit},
		"[[status 500]]":                      {502, responses.CodeUpstream},
		"[[status 503]]":                      {503, responses.CodeOverloaded},
		"[[status 504]]":                      {504, responses.CodeTimeout},
		"hello [[error]]":                     {502, responses.CodeUpstream},
		"[[error context_length_exceeded]] x": {400, responses.CodeContextLength},
		"[[error insufficient_quota]] x":      {429, responses.CodeQuota},
		"hello [[cut]]":                       {502, responses.CodeUpstream},
		"please refuse":                       {502, responses.CodeUpstream},
	} {
		resp, err := g.post(t.Context(), fmt.Sprintf(`{"model":"gpt-5.5","input":%q}`, prompt))
		if err != nil {
			t.Fatal(err)
		}
		var body struct {
			Error responses.ErrorBody `json:"error"`
		}
		if err := json.UnmarshalRead(resp.Body, &body); err != nil {
			t.Errorf("%s: %v", prompt, err)
		}
		resp.Body.Close()
		if resp.StatusCode != want.status || body.Error.Code != want.code || body.Error.Message == "" || strings.Contains(body.Error.Message, "127.0.0.1") {
			t.Errorf("%s: %d %+v, want %d %s", prompt, resp.StatusCode, body.Error, want.status, want.code)
		}
	}
	resp, err := g.ask(t.Context(), `{"model":"gpt-5.5","input":"count to 50 [[limit 5]]"}`)
	if err != nil || resp.Status != responses.StatusIncomplete || resp.IncompleteDetails.Reason != responses.ReasonMaxOutputTokens || said(resp) != "1 2 3 4 5" {
		t.Errorf("an answer that was cut short is %+v (%v)", resp, err)
	}
	for param, body := range map[string]string{
		"temperature": `"temperature":0.5`, "tool_choice": `"tools":[{"type":"function","name":"f"}],"tool_choice":"required"`, "tools[0]": `"tools":[{"type":"code_interpreter","container":{"type":"auto"}}]`,
	} {
		_, err := g.ask(t.Context(), `{"model":"gpt-5.5","input":"x",`+body+`}`)
		if err == nil || !strings.Contains(err.Error(), `"param":"`+param+`"`) || !strings.Contains(err.Error(), "status 400") {
			t.Errorf("%s: %v, want it refused by name (R51)", param, err)
		}
	}
}

// TestCodexUpstreamDegraded: what is lost where the operator accepts losses is
// named beside the answer (R31).
func TestCodexUpstreamDegraded(t *testing.T) {
	t.Parallel()
	g := startCodexGateway(t, "degrade: true")
	resp, err := g.post(t.Context(), `{"model":"gpt-5.5","input":"hello","temperature":0.5,"max_output_tokens":99}`)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	degraded := strings.Join(resp.Header.Values("Antiphon-Degraded"), ", ")
	if resp.StatusCode != http.StatusOK || !strings.Contains(degraded, "temperature") || !strings.Contains(degraded, "max_output_tokens") {
		t.Errorf("%d with Antiphon-Degraded: %s", resp.StatusCode, degraded)
	}
	for _, call := range g.arrived(t) {
		if _, ok := call["temperature"]; ok {
			t.Error("the provider was told a temperature after all")
		}
	}
}

// TestCodexUpstreamGatewayTools: tools that the gateway runs work over Codex, round
// after round in one response (R43, R44).
func TestCodexUpstreamGatewayTools(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	weather := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		fmt.Fprintf(w, "sunny in %s", r.URL.Query().Get("q"))
	}))
	defer weather.Close()
	g := startCodexGateway(t, "", fmt.Sprintf(
		"tools: { http: [{ name: get_weather, url: %q, parameters: { type: object, properties: { city: { type: string } }, required: [city] }, approval: never }] }", weather.URL+"/?q={city}"))
	resp, err := g.ask(t.Context(), `{"model":"gpt-5.5","input":"Look. [[reason]] [[call get_weather Rome]] [[call get_weather Oslo]]","tools":[{"type":"function","name":"get_weather"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, it := range resp.Output {
		kinds = append(kinds, it.Type())
	}
	want := []string{responses.TypeReasoning, responses.TypeMCPCall, responses.TypeMCPCall, responses.TypeMessage}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("the items (-want +got):\n%s", diff)
	}
	if asked.Load() != 2 || !strings.Contains(said(resp), "sunny in Oslo") {
		t.Errorf("the tool was asked %d times; the answer is %q", asked.Load(), said(resp))
	}
	if n := len(g.arrived(t)); n != 3 {
		t.Errorf("%d calls arrived at the provider, want one for each of 3 rounds", n)
	}
}
