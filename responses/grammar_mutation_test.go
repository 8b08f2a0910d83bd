package responses_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/responses"
)

// A mutation breaks the event at i of a legal stream. It returns nil where there
// is nothing to break.
type mutation struct {
	name string
	// want is a word of the reason; several, separated by |, if it depends on
	// the event which rule is hit first.
	want  string
	apply func(events []responses.Event, i int) []responses.Event
}

// at returns a copy of events with a changed event at i.
func at(events []responses.Event, i int, change func(ev *responses.Event)) []responses.Event {
	out := slices.Clone(events)
	change(&out[i])
	return out
}

func without(events []responses.Event, i int) []responses.Event {
	return slices.Concat(events[:i], events[i+1:])
}

func isDelta(t responses.EventType) bool { return strings.HasSuffix(string(t), ".delta") }

var mutations = []mutation{
	{"drop, numbers as they were", "sequence_number|no terminal event", func(events []responses.Event, i int) []responses.Event {
		return without(events, i)
	}},
	{"drop, numbered again", "before response.in_progress|not legal here|was not added|no open part|is still open|are still open|no done event|not what|no terminal event|output_index is|_index is", func(events []responses.Event, i int) []responses.Event {
		if optional(events, i) {
			return nil
		}
		return numbered(without(events, i)...)
	}},
	{"twice", "not legal here|output_index is|already done|still open|no open part|after the|not what|_index is", func(events []responses.Event, i int) []responses.Event {
		if events[i].Type == responses.EventAnnotationAdded {
			return nil // the same annotation twice is odd, but each is legal
		}
		return numbered(slices.Insert(slices.Clone(events), i, events[i])...)
	}},
	{"swapped with the next", "not legal here|before response.in_progress|was not added|output_index is|already done|no open part|still open|no done event|not what|after the", func(events []responses.Event, i int) []responses.Event {
		if i+1 == len(events) || independent(events[i], events[i+1]) {
			return nil
		}
		out := slices.Clone(events)
		out[i], out[i+1] = out[i+1], out[i]
		return numbered(out...)
	}},
	{"gap in the numbers", "sequence_number", func(events []responses.Event, i int) []responses.Event {
		return at(events, i, func(ev *responses.Event) { ev.Seq++ })
	}},
	{"another output_index", "output_index is|was not added|item_id is|already done|the item's", func(events []responses.Event, i int) []responses.Event {
		if !events[i].Type.ItemEvent() {
			return nil
		}
		return at(events, i, func(ev *responses.Event) { ev.OutputIndex++ })
	}},
	{"another part", "no open part|_index is", func(events []responses.Event, i int) []responses.Event {
		if events[i].ItemID == "" {
			return nil
		}
		return at(events, i, func(ev *responses.Event) { ev.Index++ })
	}},
	{"another item_id", "item_id is", func(events []responses.Event, i int) []responses.Event {
		if events[i].ItemID == "" {
			return nil
		}
		return at(events, i, func(ev *responses.Event) { ev.ItemID += "x" })
	}},
	{"another id of the item", "item_id is|the item's id", func(events []responses.Event, i int) []responses.Event {
		if events[i].Item == nil {
			return nil
		}
		return at(events, i, func(ev *responses.Event) { ev.Item = responses.WithItemID(ev.Item, "msg_other") })
	}},
	{"no id of the item", "no id|the item's id", func(events []responses.Event, i int) []responses.Event {
		if events[i].Item == nil {
			return nil
		}
		return at(events, i, func(ev *responses.Event) { ev.Item = responses.WithItemID(ev.Item, "") })
	}},
	{"another id of the response", "response's id", func(events []responses.Event, i int) []responses.Event {
		if events[i].Response == nil {
			return nil
		}
		return at(events, i, func(ev *responses.Event) { r := *ev.Response; r.ID += "x"; ev.Response = &r })
	}},
	{"another text", "not what", func(events []responses.Event, i int) []responses.Event {
		if events[i].Text == "" {
			return nil
		}
		return at(events, i, func(ev *responses.Event) { ev.Text = "?" + ev.Text[1:] })
	}},
	{"another text of the part", "not what", func(events []responses.Event, i int) []responses.Event {
		if !strings.HasSuffix(string(events[i].Type), "part.done") {
			return nil
		}
		return at(events, i, func(ev *responses.Event) { ev.Part = withOtherText(ev.Part) })
	}},
	{"another text of the item", "not what", func(events []responses.Event, i int) []responses.Event {
		if events[i].Type != responses.EventItemDone {
			return nil
		}
		return at(events, i, func(ev *responses.Event) { ev.Item = withOtherContent(ev.Item) })
	}},
	{"another kind of part", "no open part|part's type", func(events []responses.Event, i int) []responses.Event {
		if events[i].Part == nil {
			return nil
		}
		return at(events, i, func(ev *responses.Event) {
			ev.Part = &responses.InputText{Text: responses.TextOf([]responses.Part{ev.Part})}
		})
	}},
	{"another kind of item", "item's type|belongs to|has no parts", func(events []responses.Event, i int) []responses.Event {
		if events[i].Item == nil {
			return nil
		}
		return at(events, i, func(ev *responses.Event) { ev.Item = &responses.Compaction{ID: ev.Item.ItemID()} })
	}},
	{"without its payload", "in it", func(events []responses.Event, i int) []responses.Event {
		if events[i].Item == nil && events[i].Part == nil && events[i].Response == nil {
			return nil
		}
		return at(events, i, func(ev *responses.Event) { ev.Item, ev.Part, ev.Response = nil, nil, nil })
	}},
	{"an event after the end", "after the terminal event", func(events []responses.Event, i int) []responses.Event {
		return append(slices.Clone(events), numberedFrom(len(events), events[i]))
	}},
	{"an error and then more", "not legal here|after an error", func(events []responses.Event, i int) []responses.Event {
		if i < 2 {
			return nil
		}
		return numbered(slices.Insert(slices.Clone(events), i, responses.Event{Type: responses.EventError, Err: &responses.ErrorBody{}})...)
	}},
	{"the end of a turn within", "turn's end", func(events []responses.Event, i int) []responses.Event {
		end := responses.Event{Type: responses.EventTurnEnd, End: &responses.TurnEnd{Status: responses.StatusCompleted}}
		return numbered(slices.Insert(slices.Clone(events), i, end)...)
	}},
	{"cut short", "no terminal event", func(events []responses.Event, i int) []responses.Event {
		return events[:i]
	}},
	{"incomplete, and not the last", "incomplete", func(events []responses.Event, i int) []responses.Event {
		return at(events, i, func(ev *responses.Event) { ev.Item = withStatus(ev.Item, responses.StatusIncomplete) })
	}},
}

