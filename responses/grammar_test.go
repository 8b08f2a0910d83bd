package responses_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
)

// numbered gives events the sequence numbers that they need.
func numbered(events ...responses.Event) []responses.Event {
	for i := range events {
		events[i].Seq = int64(i)
	}
	return events
}

// life wraps the events of a turn in those of a response that ends with the
// given status, as the engine does.
func life(status responses.Status, turn []responses.Event) []responses.Event {
	var fold responses.Fold
	for i := range turn {
		fold.Add(&turn[i])
	}
	first := &responses.Response{ID: "resp_1", Status: responses.StatusInProgress, CreatedAt: 1}
	last := *first
	last.Status, last.Output = status, fold.Output()
	typ := responses.EventCompleted
	switch status {
	case responses.StatusIncomplete:
		typ = responses.EventIncomplete
		last.IncompleteDetails = &responses.IncompleteDetails{Reason: responses.ReasonMaxOutputTokens}
	case responses.StatusFailed:
		typ = responses.EventFailed
		last.Error = &responses.ErrorBody{Code: responses.CodeUpstream, Message: "It broke."}
	}
	return numbered(slices.Concat(
		[]responses.Event{{Type: responses.EventCreated, Response: first}, {Type: responses.EventInProgress, Response: first}},
		turn,
		[]responses.Event{{Type: typ, Response: &last}},
	)...)
}

// compose returns the events that do makes, without the end of the turn.
func compose(status responses.Status, do func(c *responses.Composer)) []responses.Event {
	c := responses.NewComposer(0, func() time.Time { return time.Unix(1700000000, 0) })
	do(c)
	c.End(&responses.TurnEnd{Status: status})
	events := slices.Clone(c.Take())
	return events[:len(events)-1]
}

// raw is an event of an upstream, decoded.
func raw(t testing.TB, format string, args ...any) responses.Event {
	t.Helper()
	return decodeEvent(t, fmt.Sprintf(format, args...))
}

// A legalStream is the start of a mutation: a stream that the grammar accepts.
type legalStream struct {
	name   string
	events []responses.Event
}

func legalStreams(t testing.TB) []legalStream {
	t.Helper()
	completed := func(name string, do func(c *responses.Composer)) legalStream {
		return legalStream{name, life(responses.StatusCompleted, compose(responses.StatusCompleted, do))}
	}
	return []legalStream{
		completed("nothing said", func(*responses.Composer) {}),
		completed("text", func(c *responses.Composer) {
			c.Text("Hello, ", nil)
			c.Text("world", nil)
		}),
		completed("reasoning, text and a refusal", func(c *responses.Composer) {
			c.Reasoning("Let me ")
			c.Reasoning("see.")
			c.Text("Half of it.", nil)
			c.Refusal("The rest ")
			c.Refusal("I will not say.")
		}),
		completed("annotated text", func(c *responses.Composer) {
			c.Text("See there.", nil)
			c.Annotate([]byte(`{"type":"url_citation","url":"https://a.example","start_index":0,"end_index":3,"title":"a"}`))
			c.Text(" And here.", nil)
		}),
		completed("calls side by side", func(c *responses.Composer) {
			a := c.FunctionCall("call_a", "weather")
			b := c.FunctionCall("call_b", "weather")
			a.Arguments(`{"city":`)
			b.Arguments(`{"city":`)
			a.Arguments(`"Rome"}`)
			b.Arguments(`"Oslo"}`)
		}),
		completed("custom call", func(c *responses.Composer) {
			c.CustomToolCall("call_a", "patch", func(s string) string { return "in:" + s }).Arguments("x")
		}),
		{"incomplete", life(responses.StatusIncomplete, compose(responses.StatusIncomplete, func(c *responses.Composer) {
			c.Reasoning("Hm.")
			c.Text("cut o", nil)
		}))},
		{"raw reasoning of an upstream", life(responses.StatusCompleted, []responses.Event{
			raw(t, `{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}`),
			raw(t, `{"type":"response.content_part.added","output_index":0,"item_id":"rs_1","content_index":0,"part":{"type":"reasoning_text","text":""}}`),
			raw(t, `{"type":"response.reasoning_text.delta","output_index":0,"item_id":"rs_1","content_index":0,"delta":"a"}`),
			raw(t, `{"type":"response.reasoning_text.delta","output_index":0,"item_id":"rs_1","content_index":0,"delta":"b"}`),
			raw(t, `{"type":"response.reasoning_text.done","output_index":0,"item_id":"rs_1","content_index":0,"text":"ab"}`),
			raw(t, `{"type":"response.content_part.done","output_index":0,"item_id":"rs_1","content_index":0,"part":{"type":"reasoning_text","text":"ab"}}`),
			raw(t, `{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"ab"}]}}`),
		})},
	}
}

