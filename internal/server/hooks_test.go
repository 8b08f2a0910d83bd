package server_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/internal/server"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// hooked is a gateway with hooks whose last turn is kept.
func hooked(t *testing.T, gen *server.Generation) (g *gateway, turn func() *upstream.Turn) {
	t.Helper()
	turns := make(chan *upstream.Turn, 1)
	up := upstreamFunc(func(ctx context.Context, got *upstream.Turn) (*upstream.Stream, error) {
		turns <- got
		return says("x")(ctx, got)
	})
	g = newGateway(t, up, nil)
	gen.Router = up
	g.api.Use(gen)
	return g, func() *upstream.Turn {
		select {
		case got := <-turns:
			return got
		default:
			return nil
		}
	}
}

// TestAuthenticate: an embedder says who is who; what it does not say reaches
// nobody, and why it refuses is for the log only (R35).
func TestAuthenticate(t *testing.T) {
	t.Parallel()
	const wrongKey = `{"error":{"type":"authentication_error","code":"invalid_api_key","message":"Send a valid API key with the header Authorization: Bearer.","param":null}}`
	for name, test := range map[string]struct {
		caller *server.Caller
		err    error
		status int
		body   string // if refused
		logged string
	}{
		"let in":           {caller: &server.Caller{Name: "ada", Tenant: "team-a"}, status: 200, logged: `"key":"ada"`},
		"tenant by name":   {caller: &server.Caller{Name: "team-a"}, status: 200, logged: `"key":"team-a"`},
		"its model":        {caller: &server.Caller{Name: "ada", Tenant: "team-a", Models: []string{"m*"}}, status: 200},
		"no such model":    {caller: &server.Caller{Name: "ada", Models: []string{"n"}}, status: 404, body: `"code":"model_not_found"`},
		"nobody":           {status: 401, body: wrongKey},
		"own error":        {err: errors.New("ldap: secret detail"), status: 401, body: wrongKey, logged: "ldap: secret detail"},
		"error as it is":   {err: responses.Errorf(responses.CodeForbidden, "Your trial is over."), status: 403, body: "Your trial is over."},
		"no name":          {caller: &server.Caller{Tenant: "team-a"}, status: 500, body: "server_error", logged: "it has no name"},
		"impossible model": {caller: &server.Caller{Name: "ada", Models: []string{"*x*"}}, status: 500, body: "server_error", logged: "a pattern has one *"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, turn := hooked(t, &server.Generation{Authenticate: func(*http.Request) (*server.Caller, error) { return test.caller, test.err }})
			resp, body := g.send(t, hello, http.Header{"Authorization": {"Bearer theirs"}})
			if resp.StatusCode != test.status || !strings.Contains(body, test.body) {
				t.Errorf("%d: %s, want %d and %s", resp.StatusCode, body, test.status, test.body)
			}
			if strings.Contains(body, "secret detail") {
				t.Errorf("the reason was revealed: %s", body)
			}
			switch got := turn(); {
			case got == nil && test.status == http.StatusOK:
				t.Error("no turn was run")
			case got != nil && (test.status != http.StatusOK || got.Owner != "team-a" || got.Header.Get("Authorization") != ""):
				t.Errorf("a turn of %q with %v", got.Owner, got.Header)
			}
			g.Close() // waits for the access log
			if !strings.Contains(g.logs.String(), test.logged) {
				t.Errorf("the log lacks %s:\n%s", test.logged, g.logs)
			}
		})
	}
}

// TestCallersAreLimited: limits hold for a caller by its name, as for keys.
func TestCallersAreLimited(t *testing.T) {
	t.Parallel()
	g, turn := hooked(t, &server.Generation{Authenticate: func(r *http.Request) (*server.Caller, error) {
		return &server.Caller{Name: r.Header.Get("X-User"), Limits: server.Limits{RequestsPerMinute: 1}}, nil
	}})
	var got []int
	for _, user := range []string{"ada", "ada", "bob"} {
		resp, _ := g.send(t, hello, http.Header{"X-User": {user}})
		got = append(got, resp.StatusCode)
		turn()
	}
	if diff := cmp.Diff([]int{200, 429, 200}, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
}

// TestForeignPagesAndAuthenticate: a browser adds cookies for any page, so that
// the embedder knows the user does not mean that the user asked.
func TestForeignPagesAndAuthenticate(t *testing.T) {
	t.Parallel()
	g, turn := hooked(t, &server.Generation{Authenticate: func(*http.Request) (*server.Caller, error) {
		return &server.Caller{Name: "ada"}, nil
	}})
	resp, body := g.send(t, hello, http.Header{"Origin": {"https://evil.example"}, "Cookie": {"session=ada"}})
	if resp.StatusCode != http.StatusForbidden || turn() != nil {
		t.Errorf("%d: %s", resp.StatusCode, body)
	}
}
