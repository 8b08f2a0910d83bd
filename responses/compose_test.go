package responses_test

import (
	"encoding/json/jsontext"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/antiphon-dev/antiphon/responses"
)

func newComposer() *responses.Composer {
	return responses.NewComposer(7, func() time.Time { return time.Unix(1700000000, 0) })
}

// checkTurn fails t unless events are a whole turn by the grammar.
func checkTurn(t rapid.TB, events []responses.Event) {
	t.Helper()
	g := responses.NewTurnGrammar()
	for i := range events {
		if err := g.Check(&events[i]); err != nil {
			t.Fatalf("event %d (%s): %v", i, events[i].Type, err)
		}
	}
	if !g.Ended() {
		t.Fatalf("the turn has no end")
	}
}

// outline writes events as one word each: what happened to which item.
func outline(events []responses.Event) string {
	var words []string
	for _, ev := range events {
		word := strings.TrimPrefix(string(ev.Type), "response.")
		if ev.Type != responses.EventTurnEnd {
			word = fmt.Sprintf("%d:%s", ev.OutputIndex, word)
		}
		if ev.Item != nil {
			word += "(" + ev.Item.Type() + " " + string(responses.ItemStatus(ev.Item)) + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, "\n")
}

func TestComposerOrder(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		status responses.Status
		do     func(c *responses.Composer)
		want   string
	}{
		{"nothing", responses.StatusCompleted, func(*responses.Composer) {}, `
0:output_item.added(message in_progress)
0:content_part.added
0:output_text.done
0:content_part.done
0:output_item.done(message completed)
antiphon:turn_end`},
		{"nothing, incomplete", responses.StatusIncomplete, func(*responses.Composer) {}, `
0:output_item.added(message in_progress)
0:content_part.added
0:output_text.done
0:content_part.done
0:output_item.done(message incomplete)
antiphon:turn_end`},
		{"empty deltas", responses.StatusCompleted, func(c *responses.Composer) {
			c.Reasoning("")
			c.Refusal("")
			c.Text("", nil)
			c.Text("x", nil)
		}, `
0:output_item.added(message in_progress)
0:content_part.added
0:output_text.delta
0:output_text.done
0:content_part.done
0:output_item.done(message completed)
antiphon:turn_end`},
		{"reasoning, then text", responses.StatusIncomplete, func(c *responses.Composer) {
			c.Reasoning("a")
			c.Text("b", nil)
		}, `
0:output_item.added(reasoning in_progress)
0:reasoning_summary_part.added
0:reasoning_summary_text.delta
0:reasoning_summary_text.done
0:reasoning_summary_part.done
0:output_item.done(reasoning completed)
1:output_item.added(message in_progress)
1:content_part.added
1:output_text.delta
1:output_text.done
1:content_part.done
1:output_item.done(message incomplete)
antiphon:turn_end`},
		{"calls side by side, then text", responses.StatusIncomplete, func(c *responses.Composer) {
			a, b := c.FunctionCall("call_a", "f"), c.CustomToolCall("call_b", "g", strings.ToUpper)
			b.Arguments("x")
			a.Arguments("y")
			c.Text("z", nil)
			a.Arguments("w")
		}, `
0:output_item.added(function_call in_progress)
1:output_item.added(custom_tool_call in_progress)
0:function_call_arguments.delta
2:output_item.added(message in_progress)
2:content_part.added
2:output_text.delta
0:function_call_arguments.delta
0:function_call_arguments.done
0:output_item.done(function_call completed)
1:custom_tool_call_input.delta
1:custom_tool_call_input.done
1:output_item.done(custom_tool_call completed)
2:output_text.done
2:content_part.done
2:output_item.done(message incomplete)
antiphon:turn_end`},
		{"a call without arguments", responses.StatusIncomplete, func(c *responses.Composer) { c.FunctionCall("", "f") }, `
0:output_item.added(function_call in_progress)
0:function_call_arguments.done
0:output_item.done(function_call incomplete)
antiphon:turn_end`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newComposer()
			tt.do(c)
			end := &responses.TurnEnd{Status: tt.status, Reason: "r"}
			c.End(end)
			events := c.Take()
			checkTurn(t, events)
			if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), outline(events)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := events[len(events)-1].End; got != end {
				t.Errorf("the turn's end is %+v, want what was given", got)
			}
		})
	}
}

