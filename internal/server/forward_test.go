package server_test

import (
	"context"
	"encoding/json/v2"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/upstream"
)

// seen posts a request with the header and returns what the driver sees of it,
// and how many values the access log says were dropped.
func seen(t *testing.T, header http.Header) (http.Header, int) {
	t.Helper()
	var got http.Header
	g := newGateway(t, func(ctx context.Context, turn *upstream.Turn) (*upstream.Stream, error) {
		got = turn.Header
		return says("x")(ctx, turn)
	}, nil)
	if resp, body := g.send(t, `{"model":"m","input":"hi"}`, header); resp.StatusCode != http.StatusOK {
		t.Fatalf("%d: %s", resp.StatusCode, body)
	}
	g.Close()
	var line struct {
		Dropped int `json:"headers_dropped"`
	}
	if err := json.Unmarshal([]byte(g.logs.String()), &line); err != nil {
		t.Fatalf("%v: %s", err, g.logs)
	}
	for name, values := range header {
		for _, v := range values {
			if len(v) > 3 && strings.Contains(g.logs.String(), v) {
				t.Errorf("the log has the value of %s: %s", name, g.logs)
			}
		}
	}
	return got, line.Dropped
}

// TestForwardedHeaders: a driver sees what Codex and the SDKs say to an upstream,
// and nothing of what belongs to the connection or to nobody.
func TestForwardedHeaders(t *testing.T) {
	t.Parallel()
	want := http.Header{}
	for _, name := range []string{
		"Authorization", "ChatGPT-Account-ID", "OpenAI-Organization", "OpenAI-Project", "x-oai-attestation",
		"session-id", "thread-id", "session_id", "conversation_id", "originator", "user-agent", "version", "x-client-request-id", "openai-beta",
		"x-codex-window-id", "x-codex-turn-metadata", "x-codex-beta-features", "x-codex-routing-hint",
		"x-openai-internal-codex-responses-lite", "x-openai-subagent", "x-openai-something-new",
	} {
		want.Set(name, "value of "+name)
	}
	want.Add("x-codex-beta-features", "a second value")
	sent := want.Clone()
	for _, name := range []string{
		"Cookie", "Accept", "Accept-Language", "Content-Language", "Range", "If-None-Match", "Referer",
		"Proxy-Authorization", "Proxy-Connection", "Keep-Alive", "Te", "X-Forwarded-For", "X-Real-Ip", "Forwarded", "Via",
		"X-Request-Id", "X-Stainless-Os", "X-Api-Key", "Api-Key", "X-Openai", "Xx-Codex-Window-Id",
	} {
		sent.Set(name, "not for "+name)
	}
	sent.Set("X-Proxy-Output-Mode", "openai-json")
	sent.Set("Origin", "http://localhost:3000")
	sent.Set("Accept-Encoding", "identity")
	sent.Set("Content-Encoding", "identity")
	sent.Set("Content-Type", "application/json")
	// RFC 9110, 7.6.1: what Connection names belongs to the connection.
	sent.Set("Connection", "close, x-codex-hop")
	sent.Set("X-Codex-Hop", "for the next hop")

	got, dropped := seen(t, sent)
	if diff := cmp.Diff(want, got); diff != "" || dropped != 0 {
		t.Errorf("%d dropped, headers (-want +got):\n%s", dropped, diff)
	}
}

// TestForwardedHeadersAreBounded: values that are too long or too many are left
// out, the others are kept whole, and the log says how many were lost.
func TestForwardedHeadersAreBounded(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("x", 8<<10)
	got, dropped := seen(t, http.Header{
		"Authorization":         {"Bearer key"},
		"User-Agent":            {"agent"},
		"X-Codex-Turn-Metadata": {longest},
		"X-Codex-Window-Id":     {longest + "x", "short"},
	})
	want := http.Header{
		"Authorization":         {"Bearer key"},
		"User-Agent":            {"agent"},
		"X-Codex-Turn-Metadata": {longest},
		"X-Codex-Window-Id":     {"short"},
	}
	if diff := cmp.Diff(want, got); diff != "" || dropped != 1 {
		t.Errorf("%d dropped, headers (-want +got):\n%s", dropped, diff)
	}

	many := http.Header{"Authorization": {"Bearer key"}, "User-Agent": {"agent"}}
	for i := range 100 {
		many.Set(fmt.Sprintf("X-Codex-%03d", i), "v")
	}
	got, dropped = seen(t, many)
	if got.Get("Authorization") == "" || got.Get("X-Codex-061") == "" || got.Get("X-Codex-062") != "" || len(got) != 64 || dropped != 38 {
		t.Errorf("%d kept, %d dropped: %v", len(got), dropped, got)
	}
}
