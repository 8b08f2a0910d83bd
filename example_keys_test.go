package antiphon_test

import (
	"fmt"
	"log/slog"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
)

// Keys say who may call, which models, and how often.
func ExampleNew_keys() {
	gw, err := antiphon.New(&antiphon.Options{
		Drivers: map[string]upstream.Driver{"parrot": parrot{}},
		Keys: []antiphon.Key{{
			Name: "ci", Tenant: "team-a", Secret: "ak-of-ci",
			Models: []string{"polly*"},
			Limits: antiphon.KeyLimits{RequestsPerMinute: 1},
		}},
		Log:    memstore.NewWindow(nil),
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gw.Close()
	fmt.Println(ask(gw, "ak-of-ci", "polly", "hello"))
	fmt.Println(ask(gw, "ak-of-ci", "polly", "hello again"))
	fmt.Println(ask(gw, "ak-of-nobody", "polly", "hello"))
	// Output:
	// 200 hello
	// 429 {"error":{"type":"rate_limit_error","code":"rate_limit_exceeded","message":"This key may send 1 requests a minute; slow down.","param":null}}
	// 401 {"error":{"type":"authentication_error","code":"invalid_api_key","message":"Send a valid API key with the header Authorization: Bearer.","param":null}}
}
