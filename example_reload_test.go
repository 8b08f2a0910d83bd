package antiphon_test

import (
	"fmt"
	"log/slog"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
)

// A gateway takes a new configuration while it serves. One that is not valid
// changes nothing.
func ExampleGateway_Reload() {
	options := func(model, upstreamName string) *antiphon.Options {
		return &antiphon.Options{
			Drivers: map[string]upstream.Driver{"parrot": parrot{}}, // new drivers each time: the gateway closes the old
			Models:  map[string]antiphon.Model{model: antiphon.ModelAt(upstreamName, "")},
			Log:     memstore.NewWindow(nil),
			Logger:  slog.New(slog.DiscardHandler),
		}
	}
	gw, err := antiphon.New(options("polly", "parrot"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gw.Close()
	fmt.Println(gw.Reload(options("jack", "nobody")))
	fmt.Println(ask(gw, "", "polly", "hello"))
	fmt.Println(gw.Reload(options("jack", "parrot")))
	fmt.Println(ask(gw, "", "jack", "hello"))
	// Output:
	// model "jack": there is no upstream "nobody"
	// 200 hello
	// <nil>
	// 200 hello
}
