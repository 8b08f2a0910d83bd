package native

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/antiphon-dev/antiphon/internal/sse"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream/upstreamtest"
)

// counter makes ids that are the same in every run.
func counter() func(string) string {
	n := 0
	return func(prefix string) string {
		n++
		return fmt.Sprintf("%snew%d", prefix, n)
	}
}

// FuzzDecode: whatever an upstream sends, the decoder does not panic, and what
// it yields is legal and can be encoded.
func FuzzDecode(f *testing.F) {
	goldens, err := upstreamtest.Load("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, g := range goldens {
		f.Add(g.Body, g.Streamed)
	}
	f.Fuzz(func(t *testing.T, body []byte, streamed bool) {
		d := newDecoder(counter())
		c := &checker{t: t, grammar: responses.NewTurnGrammar()}
		if !streamed {
			err := d.Whole(body)
			c.take(d)
			c.settled(d, err)
			return
		}
		for frame, err := range sse.Read(bytes.NewReader(body), nil) {
			if err != nil {
				return
			}
			err = d.Push(frame.Data)
			c.take(d)
			if c.settled(d, err) {
				return
			}
		}
		if d.End(nil) == nil {
			t.Error("the end of the events is no failure")
		}
	})
}

// checker holds what a decoder yields to the grammar and to the encoder.
type checker struct {
	t interface {
		Fatalf(format string, args ...any)
	}
	grammar *responses.Grammar
}

func (c *checker) take(d *decoder) {
	for _, ev := range d.Take() {
		if err := c.grammar.Check(&ev); err != nil {
			c.t.Fatalf("%s: %v", ev.Type, err)
		}
		if ev.Type == responses.EventTurnEnd {
			continue
		}
		line, err := responses.AppendEvent(nil, &ev)
		if err != nil {
			c.t.Fatalf("%s: %v", ev.Type, err)
		}
		again, err := responses.DecodeEvent(line)
		if err != nil {
			c.t.Fatalf("%s is encoded as %s: %v", ev.Type, line, err)
		}
		hasIndex := !strings.Contains(string(ev.Type), "_call_")
		if acted(ev.Type) && (again.OutputIndex != ev.OutputIndex || hasIndex && again.Index != ev.Index || again.Text != ev.Text) {
			c.t.Fatalf("%s at %d.%d with %q is encoded as %s", ev.Type, ev.OutputIndex, ev.Index, ev.Text, line)
		}
		if acted(ev.Type) && ev.Item == nil && again.ItemID != ev.ItemID {
			c.t.Fatalf("%s of %s is encoded as %s", ev.Type, ev.ItemID, line)
		}
	}
}

// acted reports whether events of the type are ones that the decoder acts on.
func acted(typ responses.EventType) bool {
	switch typ {
	case responses.EventItemAdded, responses.EventItemDone, responses.EventPartAdded, responses.EventPartDone,
		responses.EventSummaryPartAdded, responses.EventSummaryPartDone, responses.EventAnnotationAdded:
		return true
	}
	return deltaKinds[typ] != nil || doneKinds[typ] != nil
}

// settled reports whether the turn is over, and checks that it is for a reason.
func (c *checker) settled(d *decoder, err error) bool {
	if d.Ended() != c.grammar.Ended() {
		c.t.Fatalf("the decoder has ended: %t, the turn: %t", d.Ended(), c.grammar.Ended())
	}
	if d.Ended() && err != nil {
		c.t.Fatalf("the turn has ended and failed: %v", err)
	}
	return d.Ended() || err != nil
}

// TestLegalStreamIsKept: a stream that is legal comes out as it went in, byte
// for byte but for the sequence numbers.
func TestLegalStreamIsKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := legalStream(t)
		d := newDecoder(func(string) string { t.Fatal("an id was made up"); return "" })
		var got []string
		for i, line := range append(want, `{"type":"response.completed","response":{"status":"completed"}}`) {
			numbered, err := responses.SetMembers(jsontext.Value(line), responses.Member{Name: "sequence_number", Value: number(i)})
			if err == nil {
				err = d.Push(numbered)
			}
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			for _, ev := range d.Take() {
				if ev.Type == responses.EventTurnEnd {
					continue
				}
				ev.Seq = 0
				line, err := responses.AppendEvent(nil, &ev)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(line))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-upstream +turn):\n%s", diff)
		}
	})
}

