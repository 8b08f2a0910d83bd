package standard_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/standard"
)

// TestCodexThatCannotStart: a program that is not there, or does not run, is
// reported at start, and its requests are refused with a way out.
func TestCodexThatCannotStart(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "codex")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"/does/not/exist", broken} {
		c, err := config.Parse(fmt.Appendf(nil, `upstreams: { codex: { protocol: codex, command: [%q, app-server, -c, "secret"] } }`, program), nil)
		if err != nil {
			t.Fatal(err)
		}
		var report *standard.Report
		g, err := standard.New(t.Context(), c, &standard.Options{
			Logger: slog.New(slog.DiscardHandler), Report: func(r *standard.Report) { report = r },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = g.Close() })
		u := report.Upstreams[0]
		if u.Err == nil || u.URL != program+" app-server" || u.Protocol != config.ProtocolCodex {
			t.Errorf("the report is %+v", u)
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/responses", strings.NewReader(`{"model":"gpt-5.5","input":"hi"}`))
		g.Handler().ServeHTTP(w, r)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "exist") {
			t.Errorf("%s: %d %v %s", program, w.Code, w.Header(), w.Body)
		}
	}
}
