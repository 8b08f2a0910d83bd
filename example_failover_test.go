package antiphon_test

import (
	"context"
	"fmt"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
)

// overloaded is a driver whose upstream takes no more requests.
type overloaded struct{}

func (overloaded) Open(context.Context, *upstream.Turn) (*upstream.Stream, error) {
	return nil, responses.UpstreamErrorf(responses.CodeOverloaded, "Come back later.")
}

func (overloaded) Close() error { return nil }

// A model with two targets: the second is used when the first cannot be.
func ExampleNew_failover() {
	gw, err := antiphon.New(&antiphon.Options{
		Drivers: map[string]upstream.Driver{"main": overloaded{}, "spare": parrot{}},
		Models: map[string]antiphon.Model{
			"polly": {Targets: []antiphon.Target{{Upstream: "main"}, {Upstream: "spare", Priority: 2}}},
		},
		Log: memstore.NewWindow(nil),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gw.Close()
	fmt.Println(ask(gw, "", "polly", "hello"))
	// Output: 200 hello
}
