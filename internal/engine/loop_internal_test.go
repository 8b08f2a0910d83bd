package engine

import (
	"testing"

	"github.com/antiphon-dev/antiphon/responses"
)

// TestGoesOn: the model is called again when a call of ours was run, unless
// somebody else has to do something first (R44).
func TestGoesOn(t *testing.T) {
	t.Parallel()
	ran := &slot{kind: slotHosted}
	for name, tt := range map[string]struct {
		order []*slot
		want  bool
	}{
		"nothing":                        {nil, false},
		"a call of ours":                 {[]*slot{ran}, true},
		"with words":                     {[]*slot{ran, {item: &responses.Message{}}}, true},
		"with a call of the client's":    {[]*slot{ran, {item: &responses.FunctionCall{}}}, false},
		"with an approval of ours":       {[]*slot{ran, {kind: slotApproval}}, false},
		"with an approval upstream":      {[]*slot{ran, {item: &responses.MCPApprovalRequest{}}}, false},
		"with a call that upstream runs": {[]*slot{ran, {item: &responses.MCPCall{}}}, true},
	} {
		if got := (&hosting{order: tt.order}).goesOn(); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
