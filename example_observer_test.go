package antiphon_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
)

// printer prints what runs come to, and each try of one on an upstream.
type printer struct{ antiphon.NopObserver }

var _ antiphon.AttemptObserver = printer{}

func (printer) RunEnded(r *antiphon.RunInfo, end *antiphon.RunEnd) {
	fmt.Printf("run of %s for %s: %s\n", r.Model, r.Owner, end.Cause)
}

func (printer) AttemptStarted(ctx context.Context, _ *antiphon.Attempt) context.Context { return ctx }

func (printer) AttemptEnded(_ context.Context, a *antiphon.Attempt) {
	fmt.Printf("try %d on %s: failed %t\n", a.Number, a.Upstream, a.Err != nil)
}

// An observer feeds the metrics and traces that a program already has.
func ExampleObserver() {
	gw, err := antiphon.New(&antiphon.Options{
		Drivers: map[string]upstream.Driver{"main": overloaded{}, "spare": parrot{}},
		Models: map[string]antiphon.Model{
			"polly": {Targets: []antiphon.Target{{Upstream: "main"}, {Upstream: "spare", Priority: 2}}},
		},
		Observer: printer{},
		Log:      memstore.NewWindow(nil),
		Logger:   slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer gw.Close()
	fmt.Println(ask(gw, "", "polly", "hello"))
	// Output:
	// try 0 on main: failed true
	// try 1 on spare: failed false
	// run of polly for default: completed
	// 200 hello
}
