package antiphon_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
)

// redact keeps a code name inside the house, and refuses what is about it alone.
func redact(_ context.Context, _ *antiphon.Caller, r *responses.Request) (*responses.Request, error) {
	for _, item := range r.Input.Items {
		msg, ok := item.(*responses.Message)
		if !ok {
			continue
		}
		text := strings.ReplaceAll(msg.Content.Text(), "Bluebird", "[project]")
		if text == "[project]" {
			return nil, responses.InvalidParam(responses.CodeInvalidPrompt, "input", "Ask about something else.")
		}
		msg.Content = responses.TextContent(text)
	}
	return r, nil
}

// A hook changes requests before they leave, or refuses them.
func ExampleNew_transformRequest() {
	gw, err := antiphon.New(&antiphon.Options{
		Drivers:          map[string]upstream.Driver{"parrot": parrot{}},
		TransformRequest: redact,
		Log:              memstore.NewWindow(nil),
		Logger:           slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gw.Close()
	fmt.Println(ask(gw, "", "polly", "When does Bluebird ship?"))
	fmt.Println(ask(gw, "", "polly", "Bluebird"))
	// Output:
	// 200 When does [project] ship?
	// 400 {"error":{"type":"invalid_request_error","code":"invalid_prompt","message":"Ask about something else.","param":"input"}}
}
