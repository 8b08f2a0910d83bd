package main

import (
	"context"
	"encoding/json/jsontext"
	"fmt"
	"strings"

	"github.com/antiphon-dev/antiphon/tool"
)

// roster is a tool that the program runs itself: who is in a team. A request asks for
// it with {"type": "function", "name": "roster"}; the gateway runs the calls and tells
// the model, so no client sees the program's data but through the model.
func (u *users) roster() tool.Function {
	return tool.Function{
		Tool: tool.Tool{
			Name:        "roster",
			Description: "Names the members of a team.",
			Parameters:  jsontext.Value(`{"type":"object","properties":{"team":{"type":"string"}},"required":["team"]}`),
		},
		Run: func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			var args struct {
				Team string `json:"team"`
			}
			if err := c.Decode(&args); err != nil {
				return nil, err
			}
			if args.Team != c.Owner {
				return nil, fmt.Errorf("only %s itself may ask who is in it", args.Team) // a result too
			}
			return tool.Text(strings.Join(u.members(args.Team), ", ")), nil
		},
	}
}
