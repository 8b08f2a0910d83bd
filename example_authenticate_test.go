package antiphon_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
)

// A program that knows its users says who is calling, instead of keys.
func ExampleNew_authenticate() {
	whoIs := func(r *http.Request) (*antiphon.Caller, error) {
		switch r.Header.Get("Authorization") {
		case "Bearer session-of-ada":
			return &antiphon.Caller{Name: "ada", Tenant: "team-a", Models: []string{"polly"}}, nil
		case "Bearer session-of-bob":
			return nil, responses.Errorf(responses.CodeForbidden, "Your trial is over.")
		}
		return nil, errors.New("no such session") // for the log; the client gets a plain 401
	}
	gw, err := antiphon.New(&antiphon.Options{
		Drivers:      map[string]upstream.Driver{"parrot": parrot{}},
		Authenticate: whoIs,
		Log:          memstore.NewWindow(nil),
		Logger:       slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gw.Close()
	fmt.Println(ask(gw, "session-of-ada", "polly", "hello"))
	fmt.Println(ask(gw, "session-of-ada", "eagle", "hello"))
	fmt.Println(ask(gw, "session-of-bob", "polly", "hello"))
	fmt.Println(ask(gw, "session-of-eve", "polly", "hello"))
	// Output:
	// 200 hello
	// 404 {"error":{"type":"invalid_request_error","code":"model_not_found","message":"There is no model \"eagle\"; GET /v1/models lists those there are.","param":"model"}}
	// 403 {"error":{"type":"permission_error","code":"permission_denied","message":"Your trial is over.","param":null}}
	// 401 {"error":{"type":"authentication_error","code":"invalid_api_key","message":"Send a valid API key with the header Authorization: Bearer.","param":null}}
}
