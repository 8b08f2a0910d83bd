package antiphon_test

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/openapitest"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/chat"
	"github.com/antiphon-dev/antiphon/upstream/upstreamtest"
)

// TestSpineUseTool sends every golden through a gateway that renders calls (R19,
// R12): the stream obeys the grammar, its fold is the JSON answer, and where a turn
// ended well with calls, exactly one message more than the model's own items
// renders them all.
func TestSpineUseTool(t *testing.T) {
	t.Parallel()
	checker := openapitest.Load(t)
	for _, p := range protocols {
		goldens, err := upstreamtest.Load(p.goldens)
		if err != nil {
			t.Fatal(err)
		}
		rendered := make(chan bool, len(goldens))
		t.Run(p.name, func(t *testing.T) {
			for _, golden := range goldens {
				t.Run(golden.Name, func(t *testing.T) {
					t.Parallel()
					if renderGolden(t, checker, p.driver, golden) {
						rendered <- true
					}
				})
			}
		})
		if len(rendered) < 5 {
			t.Errorf("only %d goldens of %s have calls that are rendered", len(rendered), p.name)
		}
	}
}

// renderGolden reports whether the golden's answer renders calls.
func renderGolden(t *testing.T, checker *openapitest.Checker, driver func(e upstream.Endpoint) upstream.Driver, golden *upstreamtest.Golden) bool {
	answer := askGolden(t, checker, driver, golden, antiphon.Options{OutputMode: antiphon.OutputObsidian})
	if answer == nil || answer.status != http.StatusOK {
		return false
	}
	// The id that the message has beyond a minted one is the same in both.
	const suffix = `_use_tool"`
	folded := foldOf(t, answer.events)
	sameJSON(t, "the fold of the stream and the JSON answer",
		bytes.ReplaceAll(folded, []byte(suffix), []byte(`"`)), bytes.ReplaceAll(answer.whole, []byte(suffix), []byte(`"`)))
	return checkRendered(t, answer.events[len(answer.events)-1].Response)
}

func foldOf(t *testing.T, events []responses.Event) []byte {
	t.Helper()
	var fold responses.Fold
	for i := range events {
		fold.Add(&events[i])
	}
	folded, err := fold.Response()
	if err != nil {
		t.Fatal(err)
	}
	b, err := folded.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// checkRendered checks that the calls of a response, if it completed, are
// rendered in its last item and nowhere else.
func checkRendered(t *testing.T, resp *responses.Response) bool {
	t.Helper()
	calls, blocks, last := 0, 0, ""
	for _, it := range resp.Output {
		last = ""
		switch it := it.(type) {
		case *responses.FunctionCall, *responses.CustomToolCall:
			calls++
		case *responses.Message:
			last = it.Content.Text()
			blocks += strings.Count(last, "<use_tool>")
		}
	}
	if resp.Status != responses.StatusCompleted {
		calls = 0
	}
	if blocks != calls || calls > 0 && strings.Count(last, "<use_tool>") != calls {
		t.Errorf("%d calls and %d blocks; the last message is %q", calls, blocks, last)
	}
	return calls > 0
}

// TestNewRefusesRulesAndModes: what is not sound is refused before anything is
// served (R19, R20).
func TestNewRefusesRulesAndModes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		opts antiphon.Options
		want string
	}{
		"a mode that is none":    {antiphon.Options{OutputMode: "xml"}, `OutputMode "xml"`},
		"a rule without a model": {antiphon.Options{Rules: []antiphon.Rule{{LastUser: "x"}}}, "rule 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.opts.Drivers = map[string]upstream.Driver{"fake": chat.New(upstream.Endpoint{}, nil)}
			tt.opts.Log = memstore.NewWindow(nil)
			if _, err := antiphon.New(&tt.opts); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got the error %v, want %q", err, tt.want)
			}
		})
	}
}
