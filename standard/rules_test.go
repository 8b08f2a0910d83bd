package standard_test

import (
	"encoding/json/v2"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/standard"
)

// obsidianFile is what somebody with a vault and two models writes.
const obsidianFile = `
upstreams: { local: { protocol: %s, url: %q } }
models:
  big: local
  cheap: { upstream: local, model: tiny, defaults: { temperature: 0.5 } }
rules:
  - { match: { last_user: "(?i)^generate a title", max_chars: 60 }, model: cheap }
output_mode: obsidian-xml
`

// TestRulesAndOutputMode: both options from a file to the wire, in each protocol
// (R19, R20). A model gets neither the rule's wish nor the rendered calls to see.
func TestRulesAndOutputMode(t *testing.T) {
	t.Parallel()
	for protocol, speaks := range map[string]fakeupstream.Protocol{"chat": fakeupstream.Chat, "responses": fakeupstream.Responses} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			local, fake := playModel(t, speaks)
			c, err := config.Parse(fmt.Appendf(nil, obsidianFile, protocol, local), nil)
			if err != nil {
				t.Fatal(err)
			}
			var logs strings.Builder
			g, err := standard.New(t.Context(), c, &standard.Options{Logger: slog.New(slog.NewTextHandler(&logs, nil))})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = g.Close() })
			post := func(body string, header ...string) *responses.Response {
				t.Helper()
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/responses", strings.NewReader(body))
				if len(header) > 0 {
					r.Header.Set("X-Proxy-Output-Mode", header[0])
				}
				w := httptest.NewRecorder()
				g.Handler().ServeHTTP(w, r)
				resp, err := responses.DecodeResponse(w.Body.Bytes())
				if err != nil || w.Code != http.StatusOK || resp.Model != "big" {
					t.Fatalf("%d, %v: %s", w.Code, err, w.Body)
				}
				return resp
			}
			sent := func() string { // the last request to the upstream
				all := fake.Requests()
				return string(all[len(all)-1].Body)
			}

			post(`{"model":"big","input":"Generate a title for this chat"}`)
			if body := sent(); !strings.Contains(body, `"tiny"`) || !strings.Contains(body, `"temperature":0.5`) || strings.Contains(body, `"big"`) {
				t.Errorf("the rule's model was not asked: %s", body)
			}
			if !strings.Contains(logs.String(), "rule=rules[0]") {
				t.Errorf("the log does not name the rule: %s", &logs)
			}
			post(`{"model":"big","input":"Generate a title for this chat, which is too long for the rule"}`)
			if body := sent(); !strings.Contains(body, `"big"`) {
				t.Errorf("the client's model was not asked: %s", body)
			}

			const tools = `"tools":[{"type":"function","name":"find","parameters":{"type":"object","properties":{"q":{"type":"string"}},"required":["q"]}}]`
			const question = `{"role":"user","content":"look it up"}`
			resp := post(`{"model":"big","input":[` + question + `],` + tools + `}`)
			call, isCall := resp.Output[len(resp.Output)-2].(*responses.FunctionCall)
			message, isMessage := resp.Output[len(resp.Output)-1].(*responses.Message)
			if !isCall || !isMessage || !strings.HasPrefix(message.Content.Text(), "<use_tool>\n<name>find</name>\n<q>") {
				t.Fatalf("the call was not rendered: %+v", resp.Output)
			}
			plain := post(`{"model":"big","input":[`+question+`],`+tools+`}`, "openai-json")
			if len(plain.Output) != len(resp.Output)-1 {
				t.Errorf("the header did not win: %+v", plain.Output)
			}

			again, err := json.Marshal(resp.Output)
			if err != nil {
				t.Fatal(err)
			}
			post(`{"model":"big","input":[` + question + `,` + string(again[1:len(again)-1]) +
				`,{"type":"function_call_output","call_id":"` + call.CallID + `","output":"found"}],` + tools + `}`)
			if body := sent(); strings.Contains(body, "use_tool") || !strings.Contains(body, "found") || !strings.Contains(body, call.CallID) {
				t.Errorf("the model was shown the rendered calls: %s", body)
			}
		})
	}
}
