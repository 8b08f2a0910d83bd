package responses_test

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/antiphon-dev/antiphon/internal/sse"
	"github.com/antiphon-dev/antiphon/responses"
)

// TestSpineEventsSurviveTheWire: any legal sequence of events survives encoding,
// framing and decoding: the grammar accepts both sides, and both fold to the
// same response (R12).
func TestSpineEventsSurviveTheWire(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before := drawResponse(t)
		if err := responses.CheckSequence(before); err != nil {
			t.Fatalf("before: %v", err)
		}
		after := throughTheWire(t, before)
		if err := responses.CheckSequence(after); err != nil {
			t.Fatalf("after: %v", err)
		}
		want, got := foldJSON(t, before), foldJSON(t, after)
		if !bytes.Equal(want, got) {
			t.Fatalf("the fold differs:\nbefore %s\nafter  %s", want, got)
		}
	})
}

// throughTheWire encodes events, frames them as one stream, and reads it back.
func throughTheWire(t *rapid.T, events []responses.Event) []responses.Event {
	var stream, doc []byte
	for i := range events {
		var err error
		if doc, err = responses.AppendEvent(doc[:0], &events[i]); err != nil {
			t.Fatalf("encode %s: %v", events[i].Type, err)
		}
		stream = sse.AppendFrame(stream, string(events[i].Type), doc)
	}
	var out []responses.Event
	for frame, err := range sse.Read(bytes.NewReader(stream), nil) {
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		ev, err := responses.DecodeEvent(slices.Clone(frame.Data)) // the event keeps it
		if err != nil {
			t.Fatalf("decode %s: %v", frame.Data, err)
		}
		if frame.Type != string(ev.Type) {
			t.Fatalf("the frame is called %s, its event %s", frame.Type, ev.Type)
		}
		out = append(out, ev)
	}
	return out
}

// foldJSON returns the folded response in a canonical spelling.
func foldJSON(t *rapid.T, events []responses.Event) []byte {
	var fold responses.Fold
	for i := range events {
		fold.Add(&events[i])
	}
	resp, err := fold.Response()
	if err != nil {
		t.Fatalf("fold: %v", err)
	}
	doc, err := json.Marshal(resp)
	if err != nil {
		t.Fatalf("encode the response: %v", err)
	}
	v := jsontext.Value(doc)
	if err := v.Canonicalize(); err != nil {
		t.Fatalf("canonicalize: %v", err)
	}
	return v
}

// drawResponse draws the events of a whole response: turns of a composer, items
// and events of unknown kinds, and one of the three ends.
func drawResponse(t *rapid.T) []responses.Event {
	req, err := responses.DecodeRequest([]byte(`{"model":"m","input":"x","metadata":{"a":"b"},"acme":1,"tools":[{"type":"acme:tool","n":1.50}]}`), nil)
	if err != nil {
		t.Fatalf("request: %v", err)
	}
	first := responses.NewResponse(req, "resp_1", time.Unix(1700000000, 0))
	events := []responses.Event{{Type: responses.EventCreated, Response: first}, {Type: responses.EventInProgress, Response: first}}
	items := 0
	status := responses.StatusCompleted
	for range rapid.IntRange(0, 4).Draw(t, "blocks") {
		if rapid.Bool().Draw(t, "unknown") {
			events = append(events, drawUnknownItem(t, items)...)
			items++
			continue
		}
		var turn []responses.Event
		if turn, status = drawTurn(t, items); status == responses.StatusIncomplete {
			events = append(events, turn...)
			break // nothing may follow an incomplete item
		}
		events = append(events, turn...)
		for _, ev := range turn {
			items = max(items, ev.OutputIndex+1)
		}
	}
	if status == responses.StatusCompleted && rapid.Bool().Draw(t, "fails") {
		status = responses.StatusFailed
		events = append(events, responses.Event{Type: responses.EventError, Err: responses.Errorf(responses.CodeUpstream, "It broke.").Body()})
	}
	return numbered(append(events, terminal(first, status, events))...)
}

// drawTurn draws a composer's turn, with its items from base on.
func drawTurn(t *rapid.T, base int) ([]responses.Event, responses.Status) {
	events := drive(t, newComposer(), new(said), map[string]string{})
	status := events[len(events)-1].End.Status
	events = events[:len(events)-1]
	for i := range events {
		events[i].OutputIndex += base
	}
	return events, status
}

// drawUnknownItem draws an item of an unknown kind, as an upstream sends it.
func drawUnknownItem(t *rapid.T, index int) []responses.Event {
	value, err := json.Marshal(rapid.MapOf(rapid.StringMatching(`x[a-z]{0,5}`), rapid.String()).Draw(t, "members"), json.Deterministic(true))
	if err != nil {
		t.Fatalf("members: %v", err)
	}
	item := fmt.Sprintf(`{"type":"acme:item","id":"x_%d","n":1.50,"members":%s}`, index, value)
	docs := []string{fmt.Sprintf(`{"type":"response.output_item.added","output_index":%d,"item":%s,"acme":true}`, index, item)}
	for range rapid.IntRange(0, 3).Draw(t, "events") {
		docs = append(docs, fmt.Sprintf(`{"type":"acme:event","output_index":%d,"item_id":"x_%d","delta":%s}`, index, index, value))
	}
	docs = append(docs, fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, index, item))
	var events []responses.Event
	for _, doc := range docs {
		ev, err := responses.DecodeEvent([]byte(doc))
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		events = append(events, ev)
	}
	return events
}

// terminal makes the event that ends a response after events.
func terminal(first *responses.Response, status responses.Status, events []responses.Event) responses.Event {
	var fold responses.Fold
	for i := range events {
		fold.Add(&events[i])
	}
	last := *first
	last.Status, last.Output = status, fold.Output()
	last.Usage = &responses.Usage{InputTokens: 3, OutputTokens: 4, TotalTokens: 7}
	typ := responses.EventCompleted
	switch status {
	case responses.StatusIncomplete:
		typ = responses.EventIncomplete
		last.IncompleteDetails = &responses.IncompleteDetails{Reason: responses.ReasonMaxOutputTokens}
	case responses.StatusFailed:
		typ = responses.EventFailed
		last.Error = responses.Errorf(responses.CodeUpstream, "It broke.").Body()
	}
	return responses.Event{Type: typ, Response: &last}
}
