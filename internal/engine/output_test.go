package engine_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
)

// turnWith is the events of a turn that says a word, makes a call if it has a
// name, and ends with the status.
func turnWith(call string, status responses.Status) []responses.Event {
	c := responses.NewComposer(0, time.Now)
	c.Text("so", nil)
	if call != "" {
		c.FunctionCall("call_1", call).Arguments(`{"q":"x"}`)
	}
	c.End(&responses.TurnEnd{Status: status, Reason: responses.ReasonMaxOutputTokens})
	return c.Take()
}

// TestOutputModes: the calls of a turn that ended well are rendered once, at the
// end, for those who asked (R19).
func TestOutputModes(t *testing.T) {
	t.Parallel()
	const rendered = "<use_tool>\n<name>find</name>\n<q>x</q>\n</use_tool>"
	withoutEnd := turnWith("find", responses.StatusCompleted)
	withoutEnd = withoutEnd[:len(withoutEnd)-1]
	for name, tt := range map[string]struct {
		mode  engine.OutputMode
		turn  script
		items int
		last  string // text of the last item, if that is a message
	}{
		"nothing asked":   {"", script{events: turnWith("find", responses.StatusCompleted)}, 2, ""},
		"JSON":            {engine.OutputJSON, script{events: turnWith("find", responses.StatusCompleted)}, 2, ""},
		"XML":             {engine.OutputObsidian, script{events: turnWith("find", responses.StatusCompleted)}, 3, rendered},
		"no calls":        {engine.OutputObsidian, script{events: turnWith("", responses.StatusCompleted)}, 1, "so"},
		"incomplete":      {engine.OutputObsidian, script{events: turnWith("find", responses.StatusIncomplete)}, 2, ""},
		"fails afterward": {engine.OutputObsidian, script{events: withoutEnd, err: responses.Errorf(responses.CodeUpstream, "Gone.")}, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newRig(answer(tt.turn.run), memstore.NewWindow(nil), nil)
			run, err := e.Start(t.Context(), &engine.Job{Owner: "o", Request: request(t, `{"model":"m","input":"hi"}`), Output: tt.mode})
			if err != nil {
				t.Fatal(err)
			}
			events := readAll(t, e, run)
			out := events[len(events)-1].Response.Output
			if len(out) != tt.items {
				t.Fatalf("%d items, want %d", len(out), tt.items)
			}
			var last string
			if m, ok := out[len(out)-1].(*responses.Message); ok {
				last = m.Content.Text()
			}
			if diff := cmp.Diff(tt.last, last); diff != "" {
				t.Errorf("the last message (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRenderedCallsAreNotReplayed: a message that renders calls does not reach a
// model when a client sends it back, in either form of the request, and nothing
// else is touched (R19).
func TestRenderedCallsAreNotReplayed(t *testing.T) {
	t.Parallel()
	e := newRig(answer(script{events: turnWith("find", responses.StatusCompleted)}.run), memstore.NewWindow(nil), nil)
	run, err := e.Start(t.Context(), &engine.Job{Owner: "o", Request: request(t, `{"model":"m","input":"hi"}`), Output: engine.OutputObsidian})
	if err != nil {
		t.Fatal(err)
	}
	events := readAll(t, e, run)
	out := events[len(events)-1].Response.Output
	id := out[len(out)-1].ItemID()
	if !responses.ValidID(responses.PrefixMessage, id) || !strings.Contains(id, strings.TrimPrefix(run.ID(), responses.PrefixResponse)) {
		t.Errorf("the id %q is not derived from %q", id, run.ID())
	}
	const before, after = `{"role":"user",  "content":"hi"}`, `{"id":"msg_use_too","role":"user","content":"and?"}`
	rendered := `{"type":"message","id":"` + id + `","role":"assistant","content":[{"type":"output_text","text":"<use_tool>"}]}`
	reference := `{"type":"item_reference","id":"` + id + `"}`
	for name, tt := range map[string]struct {
		input, want string
	}{
		"a message":            {`[` + before + `,` + rendered + `,` + after + `]`, `[` + before + `,` + after + `]`},
		"a reference to it":    {`[` + reference + `, ` + after + `]`, `[` + after + `]`},
		"nothing of the kind":  {`[` + before + ` ,` + after + `]`, `[` + before + ` ,` + after + `]`},
		"not an item's own id": {`[{"role":"user","content":[{"type":"input_text","text":"x","id":"` + id + `"}]}]`, `[{"role":"user","content":[{"type":"input_text","text":"x","id":"` + id + `"}]}]`},
		"plain text":           {`"hi"`, `"hi"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := make(chan *responses.Request, 1)
			e := newRig(openFunc(func(_ context.Context, turn *upstream.Turn) (*upstream.Stream, error) {
				got <- turn.Request
				return nil, responses.Errorf(responses.CodeUpstream, "Enough.")
			}), memstore.NewWindow(nil), nil)
			want := request(t, `{"model":"m","input":`+tt.want+`,"seed":1}`)
			asked := request(t, `{"model":"m","input":`+tt.input+`,"seed":1}`)
			run, err := e.Start(t.Context(), &engine.Job{Owner: "o", Request: asked})
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, e, run)
			seen := <-got
			if diff := cmp.Diff(string(want.Raw), string(seen.Raw)); diff != "" {
				t.Errorf("the body (-want +got):\n%s", diff)
			}
			if g, w := len(seen.Input.Items), len(want.Input.Items); g != w {
				t.Errorf("%d items, want %d", g, w)
			}
		})
	}
}