// independent reports whether two neighbours may come in either order: events of
// different items, and an annotation beside a delta.
func independent(a, b responses.Event) bool {
	if a.Type == responses.EventAnnotationAdded || b.Type == responses.EventAnnotationAdded {
		return isDelta(a.Type) || isDelta(b.Type)
	}
	bothAdded := a.Type == responses.EventItemAdded && b.Type == responses.EventItemAdded
	return a.Type.ItemEvent() && b.Type.ItemEvent() && !bothAdded && a.OutputIndex != b.OutputIndex
}

// optional reports whether nothing depends on an event: an annotation, the only
// delta of a text, and the done event of a text without deltas.
func optional(events []responses.Event, i int) bool {
	ev := events[i]
	deltas := 0
	for _, e := range events {
		if isDelta(e.Type) && e.ItemID == ev.ItemID && e.Index == ev.Index {
			deltas++
		}
	}
	return ev.Type == responses.EventAnnotationAdded ||
		isDelta(ev.Type) && deltas == 1 ||
		strings.HasSuffix(string(ev.Type), "text.done") && deltas == 0
}

func numberedFrom(seq int, ev responses.Event) responses.Event {
	ev.Seq = int64(seq)
	return ev
}

func withOtherText(p responses.Part) responses.Part {
	switch p := p.(type) {
	case *responses.OutputText:
		return &responses.OutputText{Text: p.Text + "?"}
	case *responses.Refusal:
		return &responses.Refusal{Refusal: p.Refusal + "?"}
	case *responses.SummaryText:
		return &responses.SummaryText{Text: p.Text + "?"}
	default:
		return &responses.ReasoningText{Text: responses.TextOf([]responses.Part{p}) + "?"}
	}
}

func withOtherContent(it responses.Item) responses.Item {
	other := func(parts []responses.Part) []responses.Part {
		out := slices.Clone(parts)
		for i := range out {
			out[i] = withOtherText(out[i])
		}
		return out
	}
	switch it := it.(type) {
	case *responses.Message:
		c := *it
		c.Content.Parts = other(c.Content.Parts)
		return &c
	case *responses.Reasoning:
		c := *it
		c.Summary, c.Content = other(c.Summary), other(c.Content)
		return &c
	case *responses.FunctionCall:
		c := *it
		c.Arguments += " "
		return &c
	case *responses.CustomToolCall:
		c := *it
		c.Input += " "
		return &c
	}
	return it
}

func withStatus(it responses.Item, s responses.Status) responses.Item {
	switch it := it.(type) {
	case *responses.Message:
		c := *it
		c.Status = s
		return &c
	case *responses.Reasoning:
		c := *it
		c.Status = s
		return &c
	case *responses.FunctionCall:
		c := *it
		c.Status = s
		return &c
	case *responses.CustomToolCall:
		c := *it
		c.Status = s
		return &c
	}
	return it
}

// TestIllegalStreams applies every mutation to every event of every legal stream
// and wants each of them refused, for the right reason.
func TestIllegalStreams(t *testing.T) {
	t.Parallel()
	tried := map[string]int{}
	for _, s := range legalStreams(t) {
		for _, m := range mutations {
			for i := range s.events {
				if m.name == "incomplete, and not the last" && !notLast(s.events, i) {
					continue
				}
				broken := m.apply(s.events, i)
				if broken == nil {
					continue
				}
				tried[m.name]++
				if err := responses.CheckSequence(broken); !hasWord(err, m.want) {
					t.Errorf("%s, event %d (%s), %s: got %v, want %q", s.name, i, s.events[i].Type, m.name, err, m.want)
				}
			}
		}
	}
	for _, m := range mutations {
		if tried[m.name] == 0 {
			t.Errorf("%s: no stream has an event for it", m.name)
		}
	}
}

// notLast selects the done events of items that others follow, and those of
// items in a response that is complete.
func notLast(events []responses.Event, i int) bool {
	last := events[len(events)-1]
	return events[i].Type == responses.EventItemDone &&
		(last.Type == responses.EventCompleted || events[i].OutputIndex < len(last.Response.Output)-1)
}

func hasWord(err error, words string) bool {
	if err == nil {
		return false
	}
	for w := range strings.SplitSeq(words, "|") {
		if strings.Contains(err.Error(), w) {
			return true
		}
	}
	return false
}
