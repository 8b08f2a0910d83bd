package responses_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/responses"
)

func textDelta() responses.Event {
	return responses.Event{
		Type: responses.EventTextDelta, Seq: 123456, OutputIndex: 1, ItemID: "msg_0190a0b0c0d070018000000000000001",
		Text: " a token or two",
	}
}

// openMessage returns a grammar in the middle of a message's text.
func openMessage(tb testing.TB) *responses.Grammar {
	tb.Helper()
	g := responses.NewTurnGrammar()
	for _, ev := range []responses.Event{
		{Type: responses.EventItemAdded, Item: &responses.Message{ID: "msg_1", Role: responses.RoleAssistant}},
		{Type: responses.EventPartAdded, ItemID: "msg_1", Part: &responses.OutputText{}},
	} {
		if err := g.Check(&ev); err != nil {
			tb.Fatal(err)
		}
	}
	return g
}

// TestDeltasCostNoMemory: the path of every token allocates nothing, so that a
// grammar is as large after a million deltas as after one.
func TestDeltasCostNoMemory(t *testing.T) {
	buf := make([]byte, 0, 4096)
	delta := textDelta()
	if n := testing.AllocsPerRun(1000, func() {
		buf, _ = responses.AppendEvent(buf[:0], &delta)
	}); n != 0 {
		t.Errorf("AppendEvent of a delta: %v allocations, want 0", n)
	}

	g := openMessage(t)
	ev := responses.Event{Type: responses.EventTextDelta, ItemID: "msg_1", Text: strings.Repeat("x", 100)}
	if n := testing.AllocsPerRun(1_000_000, func() {
		if err := g.Check(&ev); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("Grammar.Check of a delta: %v allocations, want 0", n)
	}
}

// TestClosedItemsAreForgotten: a grammar needs memory for open items only.
func TestClosedItemsAreForgotten(t *testing.T) {
	g := responses.NewTurnGrammar()
	i := 0
	item := &responses.Compaction{ID: "cmp_1", EncryptedContent: "x"}
	perItem := testing.AllocsPerRun(100_000, func() {
		for _, typ := range []responses.EventType{responses.EventItemAdded, responses.EventItemDone} {
			if err := g.Check(&responses.Event{Type: typ, OutputIndex: i, Item: item}); err != nil {
				t.Fatal(err)
			}
		}
		i++
	})
	// The item itself, and now and then a map that is made new.
	if perItem > 3 {
		t.Errorf("%v allocations for each item, want at most 3", perItem)
	}
}

func BenchmarkAppendEvent(b *testing.B) {
	delta := textDelta()
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if buf, err = responses.AppendEvent(buf[:0], &delta); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(buf)))
}

func BenchmarkDecodeEvent(b *testing.B) {
	delta := textDelta()
	doc := wire(b, &delta)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := responses.DecodeEvent(doc); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGrammarCheck(b *testing.B) {
	g := openMessage(b)
	ev := responses.Event{Type: responses.EventTextDelta, ItemID: "msg_1", Text: " a token or two"}
	b.ReportAllocs()
	for b.Loop() {
		if err := g.Check(&ev); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkComposerText(b *testing.B) {
	c := newComposer()
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%100_000 == 0 {
			c = newComposer() // an answer has an end
		}
		c.Text(" a token or two", nil)
		c.Take()
	}
}

func BenchmarkDecodeRequest(b *testing.B) {
	body := conversation(20 << 10)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := responses.DecodeRequest(body, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// conversation returns a request of about size bytes: turns of a user, a model
// and its tools.
func conversation(size int) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"m","stream":true,"tools":[{"type":"function","name":"search","parameters":{"type":"object","properties":{"q":{"type":"string"}}}}],"input":[`)
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		text := strings.Repeat("some words of a conversation ", 8)
		fmt.Fprintf(&b, `{"type":"message","role":"user","content":[{"type":"input_text","text":"%s"}]},`, text)
		fmt.Fprintf(&b, `{"type":"function_call","call_id":"call_%d","name":"search","arguments":"{\"q\":\"words\"}"},`, i)
		fmt.Fprintf(&b, `{"type":"function_call_output","call_id":"call_%d","output":"%s"},`, i, text)
		fmt.Fprintf(&b, `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"%s","annotations":[]}]}`, text)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}