// TestLegalStreams: R13, and what clients and servers are known to do beside it.
func TestLegalStreams(t *testing.T) {
	t.Parallel()
	streams := legalStreams(t)
	lifeOf := func(name string, turn ...responses.Event) {
		streams = append(streams, legalStream{name, life(responses.StatusCompleted, turn)})
	}
	lifeOf("a hosted tool with events of its own",
		raw(t, `{"type":"response.output_item.added","output_index":0,"item":{"type":"web_search_call","id":"ws_1","status":"in_progress"}}`),
		raw(t, `{"type":"response.web_search_call.searching","output_index":0,"item_id":"ws_1"}`),
		raw(t, `{"type":"response.output_item.done","output_index":0,"item":{"type":"web_search_call","id":"ws_1","status":"completed"}}`),
	)
	lifeOf("an item without content events",
		raw(t, `{"type":"response.output_item.added","output_index":0,"item":{"type":"compaction","id":"cmp_1","encrypted_content":""}}`),
		raw(t, `{"type":"response.output_item.done","output_index":0,"item":{"type":"compaction","id":"cmp_1","encrypted_content":"x"}}`),
	)
	lifeOf("arguments only in the done event",
		raw(t, `{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"c","name":"f","arguments":""}}`),
		raw(t, `{"type":"response.function_call_arguments.done","output_index":0,"item_id":"fc_1","arguments":"{}"}`),
		raw(t, `{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"c","name":"f","arguments":"{}"}}`),
	)
	lifeOf("a part without deltas",
		raw(t, `{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}}`),
		raw(t, `{"type":"response.content_part.added","output_index":0,"item_id":"msg_1","content_index":0,"part":{"type":"output_text","text":""}}`),
		raw(t, `{"type":"response.content_part.done","output_index":0,"item_id":"msg_1","content_index":0,"part":{"type":"output_text","text":"all"}}`),
		raw(t, `{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":"all"}]}}`),
	)
	resp := func(s responses.Status) *responses.Response { return &responses.Response{ID: "resp_1", Status: s} }
	failed := resp(responses.StatusFailed)
	failed.Error = &responses.ErrorBody{Code: responses.CodeUpstream}
	created := responses.Event{Type: responses.EventCreated, Response: resp(responses.StatusInProgress)}
	inProgress := responses.Event{Type: responses.EventInProgress, Response: resp(responses.StatusInProgress)}
	streams = append(streams,
		legalStream{"background", numbered(responses.Event{Type: responses.EventCreated, Response: resp(responses.StatusQueued)},
			responses.Event{Type: responses.EventQueued, Response: resp(responses.StatusQueued)}, inProgress,
			responses.Event{Type: responses.EventCompleted, Response: resp(responses.StatusCompleted)})},
		legalStream{"failed before in_progress", numbered(created, responses.Event{Type: responses.EventFailed, Response: failed})},
		legalStream{"R14: error, then failed, with an item open", numbered(created, inProgress,
			raw(t, `{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}}`),
			responses.Event{Type: responses.EventError, Err: &responses.ErrorBody{}},
			responses.Event{Type: responses.EventFailed, Response: failed})},
	)
	for _, s := range streams {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if err := responses.CheckSequence(s.events); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestGrammarRefuses has the cases that no mutation of one event makes.
func TestGrammarRefuses(t *testing.T) {
	t.Parallel()
	resp := func(status responses.Status, change ...func(*responses.Response)) *responses.Response {
		r := &responses.Response{ID: "resp_1", Status: status}
		for _, c := range change {
			c(r)
		}
		return r
	}
	withError := func(r *responses.Response) { r.Error = &responses.ErrorBody{Code: responses.CodeServer} }
	created := responses.Event{Type: responses.EventCreated, Response: resp(responses.StatusInProgress)}
	queued := responses.Event{Type: responses.EventQueued, Response: resp(responses.StatusQueued)}
	inProgress := responses.Event{Type: responses.EventInProgress, Response: resp(responses.StatusInProgress)}
	broken := responses.Event{Type: responses.EventError, Err: &responses.ErrorBody{}}
	failed := responses.Event{Type: responses.EventFailed, Response: resp(responses.StatusFailed, withError)}
	completed := responses.Event{Type: responses.EventCompleted, Response: resp(responses.StatusCompleted)}
	message := raw(t, `{"type":"response.output_item.added","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[]}}`)
	call := raw(t, `{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"c","name":"f","arguments":""}}`)
	tests := []struct {
		name   string
		events []responses.Event
		want   string
	}{
		{"nothing", nil, "no terminal event"},
		{"queued twice", []responses.Event{created, queued, queued}, "not legal here"},
		{"queued after in_progress", []responses.Event{created, inProgress, queued}, "not legal here"},
		{"failed first", []responses.Event{failed}, "not legal here"},
		{"error first", []responses.Event{broken}, "not legal here"},
		{"error twice", []responses.Event{created, inProgress, broken, broken}, "not legal here"},
		{"R14: completed after an error", []responses.Event{created, inProgress, broken, completed}, "not legal here"},
		{"an item after an error", []responses.Event{created, inProgress, broken, message}, "after an error"},
		{"completed before in_progress", []responses.Event{created, completed}, "not legal here"},
		{"completed with another status", []responses.Event{created, inProgress, {Type: responses.EventCompleted, Response: resp(responses.StatusFailed)}}, "status"},
		{"incomplete without a reason", []responses.Event{created, inProgress, {Type: responses.EventIncomplete, Response: resp(responses.StatusIncomplete)}}, "incomplete_details"},
		{"failed with another status", []responses.Event{created, {Type: responses.EventFailed, Response: resp(responses.StatusInProgress, withError)}}, "status"},
		{"failed without an error", []responses.Event{created, {Type: responses.EventFailed, Response: resp(responses.StatusFailed)}}, "error"},
		{"an output that was not streamed", []responses.Event{created, inProgress, {Type: responses.EventCompleted, Response: resp(responses.StatusCompleted, func(r *responses.Response) {
			r.Output = []responses.Item{message.Item}
		})}}, "1 items"},
		{"an open item at the end", []responses.Event{created, inProgress, message, completed}, "still open"},
		{"R15: an unknown item that is incomplete", life(responses.StatusCompleted, []responses.Event{
			raw(t, `{"type":"response.output_item.added","output_index":0,"item":{"type":"acme:x","id":"x_1"}}`),
			raw(t, `{"type":"response.output_item.done","output_index":0,"item":{"type":"acme:x","id":"x_1","status":"incomplete"}}`),
		}), "incomplete"},
		{"arguments in a message", []responses.Event{created, inProgress, message,
			raw(t, `{"type":"response.function_call_arguments.delta","output_index":0,"item_id":"msg_1","delta":"x"}`)}, "belongs to"},
		{"custom input in a function call", []responses.Event{created, inProgress, call,
			raw(t, `{"type":"response.custom_tool_call_input.delta","output_index":0,"item_id":"fc_1","delta":"x"}`)}, "belongs to"},
		{"a part in a call", []responses.Event{created, inProgress, call,
			raw(t, `{"type":"response.content_part.added","output_index":0,"item_id":"fc_1","content_index":0,"part":{"type":"output_text","text":""}}`)}, "no parts"},
		{"a refusal in a text part", []responses.Event{created, inProgress, message,
			raw(t, `{"type":"response.content_part.added","output_index":0,"item_id":"msg_1","content_index":0,"part":{"type":"output_text","text":""}}`),
			raw(t, `{"type":"response.refusal.delta","output_index":0,"item_id":"msg_1","content_index":0,"delta":"x"}`)}, "no open part"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if err := responses.CheckSequence(numbered(slices.Clone(tt.events)...)); !hasWord(err, tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestTurnGrammar: what a driver yields has no lifecycle and no numbers, and
// ends once.
func TestTurnGrammar(t *testing.T) {
	t.Parallel()
	turn := compose(responses.StatusCompleted, func(c *responses.Composer) { c.Text("hi", nil) })
	end := func(s responses.Status) responses.Event {
		return responses.Event{Type: responses.EventTurnEnd, End: &responses.TurnEnd{Status: s}}
	}
	incomplete := compose(responses.StatusIncomplete, func(c *responses.Composer) { c.Text("hi", nil) })
	tests := []struct {
		name   string
		events []responses.Event
		want   string // "" if legal
	}{
		{"whole", append(slices.Clone(turn), end(responses.StatusCompleted)), ""},
		{"incomplete after whole items", append(slices.Clone(turn), end(responses.StatusIncomplete)), ""},
		{"no items", []responses.Event{end(responses.StatusCompleted)}, ""},
		{"incomplete item in a complete turn", append(slices.Clone(incomplete), end(responses.StatusCompleted)), "incomplete"},
		{"failed end", []responses.Event{end(responses.StatusFailed)}, "cannot end"},
		{"end without a payload", []responses.Event{{Type: responses.EventTurnEnd}}, "no payload"},
		{"end with an open item", []responses.Event{turn[0], end(responses.StatusCompleted)}, "still open"},
		{"lifecycle", []responses.Event{{Type: responses.EventCreated, Response: &responses.Response{}}}, "lifecycle"},
		{"error event", []responses.Event{{Type: responses.EventError, Err: &responses.ErrorBody{}}}, "not legal here"},
		{"after the end", []responses.Event{end(responses.StatusCompleted), turn[0]}, "after the terminal event"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := responses.NewTurnGrammar()
			var err error
			for i := range tt.events {
				if err = g.Check(&tt.events[i]); err != nil {
					break
				}
			}
			switch {
			case tt.want == "" && (err != nil || !g.Ended()):
				t.Errorf("got %v, ended %t; want it accepted", err, g.Ended())
			case tt.want != "" && !hasWord(err, tt.want):
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
