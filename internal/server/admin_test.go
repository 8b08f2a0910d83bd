package server_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/server"
)

// TestAdminIsGuarded: the admin address is for whoever has its key or, without
// one, for programs of this machine: not for pages, and not for names that were
// made to lead here (R35).
func TestAdminIsGuarded(t *testing.T) {
	t.Parallel()
	const key = "admin-key-0123456789"
	g := newGateway(t, says("x"), nil)
	for name, test := range map[string]struct {
		key            string // of the listener
		method, path   string
		host           string
		header         string
		status         int
		body, notBody  string
		withoutReloads bool
	}{
		"alive":                        {method: "GET", path: "/healthz", status: 200, body: server.Health},
		"alive, also without the key":  {key: key, method: "GET", path: "/healthz", status: 200, body: server.Health},
		"ready":                        {key: key, method: "GET", path: "/readyz", status: 200, body: "ready"},
		"reload":                       {method: "POST", path: "/admin/reload", status: 200, body: `{"changed":["models"]}`},
		"reload by name":               {method: "POST", path: "/admin/reload", host: "localhost:4101", status: 200},
		"reload over IPv6":             {method: "POST", path: "/admin/reload", host: "[::1]:4101", status: 200},
		"reload with the key":          {key: key, method: "POST", path: "/admin/reload", host: "gw.example", header: "Authorization: Bearer " + key, status: 200},
		"reload without the key":       {key: key, method: "POST", path: "/admin/reload", status: 401, body: "invalid_api_key"},
		"reload with another key":      {key: key, method: "POST", path: "/admin/reload", header: "Authorization: Bearer " + key + "0", status: 401},
		"metrics":                      {method: "GET", path: "/metrics", status: 200, body: "metrics!"},
		"metrics without the key":      {key: key, method: "GET", path: "/metrics", status: 401, notBody: "metrics!"},
		"a page reloads":               {method: "POST", path: "/admin/reload", header: "Origin: http://localhost:3000", status: 403, body: "permission_denied"},
		"a page embeds":                {method: "GET", path: "/metrics", header: "Sec-Fetch-Site: cross-site", status: 403, notBody: "metrics!"},
		"somebody types the address":   {method: "GET", path: "/metrics", header: "Sec-Fetch-Site: none", status: 200},
		"a name of another's":          {method: "GET", path: "/metrics", host: "evil.example:4101", status: 403, notBody: "metrics!"},
		"a name that begins like ours": {method: "GET", path: "/metrics", host: "127.0.0.1.evil.example", status: 403, notBody: "metrics!"},
		"another method":               {method: "GET", path: "/admin/reload", status: 405},
		"another path":                 {method: "GET", path: "/v1/models", status: 404, body: "not_found"},
		"nothing to reload":            {method: "POST", path: "/admin/reload", withoutReloads: true, status: 404},
		"another path without the key": {key: key, method: "GET", path: "/v1/models", status: 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := &server.AdminOptions{Key: test.key, Mount: map[string]http.Handler{
				"GET /metrics": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metrics!") }),
			}}
			if !test.withoutReloads {
				opts.Reload = func(context.Context) server.Reload { return server.Reload{Changed: []string{"models"}} }
			}
			r := httptest.NewRequestWithContext(t.Context(), test.method, test.path, nil)
			r.Host = "127.0.0.1:4101"
			if test.host != "" {
				r.Host = test.host
			}
			if name, value, ok := strings.Cut(test.header, ": "); ok {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			g.api.Admin(opts).ServeHTTP(w, r)
			if w.Code != test.status || !strings.Contains(w.Body.String(), test.body) || test.notBody != "" && strings.Contains(w.Body.String(), test.notBody) {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
}

// TestAdminTellsProblems: a configuration that was not taken over is a 422 with
// each problem and its place (R36). A client that leaves does not stop it.
func TestAdminTellsProblems(t *testing.T) {
	t.Parallel()
	g := newGateway(t, says("x"), nil)
	ctx, leave := context.WithCancel(t.Context())
	h := g.api.Admin(&server.AdminOptions{Reload: func(ctx context.Context) server.Reload {
		leave()
		if ctx.Err() != nil {
			t.Error("the reload was cancelled")
		}
		return server.Reload{Changed: []string{"nothing"}, Problems: []server.Problem{
			{Path: "upstreams.a.url", Line: 3, Column: 9, Message: "is missing"},
			{Message: "the file is empty"},
		}}
	}})
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/admin/reload", nil)
	r.Host = "127.0.0.1"
	h.ServeHTTP(w, r)
	const want = `{"changed":[],"problems":[{"path":"upstreams.a.url","line":3,"column":9,"message":"is missing"},{"message":"the file is empty"}]}`
	if w.Code != http.StatusUnprocessableEntity || w.Body.String() != want {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}
