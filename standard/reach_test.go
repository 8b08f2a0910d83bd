package standard_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/standard"
)

// TestReach: which pages may call and which proxies are believed comes from the
// file, and changes with it (R35, R36).
func TestReach(t *testing.T) {
	t.Parallel()
	address, _ := playModel(t, fakeupstream.Chat)
	file := func(reach string) *config.Config {
		c, err := config.Parse(fmt.Appendf(nil, "%s\nupstreams: { a: { protocol: chat, url: %q } }", reach, address), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var logs strings.Builder
	opts := &standard.Options{Logger: slog.New(slog.NewTextHandler(&logs, nil))}
	g, err := standard.New(t.Context(), file(`
cors: { origins: ["https://chat.example"] }
trusted_proxies: [192.0.2.0/24]`), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	get := func(origin string) (allowed, client string) {
		logs.Reset()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/models", nil) // from 192.0.2.1
		r.Header.Set("Origin", origin)
		r.Header.Set("X-Forwarded-For", "198.51.100.7")
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, r)
		_, client, _ = strings.Cut(logs.String(), "client=")
		return w.Header().Get("Access-Control-Allow-Origin"), strings.Fields(client)[0]
	}
	check := func(when, origin, wantAllowed, wantClient string) {
		t.Helper()
		if allowed, client := get(origin); allowed != wantAllowed || client != wantClient {
			t.Errorf("%s: a page of %s is allowed %q, and the client is %s", when, origin, allowed, client)
		}
	}
	check("at first", "https://chat.example", "https://chat.example", "198.51.100.7")
	check("at first", "https://other.example", "", "198.51.100.7")
	if err := standard.Reload(t.Context(), g, file(`cors: { origins: ["https://other.example"] }`), opts); err != nil {
		t.Fatal(err)
	}
	check("after a reload", "https://chat.example", "", "192.0.2.1")
	check("after a reload", "https://other.example", "https://other.example", "192.0.2.1")
}