// legalStream draws the events of a turn, encoded.
func legalStream(t *rapid.T) []string {
	c := responses.NewComposer(1, time.Now)
	var lines []string
	take := func() {
		for _, ev := range c.Take() {
			if ev.Type == responses.EventTurnEnd {
				continue
			}
			line, err := responses.AppendEvent(nil, &ev)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, string(line))
		}
	}
	var calls []*responses.ComposedCall
	for range rapid.IntRange(1, 20).Draw(t, "steps") {
		text := rapid.StringN(1, 8, -1).Draw(t, "text")
		switch rapid.IntRange(0, 6).Draw(t, "step") {
		case 0, 1:
			c.Text(text, nil)
		case 2:
			c.Reasoning(text)
		case 3:
			c.Refusal(text)
		case 4:
			calls = append(calls, c.FunctionCall("call_"+fmt.Sprint(len(calls)), "f"))
		case 5:
			calls = append(calls, c.CustomToolCall("call_"+fmt.Sprint(len(calls)), "f", strings.ToUpper))
		case 6:
			if len(calls) > 0 {
				rapid.SampledFrom(calls).Draw(t, "call").Arguments(text)
			}
		}
		take()
	}
	c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
	take()
	return lines
}

func TestDecoderIsBounded(t *testing.T) {
	t.Parallel()
	item := func(n int) string {
		return fmt.Sprintf(`{"type":"response.output_item.%%s","output_index":%d,"item":{"type":"message","id":"msg_%d","role":"assistant","content":[]}}`, n, n)
	}
	tests := []struct {
		name  string
		limit int
		push  func(n int) []string // the events that add one thing
	}{
		{"open items", maxOpen, func(n int) []string { return []string{fmt.Sprintf(item(n), "added")} }},
		{"items", maxItems, func(n int) []string { return []string{fmt.Sprintf(item(n), "added"), fmt.Sprintf(item(n), "done")} }},
		{"items from nowhere", maxOpen, func(n int) []string {
			return []string{fmt.Sprintf(`{"type":"response.function_call_arguments.delta","item_id":"fc_%d","output_index":%d,"delta":"x"}`, n, n)}
		}},
		{"parts", maxParts, func(n int) []string {
			return []string{fmt.Sprintf(`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":%d,"delta":"x"}`, n)}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := newDecoder(counter())
			for n := range tt.limit + 2 {
				for _, ev := range tt.push(n) {
					err := d.Push([]byte(ev))
					d.Take()
					if err != nil {
						if n < tt.limit {
							t.Fatalf("event %d of %d: %v", n, tt.limit, err)
						}
						return
					}
				}
			}
			t.Errorf("%d are taken, want at most %d", tt.limit+2, tt.limit)
		})
	}
}

func TestSkipMalformed(t *testing.T) {
	t.Parallel()
	d := newDecoder(counter())
	d.skipMalformed = true
	var types []responses.EventType
	for _, frame := range []string{
		`<html>`,
		`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":7}`,
		`{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"Hi"}`,
		`{"type":"response.completed"}`,
	} {
		if err := d.Push([]byte(frame)); err != nil {
			t.Fatalf("%s: %v", frame, err)
		}
		for _, ev := range d.Take() {
			types = append(types, ev.Type)
		}
	}
	want := []responses.EventType{
		responses.EventItemAdded, responses.EventPartAdded, responses.EventTextDelta,
		responses.EventTextDone, responses.EventPartDone, responses.EventItemDone, responses.EventTurnEnd,
	}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestUpstreamResponse: what the upstream's response object says beyond what we
// own is handed on; its items are not, they are in the events.
func TestUpstreamResponse(t *testing.T) {
	t.Parallel()
	d := newDecoder(counter())
	err := d.Push([]byte(`{"type":"response.completed","response":{"id":"resp_up","status":"completed","service_tier":"flex","temperature":0.5,` +
		`"output":[{"type":"message","id":"msg_1","role":"assistant","content":[]}],"created_at":1.5,"moderation":{"x":1}}}`))
	if err != nil {
		t.Fatal(err)
	}
	events := d.Take()
	up := events[len(events)-1].End.Upstream
	if up.ServiceTier != "flex" || up.Temperature != 0.5 || up.Output != nil {
		t.Errorf("service tier %q, temperature %v, output %v; want flex, 0.5, none", up.ServiceTier, up.Temperature, up.Output)
	}
	var extra map[string]any
	if err := json.Unmarshal(up.Extra, &extra); err != nil || extra["moderation"] == nil {
		t.Errorf("unknown members are %s (%v), want moderation", up.Extra, err)
	}
}

// BenchmarkDelta is the path of every token.
func BenchmarkDelta(b *testing.B) {
	d := newDecoder(counter())
	frame := []byte(`{"type":"response.output_text.delta","sequence_number":7,"item_id":"msg_1","output_index":0,"content_index":0,"delta":" token","logprobs":[],"obfuscation":"abcdefgh"}`)
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Push(frame); err != nil {
			b.Fatal(err)
		}
		if d.Take(); len(d.items[0].part.text) > 1<<20 {
			d.items[0].part.text = d.items[0].part.text[:0]
		}
	}
}

func TestRecentForgets(t *testing.T) {
	t.Parallel()
	r := newRecent[int, string](2)
	r.put(1, "one")
	r.put(2, "two")
	r.put(1, "uno")
	r.get(2)
	r.put(3, "three") // 1 was not used for the longest time
	var kept []string
	for key := range 4 {
		if v, ok := r.get(key); ok {
			kept = append(kept, v)
		}
	}
	if want := []string{"two", "three"}; !slices.Equal(kept, want) {
		t.Errorf("kept %q, want %q", kept, want)
	}
}

