package codex

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/upstreamtest"
)

// realCodex returns the path of the real program, which the conformance tests have
// installed (R63).
func realCodex(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob("../../conformance/codex/node_modules/@openai/codex-*/vendor/*/bin/codex")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		const how = "the Codex CLI is not installed; run npm ci in conformance/codex"
		if os.Getenv("CI") == "true" {
			t.Fatal(how)
		}
		t.Skip(how)
	}
	binary, err := filepath.Abs(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// TestConformance: the driver over the real app-server passes the suite of drivers,
// with the suite's upstream for the provider behind it.
func TestConformance(t *testing.T) {
	t.Parallel()
	binary := realCodex(t)
	const begin = `data: {"type":"response.created","response":{"id":"resp_1","status":"in_progress"}}

data: {"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","status":"in_progress","content":[]}}

data: {"type":"response.content_part.added","item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}

`
	delta := func(text string) string {
		return fmt.Sprintf("data: {\"type\":\"response.output_text.delta\",\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":%q}\n\n", text)
	}
	const bubble = "a process does not run in a bubble of time"
	upstreamtest.Run(t, upstreamtest.Harness{
		New: func(e upstream.Endpoint) upstream.Driver { return overProvider(binary, e) },
		Stream: begin + delta("Hel") + delta("lo") +
			`data: {"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Hello","annotations":[]}]}}

data: {"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2}}}

data: [DONE]

`,
		Text: "Hello",
		Endless: func(n int) string {
			if n == 0 {
				return begin
			}
			return delta(fmt.Sprint(n, " "))
		},
		Lacks: map[string]string{
			"silence before the first event": bubble, "silence between events": bubble, "nothing left behind": bubble,
			"answer/request id":                          "Codex does not tell the provider's request id",
			"unreachable":                                "Codex does not tell whether anything was sent",
			"status/rate limit":                          "Codex tells neither Retry-After nor the provider's words; the code is in TestCodexUpstreamFailures",
			"status/overloaded":                          "Codex tells neither Retry-After nor the provider's words; the code is in TestCodexUpstreamFailures",
			"status/server error":                        "Codex has words of its own for it, which do not say that the turn was not run",
			"status/redirect":                            "Codex follows redirects of its provider",
			"content type/frame that is not JSON":        "Codex passes over frames that it cannot read",
			"content type/a stream that says it is text": "Codex does not look at the content type",
			"line too long":                              "Codex collects a line of its provider however long it is; the process is ended by its memory",
		},
	})
}

// overProvider returns a driver of the real app-server whose provider is at the
// endpoint.
func overProvider(binary string, e upstream.Endpoint) upstream.Driver {
	const variable = "SUITE_KEY"
	key := http.Header{}
	if e.Auth != nil {
		e.Auth(key, nil)
	}
	provider := fmt.Sprintf(`model_providers.suite={name="suite",base_url=%q,wire_api="responses",env_key=%q,request_max_retries=0,stream_max_retries=0}`, e.Base, variable)
	d, err := New([]string{binary, "app-server", "-c", `model_provider="suite"`, "-c", provider}, &Options{Env: map[string]string{
		variable: cmp.Or(strings.TrimPrefix(key.Get("Authorization"), "Bearer "), "none"), "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1",
	}})
	if err != nil {
		panic(err) // the command is good
	}
	return d
}
