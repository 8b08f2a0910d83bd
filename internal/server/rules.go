package server

import (
	"context"
	"fmt"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// opener returns what opens the turns of a request: the router as far as the
// client's key reaches, or the model that a rule says. A key needs to reach the
// model that the client names, not the one of the rule: that one is the
// operator's choice, and the client need not know of it.
func (x *exchange) opener(req *responses.Request) engine.Opener {
	router := x.gen.Router
	if i, model, ok := x.gen.Rules.Match(req); ok {
		x.rule = fmt.Sprintf("rules[%d]", i) // as a configuration file counts them
		router = ruleRouter{router, model}
	}
	return x.reach(router)
}

// A ruleRouter is a router that opens every turn on one model.
type ruleRouter struct {
	Router
	model string
}

func (r ruleRouter) Open(ctx context.Context, t *upstream.Turn) (*upstream.Stream, error) {
	turn, req := *t, *t.Request
	req.Model = r.model
	turn.Request = &req
	return r.Router.Open(ctx, &turn)
}
