package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/route"
	"github.com/antiphon-dev/antiphon/internal/server"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// TestRulesReroute: a request that a rule matches goes to the rule's model, the
// answer says the client's, the log says which rule it was, and a key needs to
// reach only the model that the client names (R20, R35).
func TestRulesReroute(t *testing.T) {
	t.Parallel()
	rules, err := route.NewRules([]route.Rule{{LastUser: "^never$", Model: "never"}, {LastUser: "^title", Model: "cheap"}})
	if err != nil {
		t.Fatal(err)
	}
	keys := keyring(t, server.Key{Name: "ci", Secret: keySecret, Models: []string{"big"}})
	for name, tt := range map[string]struct {
		keys         *server.Keyring
		model, input string
		status       int
		asked        string // what the router was asked for, "" if nothing
		rule         string // in the log
	}{
		"a rule matches":                     {nil, "big", "title please", 200, "cheap", `"rule":"rules[1]"`},
		"no rule matches":                    {nil, "big", "hello", 200, "big", ""},
		"a key for the client's model":       {keys, "big", "title please", 200, "cheap", `"rule":"rules[1]"`},
		"a key that may not name the target": {keys, "cheap", "title please", 404, "", `"rule":"rules[1]"`},
		"a key for another model":            {keys, "huge", "title please", 404, "", `"rule":"rules[1]"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked string
			router := upstreamFunc(func(ctx context.Context, turn *upstream.Turn) (*upstream.Stream, error) {
				asked = turn.Request.Model
				return says("x")(ctx, turn)
			})
			g := newGateway(t, router, nil)
			g.api.Use(&server.Generation{Router: router, Keys: tt.keys, Rules: rules})
			resp, body := g.do(t, "POST", "/v1/responses", `{"model":"`+tt.model+`","input":"`+tt.input+`"}`, "Authorization", "Bearer "+keySecret)
			if resp.StatusCode != tt.status || asked != tt.asked {
				t.Fatalf("%d, and the router was asked for %q; want %d and %q: %s", resp.StatusCode, asked, tt.status, tt.asked, body)
			}
			if tt.status == 200 {
				got, err := responses.DecodeResponse([]byte(body))
				if err != nil {
					t.Fatal(err)
				}
				if got.Model != tt.model {
					t.Errorf("the answer is of %q, want %q", got.Model, tt.model)
				}
			}
			g.Close() // waits until the request is logged
			if logs := g.logs.String(); !strings.Contains(logs, tt.rule) || tt.rule == "" && strings.Contains(logs, `"rule"`) || strings.Contains(logs, tt.input) {
				t.Errorf("the log says %s", logs)
			}
		})
	}
}
