package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/internal/server"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// calls answers every turn with a call.
func calls(context.Context, *upstream.Turn) (*upstream.Stream, error) {
	c := responses.NewComposer(0, time.Now)
	c.FunctionCall("call_1", "find").Arguments(`{"q":"x"}`)
	c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
	return streamOf(c.Take(), nil), nil
}

// TestOutputMode: the header wins over the configuration, the user agent says
// nothing, and a word that is no mode is refused by name (R19).
func TestOutputMode(t *testing.T) {
	t.Parallel()
	const refused = "refused"
	for name, tt := range map[string]struct {
		configured engine.OutputMode
		header     []string
		want       string // the mode that the answer is in
	}{
		"nothing said":            {"", nil, "openai-json"},
		"the configuration":       {engine.OutputObsidian, nil, "obsidian-xml"},
		"the header":              {"", []string{"obsidian-xml"}, "obsidian-xml"},
		"the header wins":         {engine.OutputObsidian, []string{"openai-json"}, "openai-json"},
		"an empty header":         {engine.OutputObsidian, []string{""}, "obsidian-xml"},
		"an unknown word":         {"", []string{"xml"}, refused},
		"another case":            {"", []string{"Obsidian-XML"}, refused},
		"two words":               {"", []string{"openai-json", "obsidian-xml"}, refused},
		"two words in one header": {"", []string{"openai-json, obsidian-xml"}, refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t, calls, nil)
			g.api.Use(&server.Generation{Router: upstreamFunc(calls), OutputMode: tt.configured})
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/responses", strings.NewReader(hello))
			r.Header.Set("User-Agent", "obsidian-copilot/3")
			r.Header["X-Proxy-Output-Mode"] = tt.header
			w := httptest.NewRecorder()
			g.api.ServeHTTP(w, r)
			got, body := "openai-json", w.Body.String()
			switch {
			case w.Code == http.StatusBadRequest && strings.Contains(body, `"param":"x-proxy-output-mode"`):
				got = refused
			case strings.Contains(body, "<use_tool>"):
				got = "obsidian-xml"
			}
			if got != tt.want || got != refused && w.Code != http.StatusOK {
				t.Errorf("got %s, want %s: %d %s", got, tt.want, w.Code, body)
			}
		})
	}
}