// TestComposerIDs: ids of ours in the composer's shard; a usable call id is the
// upstream's own (R17).
func TestComposerIDs(t *testing.T) {
	t.Parallel()
	c := newComposer()
	c.Reasoning("a")
	c.Text("b", nil)
	c.CustomToolCall("call_1", "g", strings.ToUpper)
	for _, callID := range []string{"call_1", "", "not usable", strings.Repeat("x", 65)} {
		c.FunctionCall(callID, "f")
	}
	c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
	seen := map[string]bool{}
	for _, ev := range c.Take() {
		if ev.Type != responses.EventItemAdded {
			continue
		}
		id := ev.Item.ItemID()
		shard, ok := responses.Shard(id)
		if !responses.ValidID(responses.ItemPrefix(ev.Item.Type()), id) || !ok || shard != 7 || seen[id] {
			t.Errorf("%s has the id %q, want a new one in shard 7", ev.Item.Type(), id)
		}
		seen[id] = true
		if call, ok := ev.Item.(*responses.FunctionCall); ok && call.CallID != "call_1" {
			if !responses.ValidID(responses.PrefixCall, call.CallID) || seen[call.CallID] {
				t.Errorf("call id %q, want a new one", call.CallID)
			}
			seen[call.CallID] = true
		}
	}
}

// TestComposerAfterTheEnd: whatever the order of the calls, what comes out is
// one legal turn.
func TestComposerAfterTheEnd(t *testing.T) {
	t.Parallel()
	c := newComposer()
	call := c.FunctionCall("call_1", "f")
	c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
	events := slices.Clone(c.Take())
	call.Arguments("late")
	c.Text("late", nil)
	c.Annotate(jsontext.Value(`{}`))
	c.FunctionCall("call_2", "f").Arguments("late")
	c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
	checkTurn(t, append(events, c.Take()...))
}

// TestComposerMakesValidUTF8: a driver may hand over half a character. It must
// not make an event that cannot be encoded, and deltas and done must agree.
func TestComposerMakesValidUTF8(t *testing.T) {
	t.Parallel()
	c := newComposer()
	c.Text("caf\xc3", nil)
	c.Text("\xa9", nil)
	c.Reasoning("\xff")
	c.Refusal("\xff")
	c.FunctionCall("call_1", "f\xff").Arguments("\xff")
	c.CustomToolCall("call_2", "g", func(string) string { return "\xff" })
	c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
	events := c.Take()
	checkTurn(t, events)
	for _, ev := range events[:len(events)-1] {
		if doc := wire(t, &ev); !utf8.Valid(doc) {
			t.Errorf("%s is not valid UTF-8: %q", ev.Type, doc)
		}
		if !utf8.ValidString(ev.Text) {
			t.Errorf("%s: the text %q is not valid UTF-8", ev.Type, ev.Text)
		}
	}
}

func TestComposerAnnotations(t *testing.T) {
	t.Parallel()
	c := newComposer()
	c.Text("a", nil)
	c.Annotate(jsontext.Value(`{"type":"url_citation","url":"u1"}`))
	c.Annotate(jsontext.Value(`{"type":"url_citation","url":"u2"}`))
	c.Refusal("no")
	c.Annotate(jsontext.Value(`{"type":"url_citation","url":"u3"}`))
	c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
	events := c.Take()
	checkTurn(t, events)
	var got []string
	for _, ev := range events {
		if ev.Type == responses.EventAnnotationAdded {
			doc := jsonValue(t, wire(t, &ev)).(map[string]any)
			got = append(got, fmt.Sprintf("%v %v %v", doc["content_index"], doc["annotation_index"], doc["annotation"].(map[string]any)["url"]))
		}
	}
	if diff := cmp.Diff([]string{"0 0 u1", "0 1 u2", "2 0 u3"}, got); diff != "" {
		t.Errorf("content_index, annotation_index, url (-want +got):\n%s", diff)
	}
	done := events[len(events)-2].Item.(*responses.Message)
	if n := len(done.Content.Parts[0].(*responses.OutputText).Annotations); n != 2 {
		t.Errorf("the first part has %d annotations, want 2", n)
	}
}

