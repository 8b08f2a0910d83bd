package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/server"
)

func origins(t *testing.T, others ...string) *server.Origins {
	t.Helper()
	o, err := server.NewOrigins(others)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestPagesByOrigin: pages of this machine and named ones may use the API and read
// its answers; others get nothing from a browser, and without keys may not even
// send what costs something (R35).
func TestPagesByOrigin(t *testing.T) {
	t.Parallel()
	open, closed := newGateway(t, says("x"), nil), newGateway(t, says("x"), nil)
	named := origins(t, "https://chat.example:8443", "capacitor://localhost")
	open.api.Use(&server.Generation{Router: says("x"), Origins: named})
	closed.api.Use(&server.Generation{Router: says("x"), Origins: named, Keys: keyring(t, server.Key{Name: "a", Secret: "secret"})})
	for origin, allowed := range map[string]bool{
		"http://localhost":                true,
		"http://localhost:3000":           true,
		"http://127.0.0.1:65535":          true,
		"http://[::1]:80":                 true,
		"app://obsidian.md":               true,
		"https://chat.example:8443":       true,
		"capacitor://localhost":           true,
		"":                                false,
		"null":                            false,
		"*":                               false,
		"https://evil.example":            false,
		"https://chat.example":            false,
		"http://chat.example:8443":        false,
		"https://chat.example:8443.evil":  false,
		"http://localhost.evil.example":   false,
		"http://localhost:3000.evil":      false,
		"http://localhost:":               false,
		"http://localhost:123456":         false,
		"http://localhost:80@evil":        false,
		"http://localhost@evil":           false,
		"http://127.0.0.1.evil.example":   false,
		"http://127.0.0.10":               false,
		"http://[::1].evil":               false,
		"http://evil/http://localhost":    false,
		"http://localhost/":               false,
		"http://localhost, http://evil":   false,
		"HTTP://LOCALHOST":                false, // no browser writes it so
		"app://obsidian.md.evil":          false,
		"file://":                         false,
		"chrome-extension://abcdefghijkl": false,
	} {
		t.Run(origin, func(t *testing.T) {
			t.Parallel()
			header := http.Header{"Origin": {origin}, "Authorization": {"Bearer secret"}}
			for g, status := range map[*gateway]int{open: http.StatusForbidden, closed: http.StatusOK} {
				if allowed {
					status = http.StatusOK
				}
				resp, body := g.send(t, hello, header.Clone())
				if resp.StatusCode != status {
					t.Errorf("%d, want %d: %s", resp.StatusCode, status, body)
				}
				checkCORS(t, resp.Header, origin, allowed)
				resp, _ = g.do(t, "GET", "/v1/models", "", "Origin", origin, "Authorization", "Bearer secret")
				if resp.StatusCode != http.StatusOK {
					t.Errorf("a list is %d", resp.StatusCode)
				}
				checkCORS(t, resp.Header, origin, allowed)
			}
		})
	}
}

func checkCORS(t *testing.T, h http.Header, origin string, allowed bool) {
	t.Helper()
	want, exposed := "", false
	if allowed {
		want, exposed = origin, true
	}
	if got := h.Get("Access-Control-Allow-Origin"); got != want || h.Get("Vary") != "Origin" {
		t.Errorf("%v allows %q, want %q", h, got, want)
	}
	for _, name := range []string{"X-Request-Id", "Antiphon-Upstream", "Antiphon-Degraded", "Retry-After"} {
		if strings.Contains(h.Get("Access-Control-Expose-Headers"), name) != exposed {
			t.Errorf("%s: %v", name, h)
		}
	}
	if h.Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("cookies are asked for: %v", h)
	}
}

