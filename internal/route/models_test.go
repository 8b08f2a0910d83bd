package route_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/internal/route"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// hanging is a driver that lists its models when its caller has had enough.
type hanging struct{ stub }

func (*hanging) Models(ctx context.Context) ([]upstream.Model, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// TestModelsDoNotWaitForOneUpstream: one that hangs is left out in time, and its
// configured names are still there.
func TestModelsDoNotWaitForOneUpstream(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		models map[string]route.Model
		want   []upstream.Model
	}{
		"all that are offered": {nil, []upstream.Model{{ID: "m", OwnedBy: "works"}}},
		"the configured names": {map[string]route.Model{"fast": route.To("hangs", "m")}, []upstream.Model{{ID: "fast", OwnedBy: "hangs"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				drivers := map[string]upstream.Driver{"works": &stub{models: []upstream.Model{{ID: "m"}}}, "hangs": &hanging{}}
				r, err := route.New(drivers, test.models, nil)
				if err != nil {
					t.Fatal(err)
				}
				got, err := r.Models(t.Context())
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("models (-want +got):\n%s", diff)
				}
				if e, ok := errors.AsType[*responses.Error](err); !ok || e.Code != responses.CodeTimeout {
					t.Errorf("the upstream that hangs is not reported: %v", err)
				}
			})
		})
	}
}