// TestComposerLogprobs: they are in the delta, and all of them in the done
// events. Readers require top_logprobs.
func TestComposerLogprobs(t *testing.T) {
	t.Parallel()
	given := []responses.LogProb{{Token: "a", Logprob: -1}}
	c := newComposer()
	c.Text("a", given)
	c.Text("b", []responses.LogProb{{Token: "b", TopLogprobs: []responses.LogProb{{Token: "c"}}}})
	c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
	events := c.Take()
	checkTurn(t, events)
	const a = `{"token":"a","logprob":-1,"bytes":[],"top_logprobs":[]}`
	const b = `{"token":"b","logprob":0,"bytes":[],"top_logprobs":[{"token":"c","logprob":0,"bytes":[]}]}`
	sameJSON(t, encode(t, events[2].Logprobs), []byte(`[`+a+`]`))
	sameJSON(t, encode(t, events[4].Logprobs), []byte(`[`+a+`,`+b+`]`))
	sameJSON(t, encode(t, events[5].Part.(*responses.OutputText).Logprobs), []byte(`[`+a+`,`+b+`]`))
	if given[0].TopLogprobs != nil {
		t.Error("the composer changed the driver's logprobs")
	}
}

// TestComposedCallLen: drivers bound arguments by it.
func TestComposedCallLen(t *testing.T) {
	t.Parallel()
	call := newComposer().CustomToolCall("call_1", "g", strings.ToUpper)
	call.Arguments("abc")
	call.Arguments("é")
	if got := call.Len(); got != 5 {
		t.Errorf("Len = %d, want 5", got)
	}
}

// TestComposerKnowsItems: an upstream's own ids are kept where they can be (R17),
// and what it says only at the end of an item is in the item.
func TestComposerKnowsItems(t *testing.T) {
	t.Parallel()
	c := newComposer()
	c.Name("rs_1")
	c.Begin(responses.TypeReasoning)
	c.Reasoning("first")
	c.NextPart()
	c.Reasoning("second")
	c.Finish(func(it responses.Item) { it.(*responses.Reasoning).EncryptedContent = "sealed" })
	c.Name("rs_1")
	c.Begin(responses.TypeReasoning) // the id is taken
	c.Name("fc_1")
	call := c.FunctionCall("call_1", "f")
	call.Arguments("{}")
	call.Finish()
	call.Arguments("late")
	c.Name("fc_2")
	c.Text("hi", nil) // another kind's id
	c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
	events := c.Take()
	checkTurn(t, events)
	var done []responses.Item
	for _, ev := range events {
		if ev.Type == responses.EventItemDone {
			done = append(done, ev.Item)
		}
	}
	if len(done) != 4 {
		t.Fatalf("%d items are done, want 4", len(done))
	}
	thought := done[0].(*responses.Reasoning)
	if thought.ID != "rs_1" || thought.EncryptedContent != "sealed" || len(thought.Summary) != 2 {
		t.Errorf("the reasoning is %+v", thought)
	}
	if id := done[1].ItemID(); id == "rs_1" || !responses.ValidID(responses.PrefixReasoning, id) {
		t.Errorf("the second reasoning is %q", id)
	}
	if call := done[2].(*responses.FunctionCall); call.ID != "fc_1" || call.Arguments != "{}" {
		t.Errorf("the call is %+v", call)
	}
	if id := done[3].ItemID(); !responses.ValidID(responses.PrefixMessage, id) {
		t.Errorf("the message is %q", id)
	}
}
