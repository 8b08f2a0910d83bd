package openapitest

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
)

// answer is the response object to a request, with the given output.
func answer(t *testing.T, request string, output ...responses.Item) []byte {
	t.Helper()
	req, err := responses.DecodeRequest([]byte(request), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp := responses.NewResponse(req, "resp_1", time.Unix(1700000000, 0))
	resp.Output = append(resp.Output, output...)
	doc, err := resp.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func wire(t *testing.T, ev responses.Event) []byte {
	t.Helper()
	doc, err := responses.AppendEvent(nil, &ev)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

var (
	message = &responses.Message{
		ID: "msg_1", Role: responses.RoleAssistant, Status: responses.StatusCompleted,
		Content: responses.Content{Parts: []responses.Part{&responses.OutputText{Text: "hi"}}},
	}
	cited = &responses.Message{
		ID: "msg_1", Role: responses.RoleAssistant, Status: responses.StatusCompleted,
		Content: responses.Content{Parts: []responses.Part{&responses.OutputText{
			Text: "hi", Annotations: []jsontext.Value{jsontext.Value(`{"type":"file_path","file_id":"f"}`)},
		}}},
	}
	video = &responses.UnknownPart{Name: "acme:video", Raw: jsontext.Value(`{"type":"acme:video"}`)}
	shown = &responses.Message{
		ID: "msg_1", Role: responses.RoleAssistant, Status: responses.StatusCompleted,
		Content: responses.Content{Parts: []responses.Part{video}},
	}
	search = &responses.ToolSearchCall{ID: "tsc_1", CallID: "call_1", Status: responses.StatusCompleted}
	custom = &responses.CustomToolCall{ID: "ctc_1", CallID: "call_1", Name: "patch", Status: responses.StatusCompleted}
)

// progress is an event of a type that the document does not have.
func progress(typ string) []byte {
	return fmt.Appendf(nil, `{"type":%q,"sequence_number":1,"item_id":"ws_1","output_index":0}`, typ)
}

// unknown is an item of a type that the document does not have.
func unknown(typ string) *responses.UnknownItem {
	return &responses.UnknownItem{Name: typ, ID: "ws_1", Raw: fmt.Appendf(nil, `{"type":%q,"id":"ws_1","status":"completed"}`, typ)}
}

// TestExceptionsAreNeeded makes, with the model itself, what each exception is
// for. An exception that nothing here needs has to go.
func TestExceptionsAreNeeded(t *testing.T) {
	t.Parallel()
	strict, lenient := loadStrict(t), Load(t)
	type check = func(*Checker, []byte) error
	tests := []struct {
		name  string
		check check
		doc   []byte
	}{
		{"raw reasoning delta", (*Checker).CheckEvent, wire(t, responses.Event{Type: responses.EventReasoningDelta})},
		{"raw reasoning done", (*Checker).CheckEvent, wire(t, responses.Event{Type: responses.EventReasoningDone})},
		{"custom input delta", (*Checker).CheckEvent, wire(t, responses.Event{Type: responses.EventCustomInputDelta})},
		{"custom input done", (*Checker).CheckEvent, wire(t, responses.Event{Type: responses.EventCustomInputDone})},
		{"custom call added", (*Checker).CheckEvent, wire(t, responses.Event{Type: responses.EventItemAdded, Item: custom})},
		{"custom call in the output", (*Checker).CheckResponse, answer(t, `{"model":"m"}`, custom)},
		{"tool search", (*Checker).CheckEvent, wire(t, responses.Event{Type: responses.EventItemAdded, Item: search})},
		{"tool search in the output", (*Checker).CheckResponse, answer(t, `{"model":"m"}`, search)},
		{"custom tool", (*Checker).CheckResponse, answer(t, `{"model":"m","tools":[{"type":"custom","name":"patch"}]}`)},
		{"custom tool choice", (*Checker).CheckResponse,
			answer(t, `{"model":"m","tools":[{"type":"custom","name":"p"}],"tool_choice":{"type":"custom","name":"p"}}`)},
		{"format with a schema", (*Checker).CheckResponse,
			answer(t, `{"model":"m","text":{"format":{"type":"json_schema","name":"n","schema":{}}}}`)},
		{"annotation of another kind", (*Checker).CheckEvent, []byte(`{"type":"response.output_text.annotation.added","sequence_number":1,
			"item_id":"msg_1","output_index":0,"content_index":0,"annotation_index":0,"annotation":{"type":"file_path","file_id":"f"}}`)},
		{"annotation of another kind in the output", (*Checker).CheckResponse, answer(t, `{"model":"m"}`, cited)},
		{"hosted tool begins", (*Checker).CheckEvent, progress("response.web_search_call.in_progress")},
		{"hosted tool searches", (*Checker).CheckEvent, progress("response.web_search_call.searching")},
		{"hosted tool is done", (*Checker).CheckEvent, progress("response.web_search_call.completed")},
		{"hosted tool's item", (*Checker).CheckEvent, wire(t, responses.Event{Type: responses.EventItemAdded, Item: unknown("web_search_call")})},
		{"hosted tool's item in the output", (*Checker).CheckResponse, answer(t, `{"model":"m"}`, unknown("web_search_call"))},
		{"unknown event", (*Checker).CheckEvent, progress("acme:progress")},
		{"unknown delta", (*Checker).CheckEvent, progress("acme:thing.delta")},
		{"unknown item", (*Checker).CheckEvent, wire(t, responses.Event{Type: responses.EventItemAdded, Item: unknown("acme:thing")})},
		{"unknown item in the output", (*Checker).CheckResponse, answer(t, `{"model":"m"}`, unknown("acme:thing"))},
		{"unknown part", (*Checker).CheckEvent, wire(t, responses.Event{Type: responses.EventPartAdded, Part: video})},
		{"unknown part in the output", (*Checker).CheckResponse, answer(t, `{"model":"m"}`, shown)},
		{"new effort", (*Checker).CheckResponse, answer(t, `{"model":"m","reasoning":{"effort":"minimal"}}`)},
	}
	for _, tt := range tests {
		if tt.check(strict, tt.doc) == nil {
			t.Errorf("%s: the document allows it, so it needs no exception", tt.name)
		}
		if err := tt.check(lenient, tt.doc); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	for _, e := range lenient.exceptions {
		if !e.used.Load() {
			t.Errorf("exceptions.txt: nothing needs %q: remove it", e.line)
		}
	}
}

func TestAcceptsWhatIsRight(t *testing.T) {
	t.Parallel()
	c := loadStrict(t)
	if err := c.CheckResponse(answer(t, `{"model":"m"}`, message)); err != nil {
		t.Error(err)
	}
	if err := c.CheckEvent(wire(t, responses.Event{Type: responses.EventItemAdded, Item: message})); err != nil {
		t.Error(err)
	}
}

// TestCatches breaks a response that is right, one member at a time, and wants
// the place named.
func TestCatches(t *testing.T) {
	t.Parallel()
	c := Load(t)
	tests := []struct {
		name   string
		event  bool
		member string // replaced; removed if the value is ""
		value  string
		want   string
	}{
		{name: "no object", member: "object", want: "object"},
		{name: "no service tier", member: "service_tier", want: "service_tier"},
		{name: "temperature null", member: "temperature", value: `null`, want: "/temperature"},
		{name: "created_at fraction", member: "created_at", value: `1.5`, want: "/created_at"},
		{name: "unknown item", member: "output", value: `[{"type":"acme:x","id":"x"}]`, want: "/output/0/type"},
		{name: "item without a type", member: "output", value: `[{"id":"x"}]`, want: "type"},
		{name: "message without a status", member: "output", value: `[{"type":"message","id":"x","role":"user","content":[]}]`, want: "status"},
		{name: "part without annotations", member: "output", value: `[{"type":"message","id":"x","role":"user","status":"completed","content":[{"type":"output_text","text":""}]}]`, want: "annotations"},
		{name: "usage in part", member: "usage", value: `{"input_tokens":1}`, want: "output_tokens"},
		{name: "event of another type", event: true, member: "type", value: `"acme:x"`, want: "/type"},
		{name: "event without a number", event: true, member: "sequence_number", want: "sequence_number"},
		{name: "event with a broken item", event: true, member: "item", value: `{"type":"function_call","id":"fc_1"}`, want: "call_id"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			doc, check := answer(t, `{"model":"m"}`, message), c.CheckResponse
			if tt.event {
				doc, check = wire(t, responses.Event{Type: responses.EventItemAdded, Item: message}), c.CheckEvent
			}
			m := responses.Member{Name: tt.member}
			if tt.value != "" {
				m.Value = []byte(tt.value)
			}
			broken, err := responses.SetMembers(doc, m)
			if err != nil {
				t.Fatal(err)
			}
			if err := check(broken); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error that names %s\n%s", err, tt.want, broken)
			}
		})
	}
}

func TestCheckRefusesWhatIsNotJSON(t *testing.T) {
	t.Parallel()
	if err := Load(t).CheckEvent([]byte(`{"type":`)); err == nil {
		t.Error("got nil, want an error")
	}
}

func TestParseExceptions(t *testing.T) {
	t.Parallel()
	if _, err := parseExceptions("/type enum x\n"); err == nil || !strings.Contains(err.Error(), "reason") {
		t.Errorf("a line without a reason: got %v", err)
	}
	list, err := parseExceptions("# note\n\n/type enum x because of it\na/*/b required * because\n")
	if err != nil || len(list) != 2 {
		t.Fatalf("got %d exceptions and %v, want 2", len(list), err)
	}
	tests := []struct {
		name      string
		exception int
		violation violation
		want      bool
	}{
		{"exact", 0, violation{at: []string{"type"}, keyword: "enum", value: "x"}, true},
		{"other value", 0, violation{at: []string{"type"}, keyword: "enum", value: "y"}, false},
		{"other keyword", 0, violation{at: []string{"type"}, keyword: "type", value: "x"}, false},
		{"anchored", 0, violation{at: []string{"item", "type"}, keyword: "enum", value: "x"}, false},
		{"deeper", 1, violation{at: []string{"response", "a", "7", "b"}, keyword: "required"}, true},
		{"other name", 1, violation{at: []string{"a", "7", "c"}, keyword: "required"}, false},
		{"too short", 1, violation{at: []string{"7", "b"}, keyword: "required"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := list[tt.exception].matches(tt.violation); got != tt.want {
				t.Errorf("matches = %t, want %t", got, tt.want)
			}
		})
	}
}

// TestExplicitKeepsPlainSchemas: what needs no rewriting is left as it is.
func TestExplicitKeepsPlainSchemas(t *testing.T) {
	t.Parallel()
	const plain = `{"oneOf":[{"type":"string"},{"type":"array","items":{"type":"integer"}}]}`
	var v any
	if err := json.Unmarshal([]byte(plain), &v); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(explicit(v, v), json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Errorf("got %s, want %s", got, want)
	}
}
