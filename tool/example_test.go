package tool_test

import (
	"context"
	"encoding/json/jsontext"
	"fmt"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/tool"
)

// A Go function as a tool: clients ask for it with
// {"type": "function", "name": "shout"}.
func ExampleFunctions() {
	shout := tool.Function{
		Tool: tool.Tool{
			Name:        "shout",
			Description: "Writes text in capitals.",
			Parameters:  jsontext.Value(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`),
		},
		Run: func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
			var args struct {
				Text string `json:"text"`
			}
			if err := c.Decode(&args); err != nil {
				return nil, err
			}
			return tool.Text(strings.ToUpper(args.Text)), nil
		},
	}
	executor, err := tool.Functions(shout)
	if err != nil {
		fmt.Println(err)
		return
	}
	// What the gateway does with it:
	set, err := executor.Open(context.Background(), &tool.Ask{Tool: &responses.FunctionTool{Name: "shout"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := set.Run(context.Background(), &tool.Call{Name: "shout", Arguments: jsontext.Value(`{"text":"hello"}`)})
	fmt.Println(responses.TextOf(result.Content), err)
	// Output: HELLO <nil>
}
