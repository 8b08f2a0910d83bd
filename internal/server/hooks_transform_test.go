package server_test

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/internal/server"
	"github.com/antiphon-dev/antiphon/responses"
)

// TestTransform: the hook's change is what drivers read, in the struct and in the
// bytes alike, nothing unknown is lost on the way, and what it leaves alone goes on
// as it came (R34).
func TestTransform(t *testing.T) {
	t.Parallel()
	const sent = `{ "future":{"a":1}, "model":"m","input":[{"type":"message","role":"user","content":"hi","new":true},{"type":"novelty","x":1}],"metadata":{"b":"2","a":"1","c":"3"},"stream":false}`
	const same = `"metadata":{"a":"1","b":"2","c":"3"},`
	for name, test := range map[string]struct {
		hook func(r *responses.Request) *responses.Request
		want string
	}{
		"left alone": {func(r *responses.Request) *responses.Request { return r }, sent},
		"changed in place": {func(r *responses.Request) *responses.Request {
			r.Instructions = new("Be brief.")
			return r
		}, `{"model":"m","input":[{"type":"message","role":"user","content":"hi","new":true},{"type":"novelty","x":1}],"instructions":"Be brief.","stream":false,` + same + `"future":{"a":1}}`},
		"changed inside an item": {func(r *responses.Request) *responses.Request {
			r.Input.Items[0].(*responses.Message).Content = responses.TextContent("ho")
			return r
		}, `{"model":"m","input":[{"type":"message","role":"user","content":"ho","new":true},{"type":"novelty","x":1}],"stream":false,` + same + `"future":{"a":1}}`},
		"an unknown member removed": {func(r *responses.Request) *responses.Request {
			r.Extra = nil
			return r
		}, `{"model":"m","input":[{"type":"message","role":"user","content":"hi","new":true},{"type":"novelty","x":1}],"stream":false,` + same[:len(same)-1] + `}`},
		"another request": {func(*responses.Request) *responses.Request {
			return &responses.Request{Model: "other", Input: responses.Input{Items: []responses.Item{responses.UserMessage("new")}}, Raw: jsontext.Value(`{"model":"smuggled"}`)}
		}, `{"model":"other","input":[{"type":"message","role":"user","content":"new"}],"stream":false}`},
		"stream stays": {func(r *responses.Request) *responses.Request {
			r.Stream = new(true)
			return r
		}, sent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, turn := hooked(t, &server.Generation{Transform: func(_ context.Context, c *server.Caller, r *responses.Request) (*responses.Request, error) {
				if c.Tenant != "default" || c.Name != "" || r.Raw != nil {
					t.Errorf("the hook got %+v and the bytes %s", c, r.Raw)
				}
				return test.hook(r), nil
			}})
			if resp, body := g.do(t, "POST", "/v1/responses", sent); resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
				t.Fatalf("%d %v: %s", resp.StatusCode, resp.Header, body)
			}
			got := turn().Request
			if diff := cmp.Diff(canonical(t, test.want), canonical(t, string(got.Raw))); diff != "" {
				t.Errorf("bytes (-want +got):\n%s", diff)
			}
			if test.want == sent && string(got.Raw) != sent {
				t.Errorf("bytes changed: %s", got.Raw)
			}
			again, err := responses.DecodeRequest(got.Raw, nil)
			if err != nil {
				t.Fatal(err)
			}
			if a, b := encoded(t, again), encoded(t, got); a != b {
				t.Errorf("the bytes say %s, the struct %s", a, b)
			}
		})
	}
}

// TestTransformRefuses: the hook's word is the client's answer if it is meant for
// clients; its own mistakes are the gateway's.
func TestTransformRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		made   *responses.Request
		err    error
		panics bool
		status int
		body   string
		logged string
	}{
		"error as it is":   {err: responses.InvalidParam(responses.CodeInvalidPrompt, "input", "Not in this house."), status: 400, body: `"message":"Not in this house.","param":"input"`},
		"own error":        {err: errors.New("dlp: secret detail"), status: 500, body: `"code":"server_error"`, logged: "dlp: secret detail"},
		"nothing":          {status: 500, body: `"code":"server_error"`, logged: "neither a request nor an error"},
		"panic":            {panics: true, status: 500, body: `"code":"server_error"`, logged: "panic: boom"},
		"out of range":     {made: &responses.Request{Model: "m", Temperature: new(99.0)}, status: 500, body: `"code":"server_error"`, logged: "temperature"},
		"broken members":   {made: &responses.Request{Model: "m", Extra: jsontext.Value(`{"x":`)}, status: 500, body: `"code":"server_error"`, logged: "not valid"},
		"a foreign model":  {made: &responses.Request{Model: "secret"}, status: 404, body: `"code":"model_not_found"`},
		"a model it knows": {made: &responses.Request{Model: "m2"}, status: 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, turn := hooked(t, &server.Generation{
				Keys: keyring(t, server.Key{Name: "ci", Tenant: "team-a", Secret: keySecret, Models: []string{"m*"}}),
				Transform: func(_ context.Context, c *server.Caller, _ *responses.Request) (*responses.Request, error) {
					want := &server.Caller{Name: "ci", Tenant: "team-a", Models: []string{"m*"}}
					if diff := cmp.Diff(want, c); diff != "" {
						t.Errorf("caller (-want +got):\n%s", diff)
					}
					c.Models[0] = "*" // a copy: the key's own stay
					if test.panics {
						panic("boom")
					}
					return test.made, test.err
				},
			})
			resp, body := g.do(t, "POST", "/v1/responses", hello, "Authorization", "Bearer "+keySecret)
			if resp.StatusCode != test.status || !strings.Contains(body, test.body) || strings.Contains(body, "secret detail") {
				t.Errorf("%d: %s, want %d and %s", resp.StatusCode, body, test.status, test.body)
			}
			if (turn() != nil) != (test.status == 200) {
				t.Errorf("a turn was run, or none, with %d", test.status)
			}
			g.Close() // waits for the access log
			if !strings.Contains(g.logs.String(), test.logged) {
				t.Errorf("the log lacks %s:\n%s", test.logged, g.logs)
			}
		})
	}
}

func canonical(t *testing.T, s string) string {
	t.Helper()
	v := jsontext.Value(s)
	if err := v.Canonicalize(); err != nil {
		t.Fatalf("%v: %s", err, s)
	}
	return string(v)
}

func encoded(t *testing.T, r *responses.Request) string {
	t.Helper()
	b, err := json.Marshal(r, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
