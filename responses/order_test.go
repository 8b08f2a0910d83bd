package responses_test

import (
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/responses"
)

// orderOf returns the first thing that an Order has against events, nil if there
// is nothing.
func orderOf(events []responses.Event) error {
	var o responses.Order
	for i := range events {
		if err := o.Check(events[i].Type, events[i].Seq); err != nil {
			return err
		}
	}
	return nil
}

// TestOrderIsPartOfTheGrammar: an order lets pass what the grammar does, and
// whatever it refuses of a broken stream the grammar refuses too (R13).
func TestOrderIsPartOfTheGrammar(t *testing.T) {
	t.Parallel()
	refused := 0
	for _, s := range legalStreams(t) {
		if err := orderOf(s.events); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		for _, m := range mutations {
			for i := range s.events {
				broken := m.apply(s.events, i)
				if broken == nil || orderOf(broken) == nil {
					continue
				}
				refused++
				if responses.CheckSequence(broken) == nil {
					t.Errorf("%s, %s at %d: the grammar accepts it, the order says %v", s.name, m.name, i, orderOf(broken))
				}
			}
		}
	}
	if refused < 100 {
		t.Errorf("only %d broken streams were refused", refused)
	}
}

func TestOrderRefuses(t *testing.T) {
	t.Parallel()
	const (
		begin = "response.created response.in_progress "
		item  = "response.output_item.added "
		end   = " response.completed"
	)
	for name, tt := range map[string]struct{ types, want string }{
		"no beginning":         {"response.output_text.delta", "before response.in_progress"},
		"not created":          {"response.in_progress", "not legal here"},
		"created twice":        {begin + "response.created", "not legal here"},
		"queued too late":      {begin + "response.queued", "not legal here"},
		"text without an item": {begin + "response.output_text.delta", "no item is open"},
		"done without added":   {begin + "response.output_item.done", "no item is open"},
		"an item left open":    {begin + item + "response.output_text.delta response.output_text.delta" + end, "1 items are still open"},
		"done twice":           {begin + item + "response.output_item.done response.output_item.done", "no item is open"},
		"after the end":        {begin + "response.completed response.completed", "after the terminal event"},
		"text after the end":   {begin + item + "response.output_text.delta response.failed response.output_text.delta", "after the terminal event"},
		"item after an error":  {begin + "error " + item, "after an error"},
		"error twice":          {begin + "error error", "not legal here"},
		"our own end":          {begin + "antiphon:turn_end", "not legal here"},
		"unknown before":       {"acme:new", "before response.in_progress"},
		"unknown within":       {begin + "acme:new" + end, ""},
		"failed at once":       {"response.created response.failed", ""},
		"queued":               {"response.created response.queued response.in_progress" + end, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var (
				o   responses.Order
				err error
			)
			for typ := range strings.FieldsSeq(tt.types) {
				if err != nil {
					t.Fatalf("before the last event: %v", err)
				}
				err = o.Check(responses.EventType(typ), -1)
			}
			if got := ""; err != nil {
				got = err.Error()
				if tt.want == "" || !strings.Contains(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			} else if tt.want != "" {
				t.Errorf("nothing was refused, want %q", tt.want)
			}
		})
	}
	var o responses.Order
	if err := o.Check(responses.EventCreated, 0); err != nil {
		t.Error(err)
	}
	if err := o.Check(responses.EventInProgress, 2); err == nil || err.Error() != "sequence_number is 2, not 1" {
		t.Errorf("a gap: %v", err)
	}
}
