package server_test

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/internal/route"
	"github.com/antiphon-dev/antiphon/internal/server"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
)

const (
	hello     = `{"model":"m","input":"hi"}`
	keySecret = "ak-0123456789abcdef0123456789abcdef"
)

func keyring(t *testing.T, keys ...server.Key) *server.Keyring {
	t.Helper()
	ring, err := server.NewKeyring(keys)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// guarded is a gateway that only the keys open.
func guarded(t *testing.T, up upstreamFunc, keys ...server.Key) *gateway {
	t.Helper()
	g := newGateway(t, up, nil)
	g.api.Use(&server.Generation{Router: up, Keys: keyring(t, keys...)})
	return g
}

// TestKeysAreAsked: who shows a key gets in, and everybody else gets one and the
// same answer on every path but those of health (R35).
func TestKeysAreAsked(t *testing.T) {
	t.Parallel()
	g := guarded(t, says("x"), server.Key{Name: "ci", Secret: keySecret}, server.Key{Name: "hashed", SHA256: sha256.Sum256([]byte("other"))})
	wrongTail := keySecret[:len(keySecret)-1] + "0"
	for name, test := range map[string]struct {
		header http.Header
		ok     bool
	}{
		"bearer":            {http.Header{"Authorization": {"Bearer " + keySecret}}, true},
		"scheme in lower":   {http.Header{"Authorization": {"bearer  " + keySecret}}, true},
		"api-key":           {http.Header{"Api-Key": {keySecret}}, true},
		"x-api-key":         {http.Header{"X-Api-Key": {keySecret}}, true},
		"by its hash":       {http.Header{"Authorization": {"Bearer other"}}, true},
		"none":              {nil, false},
		"unknown":           {http.Header{"Authorization": {"Bearer sk-unknown"}}, false},
		"wrong tail":        {http.Header{"Authorization": {"Bearer " + wrongTail}}, false},
		"longer":            {http.Header{"Authorization": {"Bearer " + keySecret + "0"}}, false},
		"empty":             {http.Header{"Authorization": {"Bearer "}}, false},
		"no scheme":         {http.Header{"Authorization": {keySecret}}, false},
		"other scheme":      {http.Header{"Authorization": {"Basic " + keySecret}}, false},
		"the hash itself":   {http.Header{"Api-Key": {"d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa"}}, false},
		"name of the key":   {http.Header{"Authorization": {"Bearer ci"}}, false},
		"two, one is right": {http.Header{"Authorization": {"Bearer " + keySecret, "Bearer sk-unknown"}}, false},
		"the first decides": {http.Header{"Authorization": {"Bearer sk-unknown"}, "Api-Key": {keySecret}}, false},
		"very long":         {http.Header{"Authorization": {"Bearer " + strings.Repeat("k", 50_000)}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, body := g.send(t, hello, test.header)
			if test.ok {
				if resp.StatusCode != http.StatusOK {
					t.Errorf("%d: %s", resp.StatusCode, body)
				}
				return
			}
			const want = `{"error":{"type":"authentication_error","code":"invalid_api_key","message":"Send a valid API key with the header Authorization: Bearer.","param":null}}`
			if resp.StatusCode != http.StatusUnauthorized || body != want || resp.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%d %v: %s", resp.StatusCode, resp.Header, body)
			}
		})
	}
	for path, want := range map[string]int{
		"/healthz": 200, "/readyz": 200, "/v1/models": 401, "/models": 401, "/v1/responses": 401, "/v1/nothing": 401, "/": 401,
	} {
		if resp, _ := g.do(t, "GET", path, ""); resp.StatusCode != want {
			t.Errorf("GET %s without a key is %d, want %d", path, resp.StatusCode, want)
		}
	}
}

// TestKeyDecidesTheOwner: a run belongs to the tenant of its key, the log knows
// the key by its name, and the key itself goes nowhere.
func TestKeyDecidesTheOwner(t *testing.T) {
	t.Parallel()
	var turn *upstream.Turn
	up := upstreamFunc(func(ctx context.Context, got *upstream.Turn) (*upstream.Stream, error) {
		turn = got
		return says("x")(ctx, got)
	})
	g := newGateway(t, up, nil)
	keys := keyring(t, server.Key{Name: "ci-2026", Tenant: "team-a", Secret: keySecret}, server.Key{Name: "alone", Secret: "secret-of-alone"})
	for _, test := range []struct {
		keys      *server.Keyring
		header    http.Header
		owner     string
		forwarded http.Header
	}{
		{nil, http.Header{"Authorization": {"Bearer theirs"}}, "default", http.Header{"Authorization": {"Bearer theirs"}}},
		{keys, http.Header{"Authorization": {"Bearer " + keySecret}}, "team-a", http.Header{}},
		{keys, http.Header{"Authorization": {"Bearer secret-of-alone"}, "Session-Id": {"s"}}, "alone", http.Header{"Session-Id": {"s"}}},
		{keys, http.Header{"Api-Key": {keySecret}}, "team-a", http.Header{}},
	} {
		g.api.Use(&server.Generation{Router: up, Keys: test.keys})
		test.header.Set("User-Agent", "")
		if resp, body := g.send(t, hello, test.header); resp.StatusCode != http.StatusOK {
			t.Fatalf("%d: %s", resp.StatusCode, body)
		}
		if diff := cmp.Diff(test.forwarded, turn.Header); diff != "" || turn.Owner != test.owner {
			t.Errorf("the owner is %s, want %s; headers (-want +got):\n%s", turn.Owner, test.owner, diff)
		}
	}
	g.Close()
	logs := g.logs.String()
	if strings.Count(logs, `"key":"ci-2026"`) != 2 || strings.Count(logs, `"key":"alone"`) != 1 || strings.Contains(logs, "secret-of") || strings.Contains(logs, keySecret) {
		t.Errorf("the log says %s", logs)
	}
}

