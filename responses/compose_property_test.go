package responses_test

import (
	"encoding/json/jsontext"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/antiphon-dev/antiphon/responses"
)

// said is what was put into a composer, by kind.
type said struct{ text, refusal, reasoning string }

// TestComposerProperty: any sequence of calls gives a legal turn whose deltas,
// and whose items, say what was put in.
func TestComposerProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := newComposer()
		want := said{}
		arguments := map[string]string{}
		events := drive(t, c, &want, arguments)
		checkTurn(t, events)

		deltas, items := said{}, said{}
		calls := map[string]string{}
		ids := map[string]string{} // item id → call id
		for _, ev := range events {
			switch ev.Type {
			case responses.EventTextDelta:
				deltas.text += ev.Text
			case responses.EventRefusalDelta:
				deltas.refusal += ev.Text
			case responses.EventSummaryDelta:
				deltas.reasoning += ev.Text
			case responses.EventItemAdded:
				ids[ev.Item.ItemID()] = callID(ev.Item)
			case responses.EventArgumentsDelta, responses.EventCustomInputDelta:
				calls[ids[ev.ItemID]] += ev.Text
			case responses.EventItemDone:
				items.add(ev.Item)
			}
		}
		if deltas != want || items != want {
			t.Fatalf("put in %+v\ndeltas %+v\nitems %+v", want, deltas, items)
		}
		for id, args := range arguments {
			if calls[id] != args {
				t.Fatalf("call %s: put in %q, deltas say %q", id, args, calls[id])
			}
		}
	})
}

func (s *said) add(it responses.Item) {
	switch it := it.(type) {
	case *responses.Reasoning:
		s.reasoning += responses.TextOf(it.Summary)
	case *responses.Message:
		for _, p := range it.Content.Parts {
			if r, ok := p.(*responses.Refusal); ok {
				s.refusal += r.Refusal
			} else {
				s.text += responses.TextOf([]responses.Part{p})
			}
		}
	}
}

func callID(it responses.Item) string {
	switch it := it.(type) {
	case *responses.FunctionCall:
		return it.CallID
	case *responses.CustomToolCall:
		return it.CallID
	}
	return ""
}

// drive makes random calls of c, takes the events now and then, and ends it.
func drive(t *rapid.T, c *responses.Composer, want *said, arguments map[string]string) []responses.Event {
	var events []responses.Event
	var calls []*responses.ComposedCall
	for range rapid.IntRange(0, 40).Draw(t, "steps") {
		s := rapid.String().Draw(t, "s")
		switch rapid.IntRange(0, 14).Draw(t, "do") {
		case 0:
			c.Text(s, nil)
			want.text += s
		case 1:
			c.Reasoning(s)
			want.reasoning += s
		case 2:
			c.Refusal(s)
			want.refusal += s
		case 3:
			c.Annotate(jsontext.Value(`{"type":"url_citation","url":"u","title":"t","start_index":0,"end_index":1}`))
		case 4:
			calls = append(calls, c.FunctionCall(fmt.Sprintf("call_%d", len(calls)), "f"))
		case 5:
			calls = append(calls, c.CustomToolCall(fmt.Sprintf("call_%d", len(calls)), "g", func(a string) string { return a }))
		case 6:
			calls = append(calls, nil) // a search has no deltas, so it is not followed
			c.Call(fmt.Sprintf("call_%d", len(calls)-1), responses.Callee{Kind: responses.TypeToolSearchCall}, nil).Arguments(s)
		case 7:
			if i := rapid.IntRange(0, len(calls)).Draw(t, "call"); i < len(calls) && calls[i] != nil {
				calls[i].Arguments(s)
				arguments[fmt.Sprintf("call_%d", i)] += s
			}
		case 8:
			events = append(events, c.Take()...)
		case 9:
			c.Name(rapid.SampledFrom([]string{"", "msg_a", "rs_a", "fc_a", "not an id"}).Draw(t, "id"))
		case 10:
			c.Begin(rapid.SampledFrom([]string{responses.TypeMessage, responses.TypeReasoning}).Draw(t, "begin"))
		case 11:
			c.NextPart()
		case 12:
			c.Finish(nil)
		case 13:
			c.Whole(&responses.UnknownItem{Name: "web_search_call", ID: "ws_1", Raw: jsontext.Value(`{"type":"web_search_call","id":"ws_1"}`)})
		case 14:
			if i := rapid.IntRange(0, len(calls)).Draw(t, "finish"); i < len(calls) && calls[i] != nil {
				calls[i].Finish()
				calls[i] = nil
			}
		}
	}
	status := rapid.SampledFrom([]responses.Status{responses.StatusCompleted, responses.StatusIncomplete}).Draw(t, "status")
	c.End(&responses.TurnEnd{Status: status})
	return append(events, c.Take()...)
}