// TestAnyOrderIsLegal draws events in any order, with ids, indexes and payloads
// from a few values so that they collide. The fuzzer, which changes bytes, seldom
// gets that far.
func TestAnyOrderIsLegal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d := newDecoder(counter())
		d.remember = func(publicID, upstreamID, encrypted string) {
			if publicID == upstreamID || upstreamID == "" || encrypted == "" {
				rt.Fatalf("remembers %q as %q beside %q", publicID, upstreamID, encrypted)
			}
		}
		c := &checker{t: rt, grammar: responses.NewTurnGrammar()}
		for range rapid.IntRange(1, 30).Draw(rt, "events") {
			frame := anyEvent(rt)
			rt.Log(string(frame))
			err := d.Push(frame)
			c.take(d)
			if c.settled(d, err) {
				return
			}
		}
		end := fmt.Sprintf(`{"type":"response.%s","response":{"output":[%s]}}`, rapid.SampledFrom([]string{"completed", "incomplete"}).Draw(rt, "end"), anyItem(rt))
		err := d.Push([]byte(end))
		c.take(d)
		if !c.settled(d, err) {
			rt.Fatal("neither an end nor a failure")
		}
	})
}

// anyEvent draws an event about the output.
func anyEvent(t *rapid.T) []byte {
	pick := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label) }
	typ := pick("type",
		"output_item.added", "output_item.added", "output_item.done", "content_part.added", "content_part.done",
		"output_text.delta", "output_text.delta", "output_text.done", "output_text.annotation.added", "refusal.delta", "refusal.done",
		"reasoning_text.delta", "reasoning.done", "reasoning_summary_part.added", "reasoning_summary_part.done",
		"reasoning_summary_text.delta", "reasoning_summary_text.done", "function_call_arguments.delta",
		"function_call_arguments.done", "custom_tool_call_input.delta", "custom_tool_call_input.done", "acme.unknown")
	ev := fmt.Sprintf(`{"type":"response.%s"`, typ)
	ev += pick("output_index", "", `,"output_index":0`, `,"output_index":1`, `,"output_index":5`)
	ev += pick("item_id", "", `,"item_id":"msg_1"`, `,"item_id":"fc_1"`, `,"item_id":"x"`)
	ev += pick("content_index", "", `,"content_index":0`, `,"content_index":1`, `,"content_index":3`)
	ev += pick("summary_index", "", `,"summary_index":0`, `,"summary_index":2`)
	text := pick("text", `""`, `"a"`, `"ab"`)
	switch {
	case strings.HasPrefix(typ, "output_item"):
		ev += `,"item":` + anyItem(t)
	case strings.Contains(typ, "part"):
		ev += `,"part":` + anyPart(t)
	default:
		ev += fmt.Sprintf(`,"delta":%s,"text":%s,"refusal":%s,"arguments":%s,"input":%s`, text, text, text, text, text)
	}
	return []byte(ev + "}")
}

func anyItem(t *rapid.T) string {
	return rapid.SampledFrom([]string{
		`{"type":"message","id":"msg_1","role":"assistant","content":[]}`,
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ab"},{"type":"acme:part"}]}`,
		`{"type":"message","id":"msg_2","status":"incomplete","role":"assistant","content":[{"type":"refusal","refusal":"a"}]}`,
		`{"type":"message","id":"msg_1","status":"incomplete","role":"assistant","content":"plain"}`,
		`{"type":"function_call","id":"fc_1","call_id":"call_1","name":"f","arguments":""}`,
		`{"type":"function_call","id":"x","call_id":"","name":"f","arguments":{"a":1}}`,
		`{"type":"custom_tool_call","id":"x","call_id":"call_1","name":"f","input":"ab","status":"incomplete"}`,
		`{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"a"}],"encrypted_content":"sealed"}`,
		`{"type":"reasoning","id":"x","summary":[],"content":[{"type":"reasoning_text","text":"ab"}],"encrypted_content":"sealed"}`,
		`{"type":"acme:item","id":"a 1","status":"incomplete","encrypted_content":"sealed"}`,
		`{"type":"acme:item"}`,
		`{"type":"tool_search_call","id":"tsc_1","status":"incomplete","arguments":{}}`,
		`{"type":"function_call_output","id":"fco_1","call_id":"call_1","status":"incomplete","output":"x"}`,
	}).Draw(t, "item")
}

func anyPart(t *rapid.T) string {
	return rapid.SampledFrom([]string{
		`{"type":"output_text","text":""}`, `{"type":"output_text","text":"ab","annotations":[]}`,
		`{"type":"refusal","refusal":"a"}`, `{"type":"summary_text","text":"a"}`,
		`{"type":"reasoning_text","text":""}`, `{"type":"acme:part","x":1}`, `{"text":"a"}`,
	}).Draw(t, "part")
}
