package responses_test

import (
	"bytes"
	"encoding/json/jsontext"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/responses"
)

// wire returns the wire form of ev.
func wire(t testing.TB, ev *responses.Event) []byte {
	t.Helper()
	b, err := responses.AppendEvent(nil, ev)
	if err != nil {
		t.Fatalf("%s: %v", ev.Type, err)
	}
	return b
}

// decodeEvent decodes an event that must be accepted.
func decodeEvent(t testing.TB, doc string) responses.Event {
	t.Helper()
	ev, err := responses.DecodeEvent([]byte(doc))
	if err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return ev
}

// TestAppendEvent: the members of the events that we make, byte by byte.
func TestAppendEvent(t *testing.T) {
	t.Parallel()
	param := "input"
	tests := []struct {
		ev   responses.Event
		want string
	}{
		{responses.Event{Type: responses.EventTextDelta, Seq: 7, OutputIndex: 1, ItemID: "msg_1", Index: 2, Text: "a\"\n\u00e9"},
			`{"type":"response.output_text.delta","sequence_number":7,"item_id":"msg_1","output_index":1,"content_index":2,"delta":"a\"\né","logprobs":[]}`},
		{responses.Event{Type: responses.EventTextDone, Text: "x", Logprobs: []responses.LogProb{{Token: "x", Logprob: -0.5}}},
			`{"type":"response.output_text.done","sequence_number":0,"item_id":"","output_index":0,"content_index":0,"text":"x","logprobs":[{"token":"x","logprob":-0.5,"bytes":[]}]}`},
		{responses.Event{Type: responses.EventRefusalDone, ItemID: "msg_1", Text: "no"},
			`{"type":"response.refusal.done","sequence_number":0,"item_id":"msg_1","output_index":0,"content_index":0,"refusal":"no"}`},
		{responses.Event{Type: responses.EventSummaryDelta, ItemID: "rs_1", Index: 3, Text: "hm"},
			`{"type":"response.reasoning_summary_text.delta","sequence_number":0,"item_id":"rs_1","output_index":0,"summary_index":3,"delta":"hm"}`},
		{responses.Event{Type: responses.EventArgumentsDone, ItemID: "fc_1", Text: "{}"},
			`{"type":"response.function_call_arguments.done","sequence_number":0,"item_id":"fc_1","output_index":0,"arguments":"{}"}`},
		{responses.Event{Type: responses.EventCustomInputDone, ItemID: "ctc_1", Text: "in"},
			`{"type":"response.custom_tool_call_input.done","sequence_number":0,"item_id":"ctc_1","output_index":0,"input":"in"}`},
		{responses.Event{Type: responses.EventPartAdded, ItemID: "msg_1", Part: &responses.OutputText{}},
			`{"type":"response.content_part.added","sequence_number":0,"item_id":"msg_1","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}`},
		{responses.Event{Type: responses.EventItemAdded, OutputIndex: 4, Item: &responses.FunctionCall{ID: "fc_1", CallID: "c", Name: "f", Status: responses.StatusInProgress}},
			`{"type":"response.output_item.added","sequence_number":0,"output_index":4,"item":{"type":"function_call","id":"fc_1","call_id":"c","name":"f","arguments":"","status":"in_progress"}}`},
		{responses.Event{Type: responses.EventError, Seq: 2, Err: &responses.ErrorBody{Type: "server_error", Code: "upstream_error", Message: "m", Param: &param}},
			`{"type":"error","sequence_number":2,"code":"upstream_error","message":"m","param":"input","error":{"type":"server_error","code":"upstream_error","message":"m","param":"input"}}`},
		{responses.Event{Type: responses.EventTextDelta, ItemID: "msg_1", Text: "a\xffb"},
			`{"type":"response.output_text.delta","sequence_number":0,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"a` + "\uFFFD" + `b","logprobs":[]}`},
	}
	for _, tt := range tests {
		t.Run(string(tt.ev.Type), func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, string(wire(t, &tt.ev))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestSplicing: an upstream's event keeps what we do not own.
func TestSplicing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in string
		change   func(ev *responses.Event)
		want     string
	}{
		{"delta", `{"type":"response.output_text.delta","sequence_number":40,"item_id":"up_1","output_index":0,"content_index":0,"delta":"x","obfuscation":"zz"}`,
			func(ev *responses.Event) { ev.ItemID = "msg_1"; ev.OutputIndex = 3 },
			`{"type":"response.output_text.delta","sequence_number":5,"item_id":"msg_1","output_index":3,"content_index":0,"delta":"x","obfuscation":"zz"}`},
		{"item", `{"type":"response.output_item.done","output_index":0,"item":{"id":"up_1","type":"message","role":"assistant","content":[],"acme":1},"acme":2}`,
			func(ev *responses.Event) { ev.Item = responses.WithItemID(ev.Item, "msg_1") },
			`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","id":"msg_1","role":"assistant","content":[],"acme":1},"acme":2,"sequence_number":5}`},
		{"unknown event", `{"type":"response.web_search_call.searching","sequence_number":1,"item_id":"ws_1","output_index":0}`,
			func(ev *responses.Event) { ev.OutputIndex = 2 },
			`{"type":"response.web_search_call.searching","sequence_number":5,"item_id":"ws_1","output_index":2}`},
		{"unknown event without an item", `{"type":"acme:tick","n":1.50}`,
			func(*responses.Event) {}, `{"type":"acme:tick","n":1.50,"sequence_number":5}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ev := decodeEvent(t, tt.in)
			ev.Seq = 5
			tt.change(&ev)
			got := wire(t, &ev)
			sameJSON(t, got, []byte(tt.want))
			if again := decodeEvent(t, string(got)); again.Seq != 5 || again.OutputIndex != ev.OutputIndex || again.ItemID != ev.ItemID {
				t.Errorf("decoded again: %+v, want the numbers of %+v", again, ev)
			}
		})
	}
}

// TestEventsAreOneLine: many readers of event streams take one data line only.
func TestEventsAreOneLine(t *testing.T) {
	t.Parallel()
	pretty := "{\n  \"type\": \"acme:x\",\r\n  \"deep\": {\n    \"a\": [\n      1\n    ]\n  },\n  \"text\": \"a\\nb\"\n}"
	ev := decodeEvent(t, pretty)
	got := wire(t, &ev)
	if bytes.ContainsAny(got, "\r\n") {
		t.Errorf("got several lines: %q", got)
	}
	sameJSON(t, got, []byte(`{"type":"acme:x","deep":{"a":[1]},"text":"a\nb","sequence_number":0}`))
}

func TestDecodeEventRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, doc string
		code      responses.Code
		param     string
	}{
		{"not JSON", `{"type"`, responses.CodeInvalidJSON, "type"},
		{"not an object", `[]`, responses.CodeInvalidType, ""},
		{"trailing data", `{"type":"acme:x"} {}`, responses.CodeInvalidJSON, ""},
		{"duplicate", `{"type":"acme:x","type":"acme:y"}`, responses.CodeInvalidJSON, "type"},
		{"no type", `{"sequence_number":1}`, responses.CodeMissing, "type"},
		{"type is a number", `{"type":1}`, responses.CodeInvalidType, "type"},
		{"negative output_index", `{"type":"acme:x","output_index":-1}`, responses.CodeInvalidValue, "output_index"},
		{"negative content_index", `{"type":"acme:x","content_index":-1}`, responses.CodeInvalidValue, "content_index"},
		{"negative summary_index", `{"type":"acme:x","summary_index":-1}`, responses.CodeInvalidValue, "summary_index"},
		{"index is a string", `{"type":"acme:x","output_index":"1"}`, responses.CodeInvalidType, "output_index"},
		{"delta without text", `{"type":"response.output_text.delta","item_id":"m"}`, responses.CodeMissing, "delta"},
		{"delta null", `{"type":"response.output_text.delta","item_id":"m","delta":null}`, responses.CodeMissing, "delta"},
		{"delta is an object", `{"type":"response.output_text.delta","item_id":"m","delta":{}}`, responses.CodeInvalidType, "delta"},
		{"done without arguments", `{"type":"response.function_call_arguments.done"}`, responses.CodeMissing, "arguments"},
		{"logprobs", `{"type":"response.output_text.delta","delta":"","logprobs":[{"token":1}]}`, responses.CodeInvalidType, "logprobs[0].token"},
		{"no item", `{"type":"response.output_item.added","output_index":0}`, responses.CodeMissing, "item"},
		{"item null", `{"type":"response.output_item.done","item":null}`, responses.CodeMissing, "item"},
		{"item is a string", `{"type":"response.output_item.done","item":"x"}`, responses.CodeInvalidType, "item"},
		{"broken item", `{"type":"response.output_item.done","item":{"type":"function_call","arguments":{}}}`, responses.CodeInvalidType, "item.arguments"},
		{"broken part of an item", `{"type":"response.output_item.done","item":{"type":"message","content":[{"type":"output_text","text":1}]}}`, responses.CodeInvalidType, "item.content[0].text"},
		{"no part", `{"type":"response.content_part.added"}`, responses.CodeMissing, "part"},
		{"no response", `{"type":"response.completed"}`, responses.CodeMissing, "response"},
		{"broken response", `{"type":"response.completed","response":{"output":{}}}`, responses.CodeInvalidType, "response.output"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := responses.DecodeEvent([]byte(tt.doc))
			e, ok := errors.AsType[*responses.Error](err)
			if !ok || e.Code != tt.code || e.Param != tt.param {
				t.Errorf("got %v, want %s at %q", err, tt.code, tt.param)
			}
		})
	}
}

// TestDecodeErrorEvents: servers write the error event in several forms; the
// message must not be lost in any of them.
func TestDecodeErrorEvents(t *testing.T) {
	t.Parallel()
	param := "p"
	tests := []struct {
		name, doc string
		want      responses.ErrorBody
	}{
		{"nested", `{"type":"error","error":{"type":"t","code":"c","message":"m","param":"p"}}`,
			responses.ErrorBody{Type: "t", Code: "c", Message: "m", Param: &param}},
		{"nested with nulls", `{"type":"error","error":{"type":"t","code":null,"message":"m","param":null}}`,
			responses.ErrorBody{Type: "t", Message: "m"}},
		{"flat", `{"type":"error","code":"c","message":"m","param":"p"}`,
			responses.ErrorBody{Code: "c", Message: "m", Param: &param}},
		{"both", `{"type":"error","code":"x","message":"y","error":{"type":"t","code":"c","message":"m"}}`,
			responses.ErrorBody{Type: "t", Code: "c", Message: "m"}},
		{"flat with error null", `{"type":"error","code":"c","message":"m","error":null}`,
			responses.ErrorBody{Code: "c", Message: "m"}},
		{"nested with a status for a code", `{"type":"error","error":{"type":"t","code":400,"message":"m"}}`,
			responses.ErrorBody{Type: "t", Message: "m"}},
		{"flat with a status for a code", `{"type":"error","code":400,"message":"m"}`,
			responses.ErrorBody{Message: "m"}},
		{"only a text", `{"type":"error","error":"m"}`, responses.ErrorBody{Message: "m"}},
		{"nothing", `{"type":"error"}`, responses.ErrorBody{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ev := decodeEvent(t, tt.doc)
			if diff := cmp.Diff(&tt.want, ev.Err); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnknownEventsMayUseOurNames: a new event type may have members that are
// called like those of the events we know and hold something else.
func TestUnknownEventsMayUseOurNames(t *testing.T) {
	t.Parallel()
	doc := `{"type":"acme:x","sequence_number":3,"code":{"a":1},"message":[1],"param":5,"delta":{"stdout":"x"},"item":"i","part":1,"response":"r","error":true,"text":[],"logprobs":1}`
	ev := decodeEvent(t, doc)
	want := responses.Event{Type: "acme:x", Seq: 3, Raw: jsontext.Value(doc)}
	if diff := cmp.Diff(want, ev); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
