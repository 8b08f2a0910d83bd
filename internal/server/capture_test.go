package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/internal/server"
	"github.com/antiphon-dev/antiphon/store/memstore"
)

// TestCapture: bodies are in the log only of a key that says so, only at debug
// level, bounded, and without credentials (R35).
func TestCapture(t *testing.T) {
	t.Parallel()
	const watched, other = "watched-key-0123456789", "other-key-0123456789"
	keys := keyring(t, server.Key{Name: "watched", Secret: watched, Capture: true}, server.Key{Name: "other", Secret: other})
	e := engine.New(memstore.NewWindow(nil), nil)
	t.Cleanup(func() { _ = e.Stop(context.Background()) })
	ask := func(level slog.Level, key, body string) string {
		var log bytes.Buffer
		h := server.New(e, &server.Generation{Router: says("the answer"), Keys: keys}, &server.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))})
		r := httptest.NewRequest(http.MethodPost, "/v1/responses", strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+key)
		r.Header.Set("Content-Type", "application/json")
		h.ServeHTTP(httptest.NewRecorder(), r)
		return log.String()
	}
	const secrets = `{"model":"m","input":"the canary and ` + watched + ` and Bearer abcdef.123","tools":[{"type":"mcp","server_label":"x",` +
		`"server_url":"https://x.example","authorization":"tool-secret-1","headers":{"X-Api-Key":"tool-secret-2"}}],"metadata":{"api_key":"tool-secret-3 \" more"}}`
	if got := ask(slog.LevelDebug, other, secrets); strings.Contains(got, "canary") {
		t.Errorf("a key that does not say so is captured: %s", got)
	}
	if got := ask(slog.LevelInfo, watched, secrets); strings.Contains(got, "canary") {
		t.Errorf("it is captured without debug level: %s", got)
	}
	got := ask(slog.LevelDebug, watched, secrets)
	if !strings.Contains(got, "msg=captured") || !strings.Contains(got, "canary") || !strings.Contains(got, "key=watched") || !strings.Contains(got, "the answer") {
		t.Errorf("the request, or its answer, is not captured: %s", got)
	}
	for _, secret := range []string{watched, "abcdef.123", "tool-secret-1", "tool-secret-2", "tool-secret-3", "more"} {
		if strings.Contains(got, secret) {
			t.Errorf("%s is in the log: %s", secret, got)
		}
	}
	// What is cut may cut a secret's end off, and nothing of it is left.
	cut := `{"model":"m","input":"` + strings.Repeat("x", 64<<10-70) + `","authorization":"tool-secret-4` + strings.Repeat("y", 1<<20) + `"}`
	got = ask(slog.LevelDebug, watched, cut)
	if len(got) > 150<<10 || !strings.Contains(got, "cut=true") || strings.Contains(got, "secret-4") || strings.Contains(got, "yyy") {
		t.Errorf("%d bytes of log: …%s", len(got), got[max(0, len(got)-400):])
	}
}
