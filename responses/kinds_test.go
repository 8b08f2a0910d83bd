package responses_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/responses"
)

// TestItemStatus: every kind of item that has a status tells it.
func TestItemStatus(t *testing.T) {
	t.Parallel()
	for _, v := range implementations {
		it, ok := reflect.New(reflect.TypeOf(v)).Interface().(responses.Item)
		if !ok {
			continue
		}
		want := responses.Status("")
		switch f := reflect.ValueOf(it).Elem().FieldByName("Status"); {
		case f.IsValid():
			want = responses.StatusIncomplete
			f.Set(reflect.ValueOf(want))
		case it.Type() == "":
			want = responses.StatusFailed
			it = &responses.UnknownItem{Name: "acme:x", Raw: []byte(`{"type":"acme:x","status":"failed"}`)}
		}
		if got := responses.ItemStatus(it); got != want {
			t.Errorf("ItemStatus(%T) = %q, want %q", it, got, want)
		}
	}
}

func TestToolName(t *testing.T) {
	t.Parallel()
	r := decode(t, `{"tools":[{"type":"function","name":"f"},{"type":"custom","name":"c"},{"type":"web_search"}]}`)
	var names []string
	for _, tool := range r.Tools {
		names = append(names, tool.Type()+":"+responses.ToolName(tool))
	}
	if got, want := strings.Join(names, " "), "function:f custom:c web_search:"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEventKinds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		typ            responses.EventType
		terminal, item bool
	}{
		{responses.EventCreated, false, false},
		{responses.EventQueued, false, false},
		{responses.EventInProgress, false, false},
		{responses.EventCompleted, true, false},
		{responses.EventIncomplete, true, false},
		{responses.EventFailed, true, false},
		{responses.EventError, false, false},
		{responses.EventTurnEnd, false, false},
		{responses.EventItemAdded, false, true},
		{responses.EventTextDelta, false, true},
		{"acme:x", false, true},
	}
	for _, tt := range tests {
		if tt.typ.Terminal() != tt.terminal || tt.typ.ItemEvent() != tt.item {
			t.Errorf("%s: terminal %t, item event %t; want %t, %t", tt.typ, tt.typ.Terminal(), tt.typ.ItemEvent(), tt.terminal, tt.item)
		}
	}
}

func TestEventResponse(t *testing.T) {
	t.Parallel()
	got, err := responses.EventResponse([]byte(`{"type":"response.completed","response":{"id":"resp_1","n":1.50},"sequence_number":1}`))
	if err != nil || string(got) != `{"id":"resp_1","n":1.50}` {
		t.Errorf("got %s, %v; want the object as it stands", got, err)
	}
	if got, err := responses.EventResponse([]byte(`{"type":"acme:x"}`)); err == nil {
		t.Errorf("an event without one: got %s, want an error", got)
	}
}

func TestDecodeResponseRefuses(t *testing.T) {
	t.Parallel()
	_, err := responses.DecodeResponse([]byte(`{"id":"resp_1","output":[{"type":"function_call","arguments":{}}]}`))
	if e := responses.AsError(err); e == nil || e.Code != responses.CodeInvalidType || e.Param != "output[0].arguments" {
		t.Errorf("got %v, want %s at output[0].arguments", err, responses.CodeInvalidType)
	}
}

// TestComposedSearch: the arguments of a tool search are a JSON value, in one
// line; what is none becomes a string.
func TestComposedSearch(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ arguments, want string }{
		"object":    {"{\n  \"query\": \"x\"\n}", `{"query":"x"}`},
		"nothing":   {"", `""`},
		"no JSON":   {`{"query":`, `"{\"query\":"`},
		"ambiguous": {`{"a":1,"a":2}`, `"{\"a\":1,\"a\":2}"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			events := compose(responses.StatusCompleted, func(c *responses.Composer) {
				c.Call("call_1", responses.Callee{Kind: responses.TypeToolSearchCall}, nil).Arguments(tt.arguments)
			})
			doc := wire(t, &events[len(events)-1])
			if bytes.ContainsRune(doc, '\n') {
				t.Errorf("got several lines: %q", doc)
			}
			call := decodeEvent(t, string(doc)).Item.(*responses.ToolSearchCall)
			sameJSON(t, call.Arguments, []byte(tt.want))
		})
	}
}

// TestComposedReasoningIsEncrypted: what a driver wants back travels beside the
// summary, in each reasoning item of its own.
func TestComposedReasoningIsEncrypted(t *testing.T) {
	t.Parallel()
	events := compose(responses.StatusCompleted, func(c *responses.Composer) {
		c.EncryptReasoning(strings.ToUpper)
		c.Reasoning("first")
		c.Text("x", nil)
		c.Reasoning("sec")
		c.Reasoning("ond")
	})
	var got []string
	for _, ev := range events {
		if r, ok := ev.Item.(*responses.Reasoning); ok && ev.Type == responses.EventItemDone {
			got = append(got, r.EncryptedContent)
		}
	}
	if strings.Join(got, " ") != "FIRST SECOND" {
		t.Errorf("got %q, want FIRST and SECOND", got)
	}
}
