package server_test

import (
	"context"
	"encoding/json/v2"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/internal/server"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
)

// catalog plays a router that has models to list.
type catalog struct {
	engine.Opener
	models []upstream.Model
	err    error
}

func (c *catalog) Models(context.Context) ([]upstream.Model, error) { return c.models, c.err }

// listing asks a server over the catalog for its models.
func (c *catalog) listing(t *testing.T, query string) (int, string) {
	t.Helper()
	s := server.New(engine.New(memstore.NewWindow(nil), nil), &server.Generation{Router: c}, &server.Options{Logger: slog.New(slog.DiscardHandler)})
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/models"+query, nil))
	return w.Code, w.Body.String()
}

func ids(names ...string) *catalog {
	c := new(catalog)
	for _, n := range names {
		c.models = append(c.models, upstream.Model{ID: n, OwnedBy: "local"})
	}
	return c
}

// TestModelsForCodex: Codex gets a list that it can read, in which a model has all
// that it needs to work with it.
func TestModelsForCodex(t *testing.T) {
	t.Parallel()
	c := &catalog{models: []upstream.Model{
		{ID: "large", OwnedBy: "local", ContextWindow: 131072},
		{ID: "small", OwnedBy: "local", ContextWindow: 4096},
		{ID: "unknown", OwnedBy: "lab"},
	}}
	status, body := c.listing(t, "?client_version=0.166.0")
	var got struct {
		Models []map[string]any `json:"models"`
	}
	if err := json.Unmarshal([]byte(body), &got, json.RejectUnknownMembers(true)); err != nil || status != http.StatusOK {
		t.Fatalf("%d, %v: %s", status, err, body)
	}
	entry := func(id, owner string, priority, truncation, window float64) map[string]any {
		m := map[string]any{
			"slug": id, "display_name": id, "description": "Served by " + owner + ".", "priority": priority,
			"visibility": "list", "supported_in_api": true, "shell_type": "default", "apply_patch_tool_type": "freeform",
			"supported_reasoning_levels": []any{}, "experimental_supported_tools": []any{}, "support_verbosity": false,
			"truncation_policy":            map[string]any{"mode": "tokens", "limit": truncation},
			"supports_reasoning_summaries": true, "supports_parallel_tool_calls": true,
		}
		if window > 0 {
			m["context_window"] = window
		}
		return m
	}
	for _, m := range got.Models {
		if s, _ := m["base_instructions"].(string); len(s) < 100 {
			t.Errorf("%v works without instructions: %q", m["slug"], s)
		}
		delete(m, "base_instructions")
	}
	want := []map[string]any{entry("large", "local", 1, 10_000, 131072), entry("small", "local", 2, 1024, 4096), entry("unknown", "lab", 3, 10_000, 0)}
	if diff := cmp.Diff(want, got.Models); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
}

// TestModelsThatCodexKnows: a list that is not empty replaces Codex's catalog, so
// there is none where the catalog knows better.
func TestModelsThatCodexKnows(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		catalog *catalog
		entries int
	}{
		"none":                 {ids(), 0},
		"its own":              {ids("gpt-5.5"), 0},
		"its own, with others": {ids("qwen3", "gpt-6.1-sol"), 0},
		"with a provider":      {ids("openai/gpt-5.5"), 0},
		"its reviewer":         {ids("codex-auto-review"), 0},
		"open weights":         {ids("gpt-oss-20b", "openai/gpt-oss:120b"), 2},
		"others":               {ids("qwen3", "claude-opus", "my-gpt-4"), 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body := test.catalog.listing(t, "?client_version=0.166.0")
			var got struct {
				Models []struct{} `json:"models"`
			}
			if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusOK || got.Models == nil || len(got.Models) != test.entries {
				t.Errorf("%d, %v: %s", status, err, body)
			}
		})
	}
}

// TestModelList: without client_version the list is that of the API, also an empty
// one; what some upstreams do not tell does not hide what others do.
func TestModelList(t *testing.T) {
	t.Parallel()
	down := responses.UpstreamErrorf(responses.CodeTimeout, "too slow")
	one := ids("gpt-5.5")
	one.err = errors.Join(down)
	for name, test := range map[string]struct {
		catalog *catalog
		query   string
		status  int
		body    string
	}{
		"empty":           {ids(), "", 200, `{"object":"list","data":[]}`},
		"one of two":      {one, "?limit=5", 200, `{"object":"list","data":[{"id":"gpt-5.5","object":"model","created":0,"owned_by":"local"}]}`},
		"none":            {&catalog{err: down}, "", 504, `{"error":{"type":"server_error","code":"upstream_timeout","message":"too slow","param":null}}`},
		"none, for Codex": {&catalog{err: down}, "?client_version=1", 504, `{"error":{"type":"server_error","code":"upstream_timeout","message":"too slow","param":null}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if status, body := test.catalog.listing(t, test.query); status != test.status || body != test.body {
				t.Errorf("%d: %s", status, body)
			}
		})
	}
}
