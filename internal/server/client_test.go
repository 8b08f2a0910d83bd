package server_test

import (
	"encoding/json/v2"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/internal/server"
	"github.com/antiphon-dev/antiphon/store/memstore"
)

// TestClientAddress: the log names whom the last proxy that we trust got the
// request from; what a client writes into the header itself is not believed (R35).
func TestClientAddress(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for name, test := range map[string]struct {
		remote    string
		forwarded []string
		want      string
	}{
		"no proxy":               {"192.0.2.7:1234", nil, "192.0.2.7"},
		"not a trusted one":      {"192.0.2.7:1234", []string{"198.51.100.1"}, "192.0.2.7"},
		"one proxy":              {"10.0.0.1:1234", []string{"198.51.100.1"}, "198.51.100.1"},
		"IPv6":                   {"[fd00::1]:1234", []string{"2001:db8::7"}, "2001:db8::7"},
		"as IPv6":                {"[::ffff:10.0.0.1]:1234", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		"two proxies":            {"10.0.0.1:1234", []string{"198.51.100.1, 10.0.0.2"}, "198.51.100.1"},
		"two header lines":       {"10.0.0.1:1234", []string{"198.51.100.1", "10.0.0.2"}, "198.51.100.1"},
		"forged":                 {"10.0.0.1:1234", []string{"203.0.113.9, 198.51.100.1"}, "198.51.100.1"},
		"forged as a proxy":      {"10.0.0.1:1234", []string{"203.0.113.9, 10.9.9.9,198.51.100.1 "}, "198.51.100.1"},
		"with ports":             {"10.0.0.1:1234", []string{"198.51.100.1:99, [fd00::2]:80"}, "198.51.100.1"},
		"brackets":               {"10.0.0.1:1234", []string{"[2001:db8::7]"}, "2001:db8::7"},
		"with a zone":            {"[fe80::1%eth0]:1234", nil, "fe80::1"},
		"proxies only":           {"10.0.0.1:1234", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		"trusted without a word": {"10.0.0.1:1234", nil, "10.0.0.1"},
		"empty":                  {"10.0.0.1:1234", []string{""}, "10.0.0.1"},
		"not an address":         {"10.0.0.1:1234", []string{"198.51.100.1, unknown, 10.0.0.2"}, "10.0.0.2"},
		"a line in the log":      {"10.0.0.1:1234", []string{`x","status":"200`}, "10.0.0.1"},
		"very many":              {"10.0.0.1:1234", []string{"198.51.100.1" + strings.Repeat(",10.0.0.2", 5000)}, "10.0.0.2"},
		"Unix socket":            {"@", []string{"198.51.100.1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logs := new(syncBuffer)
			api := server.New(engine.New(memstore.NewWindow(nil), nil), &server.Generation{Router: says("x"), TrustedProxies: trusted},
				&server.Options{Logger: slog.New(slog.NewJSONHandler(logs, nil))})
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/models", nil)
			r.RemoteAddr = test.remote
			r.Header["X-Forwarded-For"] = test.forwarded
			api.ServeHTTP(httptest.NewRecorder(), r)
			var line struct {
				Client string `json:"client"`
			}
			if err := json.Unmarshal([]byte(logs.String()), &line); err != nil || line.Client != test.want {
				t.Errorf("%v, the client is %q, want %q", err, line.Client, test.want)
			}
		})
	}
}
