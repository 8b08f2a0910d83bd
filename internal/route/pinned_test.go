package route_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/route"
	"github.com/antiphon-dev/antiphon/upstream"
)

// relayer is a driver that can be relayed to.
type relayer struct{ stub }

func (*relayer) Relays(string) bool { return true }
func (*relayer) Relay(context.Context, *upstream.Passage) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// TestStateOfPools: upstreams that remember are those of a whole model or of none
// of it, and get requests as they came (R40).
func TestStateOfPools(t *testing.T) {
	t.Parallel()
	drivers := map[string]upstream.Driver{"a": &relayer{}, "b": &relayer{}, "c": &relayer{}, "chat": &stub{}}
	keeps := map[string]route.Upstream{"a": {KeepsState: true}, "b": {KeepsState: true}}
	pool := func(names ...string) (m route.Model) {
		for _, name := range names {
			m.Targets = append(m.Targets, route.Target{Upstream: name})
		}
		return m
	}
	shaped := pool("a")
	shaped.Drop = []string{"user"}
	for name, test := range map[string]struct {
		model    route.Model
		settings map[string]route.Upstream
		err      string // "" if it is sound
		keeps    bool
	}{
		"all remember":  {pool("a", "b"), keeps, "", true},
		"none does":     {pool("c", "chat"), keeps, "", false},
		"some do":       {pool("a", "c"), keeps, "some do not", false},
		"changed":       {shaped, keeps, "cannot be changed", false},
		"not relayed":   {pool("a"), map[string]route.Upstream{"a": {KeepsState: true, NoRelay: true}}, "cannot be relayed", false},
		"no such thing": {pool("chat"), map[string]route.Upstream{"chat": {KeepsState: true}}, "cannot be relayed", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := route.New(drivers, map[string]route.Model{"m": test.model}, &route.Options{Upstreams: test.settings})
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if r.Remembers("m") != test.keeps {
				t.Errorf("remembers: %t", r.Remembers("m"))
			}
			if _, ok := r.Home(); ok {
				t.Error("there is a home without a model *")
			}
		})
	}
}
