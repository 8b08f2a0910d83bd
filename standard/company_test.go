package standard_test

import (
	"fmt"
	"io"
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

// companyFile is a configuration with everything that a company needs of it.
const companyFile = `
listen: 0.0.0.0:4100
auth:
  keys:
    - { name: ci, key: "ci-key-0123456789abcdef", tenant: team-a, models: ["fast", "open/*"] }
    - { name: boss, key: "boss-key-0123456789abcdef" }
    - { name: slow, key: "slow-key-0123456789abcdef", limits: { requests_per_minute: 60 } }
upstreams:
  down:  { protocol: chat, url: %q }
  local: { protocol: chat, url: %q, api_keys: [ key-one, key-two ], auth: header x-lab-key }
models:
  fast:
    targets:
      - { upstream: down, model: gone }
      - { upstream: local, model: tiny, priority: 2 }
    defaults: { temperature: 0.2 }
    override: { top_p: 0.5 }
    drop: [ user ]
    info: { context_window: 1234 }
  "open/*": { upstream: local, model: "*" }
  big: local
`

// TestCompany: keys, pools with failover, patterns, settings and several
// credentials, from a file to the wire (R32, R34, R35).
func TestCompany(t *testing.T) {
	t.Parallel()
	local, fake := playModel(t, fakeupstream.Chat)
	c, err := config.Parse(fmt.Appendf(nil, companyFile, closedAddress(t), local), nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := standard.New(t.Context(), c, &standard.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	post := func(key, model string) (int, string) {
		body := fmt.Sprintf(`{"model":%q,"input":"hello","user":"u","top_p":0.9}`, model)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/responses", strings.NewReader(body))
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for name, test := range map[string]struct {
		key, model string
		status     int
	}{
		"no key":                {"", "fast", 401},
		"a wrong key":           {"ci-key-0123456789abcdeX", "fast", 401},
		"an allowed model":      {"ci-key-0123456789abcdef", "fast", 200},
		"an allowed pattern":    {"ci-key-0123456789abcdef", "open/tiny-2", 200},
		"a model of others":     {"ci-key-0123456789abcdef", "big", 404},
		"no model of that name": {"ci-key-0123456789abcdef", "nothing", 404},
		"every model":           {"boss-key-0123456789abcdef", "big", 200},
	} {
		if status, body := post(test.key, test.model); status != test.status {
			t.Errorf("%s: %d, want %d: %s", name, status, test.status, body)
		}
	}
	keys := map[string]bool{}
	for _, x := range fake.Requests() {
		keys[x.Header.Get("X-Lab-Key")] = true
		if x.Header.Get("Authorization") != "" {
			t.Error("the client's key reached an upstream")
		}
		if body := string(x.Body); strings.Contains(body, `"tiny"`) &&
			(!strings.Contains(body, `"temperature":0.2`) || !strings.Contains(body, `"top_p":0.5`) || strings.Contains(body, `"user":"u"`)) {
			t.Errorf("the model's settings are not in %s", body)
		}
	}
	if !keys["key-one"] || !keys["key-two"] {
		t.Errorf("the upstream got the keys %v, want both", keys)
	}
	limited := 0
	for range 5 {
		if status, _ := post("slow-key-0123456789abcdef", "big"); status == http.StatusTooManyRequests {
			limited++
		}
	}
	if limited != 4 {
		t.Errorf("%d of 5 requests at once were over the limit of one a second, want 4", limited)
	}
}

// TestReloadRevokesAKey: a key that is gone from the file is refused at once, and
// a file that is broken changes nothing (R36).
func TestReloadRevokesAKey(t *testing.T) {
	t.Parallel()
	local, _ := playModel(t, fakeupstream.Chat)
	parse := func(key string) *config.Config {
		c, err := config.Parse(fmt.Appendf(nil, `{"auth":{"keys":[{"name":"k","key":%q}]},"upstreams":{"local":{"protocol":"chat","url":%q}}}`, key, local), nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	opts := &standard.Options{Logger: slog.New(slog.DiscardHandler)}
	g, err := standard.New(t.Context(), parse("first-key-0123456789"), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	srv := httptest.NewServer(g.Handler())
	t.Cleanup(srv.Close)
	status := func(key string) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/v1/responses", strings.NewReader(`{"model":"tiny","input":"hi"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
	if got := status("first-key-0123456789"); got != 200 {
		t.Fatalf("the first key: %d", got)
	}
	broken := parse("second-key-0123456789")
	broken.Auth.Keys[0].Name = ""
	if err := standard.Reload(t.Context(), g, broken, opts); err == nil {
		t.Error("a broken configuration was taken")
	}
	if got := status("first-key-0123456789"); got != 200 {
		t.Errorf("the first key after a broken reload: %d", got)
	}
	if err := standard.Reload(t.Context(), g, parse("second-key-0123456789"), opts); err != nil {
		t.Fatal(err)
	}
	if first, second := status("first-key-0123456789"), status("second-key-0123456789"); first != 401 || second != 200 {
		t.Errorf("after the reload the keys get %d and %d, want 401 and 200", first, second)
	}
}

// TestSealsSurviveAReload: without seal_keys there is one key for the process, not
// one for each configuration.
func TestSealsSurviveAReload(t *testing.T) {
	t.Parallel()
	local, fake := playModel(t, fakeupstream.Chat)
	c := upstreams(map[string]config.Upstream{"local": {Protocol: config.ProtocolChat, URL: local}})
	opts := &standard.Options{Logger: slog.New(slog.DiscardHandler)}
	g, err := standard.New(t.Context(), c, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	post := func(body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/responses", strings.NewReader(body)))
		return w
	}
	first, err := responses.DecodeResponse(post(`{"model":"tiny","input":"think","include":["reasoning.encrypted_content"]}`).Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	sealed := first.Output[0].(*responses.Reasoning).EncryptedContent
	if err := standard.Reload(t.Context(), g, c, opts); err != nil {
		t.Fatal(err)
	}
	w := post(fmt.Sprintf(`{"model":"tiny","input":[{"role":"user","content":"think"},{"type":"reasoning","summary":[],"encrypted_content":%q},
		{"role":"assistant","content":"So."},{"role":"user","content":"And?"}]}`, sealed))
	last := fake.Requests()[len(fake.Requests())-1]
	if lost := w.Header().Get("Antiphon-Degraded"); w.Code != 200 || lost != "" || !strings.Contains(string(last.Body), "Let me think about it.") {
		t.Errorf("%d, lost %q; the upstream got %s", w.Code, lost, last.Body)
	}
}