// TestForeignPages: what counts as doing something, and which requests are a
// page's.
func TestForeignPages(t *testing.T) {
	t.Parallel()
	const evil = "https://evil.example"
	for name, test := range map[string]struct {
		method, path string
		header       http.Header
		keys         bool
		status       int
	}{
		"not a page":              {"POST", "/v1/responses", nil, false, 200},
		"two origins":             {"POST", "/v1/responses", http.Header{"Origin": {"http://localhost", evil}}, false, 403},
		"form":                    {"POST", "/v1/responses", http.Header{"Origin": {evil}, "Content-Type": {"text/plain"}}, false, 403},
		"without /v1":             {"POST", "/responses", http.Header{"Origin": {evil}}, false, 403},
		"path that is not there":  {"DELETE", "/v1/nothing", http.Header{"Origin": {evil}}, false, 403},
		"WebSocket":               {"GET", "/v1/responses", http.Header{"Origin": {evil}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"}}, false, 403},
		"WebSocket of a good one": {"GET", "/v1/responses", http.Header{"Origin": {"http://localhost"}, "Connection": {"Upgrade"}, "Upgrade": {"websocket"}}, false, 426},
		"health":                  {"GET", "/healthz", http.Header{"Origin": {evil}}, false, 200},
		"keys, none shown":        {"POST", "/v1/responses", http.Header{"Origin": {evil}}, true, 401},
		"keys, one shown":         {"POST", "/v1/responses", http.Header{"Origin": {evil}, "Api-Key": {"secret"}}, true, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gen := &server.Generation{Router: says("x")}
			if test.keys {
				gen.Keys = keyring(t, server.Key{Name: "a", Secret: "secret"})
			}
			g := newGateway(t, says("x"), nil)
			g.api.Use(gen)
			req, err := http.NewRequestWithContext(t.Context(), test.method, g.URL+test.path, strings.NewReader(hello))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = test.header
			req.Host = "evil.example" // a name that its owner made point here
			resp, err := g.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != test.status {
				t.Errorf("%d, want %d", resp.StatusCode, test.status)
			}
		})
	}
}

// TestPreflight: a browser learns without a key what an allowed page may send.
func TestPreflight(t *testing.T) {
	t.Parallel()
	g := newGateway(t, says("x"), nil)
	g.api.Use(&server.Generation{Router: says("x"), Keys: keyring(t, server.Key{Name: "a", Secret: "secret"})})
	many := strings.TrimSuffix(strings.Repeat("x-stainless-os,", 200), ",")
	for name, test := range map[string]struct {
		origin, asked string
		status        int
		allowed       string
	}{
		"SDK": {
			"http://localhost:5173", "authorization,content-type,openai-organization,x-stainless-os,x-stainless-retry-count", 204,
			"Authorization, Content-Type, Openai-Organization, X-Stainless-Os, X-Stainless-Retry-Count",
		},
		"Obsidian":     {"app://obsidian.md", "x-proxy-output-mode, x-api-key, api-key", 204, "X-Proxy-Output-Mode, X-Api-Key, Api-Key"},
		"Codex":        {"http://localhost", "session-id,x-codex-window-id,x-openai-subagent", 204, "Session-Id, X-Codex-Window-Id, X-Openai-Subagent"},
		"nothing":      {"http://localhost", "", 204, ""},
		"not for us":   {"http://localhost", "cookie,x-evil,*,X-Stainless-A b,X-Stainless-<b>,openai-\u00fc,,host", 204, ""},
		"a great many": {"http://localhost", many, 204, strings.TrimSuffix(strings.Repeat("X-Stainless-Os, ", 64), ", ")},
		"foreign page": {"https://evil.example", "content-type", 403, ""},
		"no page":      {"null", "content-type", 403, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, path := range []string{"/v1/responses", "/models", "/v1/not/yet"} {
				resp, body := g.do(t, "OPTIONS", path, "", "Origin", test.origin,
					"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", test.asked)
				if got := resp.Header.Get("Access-Control-Allow-Headers"); resp.StatusCode != test.status || got != test.allowed {
					t.Errorf("%s: %d, want %d; allowed is %q, want %q: %s", path, resp.StatusCode, test.status, got, test.allowed, body)
				}
				origin, methods := "", ""
				if test.status == http.StatusNoContent {
					origin, methods = test.origin, "GET, POST, DELETE"
				}
				if h := resp.Header; h.Get("Access-Control-Allow-Origin") != origin || h.Get("Access-Control-Allow-Methods") != methods || len(h.Values("Vary")) != 2 {
					t.Errorf("%s: %v", path, h)
				}
			}
		})
	}
	if resp, _ := g.do(t, "OPTIONS", "/v1/responses", "", "Origin", "http://localhost"); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("OPTIONS that is no preflight: %d", resp.StatusCode)
	}
}

// TestOriginsAreOrigins: what would never match, or match too much, is an error.
func TestOriginsAreOrigins(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "*", "null", "chat.example", "https://", "https://*", "https://*.example", "https://chat.example/", "https://chat.example/path",
		"https://chat.example?q", "https://chat.example#f", "https://user@chat.example", "https://Chat.example", "https://chat example", "file:///x",
	} {
		if o, err := server.NewOrigins([]string{"https://fine.example", s}); err == nil || o != nil || !strings.Contains(err.Error(), "is not an origin") || strings.Contains(err.Error(), "fine") {
			t.Errorf("%q: %v", s, err)
		}
	}
}
