package route_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/internal/route"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// stub is a driver that refuses every turn with the model it was asked for.
type stub struct {
	models []upstream.Model
	err    error
	closed bool
}

func (s *stub) Open(_ context.Context, t *upstream.Turn) (*upstream.Stream, error) {
	if t.Request.Model == "works" {
		return &upstream.Stream{Close: func() error { return nil }}, nil
	}
	return nil, errors.New("asked for " + t.Request.Model)
}
func (s *stub) Models(context.Context) ([]upstream.Model, error) { return s.models, s.err }
func (s *stub) Close() error                                     { s.closed = true; return s.err }

func open(t *testing.T, r *route.Router, model string) (*upstream.Stream, error) {
	t.Helper()
	return r.Open(t.Context(), &upstream.Turn{Request: &responses.Request{Model: model}})
}

func TestModelDecidesTheUpstream(t *testing.T) {
	t.Parallel()
	one := map[string]upstream.Driver{"a": &stub{}}
	two := map[string]upstream.Driver{"a": &stub{}, "b": &stub{}}
	named := map[string]route.Model{"fast": route.To("a", "works"), "slow": route.To("a", "big-model")}
	for name, test := range map[string]struct {
		drivers map[string]upstream.Driver
		models  map[string]route.Model
		ask     string
		upload  string // the upstream that answers
		err     string // or how it fails
	}{
		"a name":                  {two, named, "fast", "a", ""},
		"a name, rewritten":       {two, named, "slow", "", "asked for big-model"},
		"any name, one upstream":  {one, nil, "works", "a", ""},
		"any name, two upstreams": {two, nil, "works", "", "model_not_found"},
		"an unknown name":         {one, named, "works", "", "model_not_found"},
		"no name":                 {one, nil, "", "", "missing_required_parameter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := route.New(test.drivers, test.models, nil)
			if err != nil {
				t.Fatal(err)
			}
			s, err := open(t, r, test.ask)
			switch e := responses.AsError(err); {
			case test.err == "" && (err != nil || s.Upstream != test.upload):
				t.Errorf("got %+v and %v", s, err)
			case test.err != "" && (err == nil || string(e.Code) != test.err && err.Error() != test.err):
				t.Errorf("got %v, want %s", err, test.err)
			}
			if err == nil {
				s.Close()
			}
		})
	}
}

func TestModelOfAMissingUpstream(t *testing.T) {
	t.Parallel()
	_, err := route.New(map[string]upstream.Driver{"a": &stub{}}, map[string]route.Model{"m": route.To("b", "")}, nil)
	if err == nil {
		t.Error("a model of an upstream that does not exist was accepted")
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	drivers := map[string]upstream.Driver{
		"a":    &stub{models: []upstream.Model{{ID: "z"}, {ID: "m", ContextWindow: 4096, OwnedBy: "lab"}}},
		"down": &stub{err: errors.New("refused")},
	}
	for name, test := range map[string]struct {
		models map[string]route.Model
		want   []upstream.Model
	}{
		"all that are offered": {nil, []upstream.Model{{ID: "m", ContextWindow: 4096, OwnedBy: "lab"}, {ID: "z", OwnedBy: "a"}}},
		"the configured names": {
			map[string]route.Model{"fast": route.To("a", "m"), "far": route.To("down", "x")},
			[]upstream.Model{{ID: "far", OwnedBy: "down"}, {ID: "fast", ContextWindow: 4096, OwnedBy: "lab"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := route.New(drivers, test.models, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.Models(t.Context())
			if err == nil {
				t.Error("the upstream that is down is not reported")
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("models (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCloseClosesEveryUpstream(t *testing.T) {
	t.Parallel()
	a, b := &stub{err: errors.New("stuck")}, &stub{}
	r, err := route.New(map[string]upstream.Driver{"a": a, "b": b}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); !errors.Is(err, a.err) || !a.closed || !b.closed {
		t.Errorf("closed %v and %v with %v", a.closed, b.closed, err)
	}
}