// driver is an upstream with three models.
type driver struct{ upstreamFunc }

func (driver) Models(context.Context) ([]upstream.Model, error) {
	return []upstream.Model{{ID: "qwen3"}, {ID: "claude-haiku"}, {ID: "claude-opus"}}, nil
}
func (driver) Close() error { return nil }

// TestKeyReachesItsModelsOnly: a model that the key may not use is not listed, and
// asking for it is answered as if it did not exist, in every form.
func TestKeyReachesItsModelsOnly(t *testing.T) {
	t.Parallel()
	targets := map[string]route.Model{}
	for _, m := range []string{"qwen3", "claude-haiku", "claude-opus"} {
		targets[m] = route.To("up", m)
	}
	router, err := route.New(map[string]upstream.Driver{"up": driver{says("x")}}, targets, nil)
	if err != nil {
		t.Fatal(err)
	}
	api := server.New(engine.New(memstore.NewWindow(nil), nil), &server.Generation{Router: router, Keys: keyring(t,
		server.Key{Name: "all", Secret: "all"},
		server.Key{Name: "star", Secret: "star", Models: []string{"*"}},
		server.Key{Name: "family", Secret: "family", Models: []string{"claude-*"}},
		server.Key{Name: "one", Secret: "one", Models: []string{"qwen3"}},
		server.Key{Name: "other", Secret: "other", Models: []string{"gpt-*", "qwen", "CLAUDE-*"}},
	)}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	ask := func(key, method, path, body string) (int, string) {
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for key, allowed := range map[string]string{
		"all": "claude-haiku claude-opus qwen3", "star": "claude-haiku claude-opus qwen3", "family": "claude-haiku claude-opus", "one": "qwen3", "other": "",
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			_, list := ask(key, "GET", "/v1/models", "")
			_, codex := ask(key, "GET", "/v1/models?client_version=1", "")
			for _, model := range []string{"qwen3", "claude-haiku", "claude-opus"} {
				may := strings.Contains(allowed, model)
				if strings.Contains(list, `"`+model+`"`) != may || strings.Contains(codex, `"`+model+`"`) != may {
					t.Errorf("%s: lists are %s and %s", model, list, codex)
				}
				for _, rest := range []string{`}`, `,"stream":true}`, `,"background":true}`} {
					status, got := ask(key, "POST", "/v1/responses", `{"model":"`+model+`"`+rest)
					if may {
						if status == http.StatusNotFound {
							t.Errorf("%s%s: %d: %s", model, rest, status, got)
						}
						continue
					}
					wantStatus, want := ask("all", "POST", "/v1/responses", `{"model":"missing"`+rest)
					if got = strings.ReplaceAll(got, model, "missing"); status != wantStatus || got != want {
						t.Errorf("%s%s: %d, want %d; body (-want +got):\n%s", model, rest, status, wantStatus, cmp.Diff(want, got))
					}
				}
			}
			if status, got := ask(key, "POST", "/v1/responses", `{}`); status != http.StatusBadRequest {
				t.Errorf("without a model: %d: %s", status, got)
			}
		})
	}
}

// TestKeyringRefusesWhatCannotWork: every key that is not sound is named, and no
// secret is.
func TestKeyringRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		keys []server.Key
		want string
	}{
		"none":            {nil, "lets nobody in"},
		"no name":         {[]server.Key{{Secret: "hidden"}}, `key 0 (""): it has no name`},
		"no secret":       {[]server.Key{{Name: "a"}}, `key 0 ("a"): it needs a secret`},
		"two secrets":     {[]server.Key{{Name: "a", Secret: "hidden", SHA256: sha256.Sum256([]byte("x"))}}, "not both"},
		"hash of nothing": {[]server.Key{{Name: "a", SHA256: sha256.Sum256(nil)}}, "that of nothing"},
		"newline":         {[]server.Key{{Name: "a", Secret: "hidden\n"}}, "no header can carry"},
		"not ASCII":       {[]server.Key{{Name: "a", Secret: "hidden\u00e9"}}, "no header can carry"},
		"same name":       {[]server.Key{{Name: "a", Secret: "hidden"}, {Name: "a", Secret: "hidden2"}}, `key 1 ("a"): there are two`},
		"same secret":     {[]server.Key{{Name: "a", Secret: "hidden"}, {Name: "b", Secret: "hidden"}}, `key 1 ("b"): is the same key as "a"`},
		"same by hash":    {[]server.Key{{Name: "a", Secret: "hidden"}, {Name: "b", SHA256: sha256.Sum256([]byte("hidden"))}}, `is the same key as "a"`},
		"star inside":     {[]server.Key{{Name: "a", Secret: "hidden", Models: []string{"a*b"}}}, `model "a*b"`},
		"two stars":       {[]server.Key{{Name: "a", Secret: "hidden", Models: []string{"a**"}}}, `model "a**"`},
		"empty pattern":   {[]server.Key{{Name: "a", Secret: "hidden", Models: []string{""}}}, `model ""`},
		"negative limit":  {[]server.Key{{Name: "a", Secret: "hidden", Limits: server.Limits{Concurrent: -1}}}, "negative"},
		"all are named":   {[]server.Key{{Name: "a"}, {Name: "fine", Secret: "hidden"}, {Name: "c"}}, "key 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ring, err := server.NewKeyring(test.keys)
			if err == nil || ring != nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hidden") {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
		})
	}
}
