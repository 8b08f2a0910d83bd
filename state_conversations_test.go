package antiphon_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
)

// TestStateConversations: a conversation is the context of its responses, and they
// add to it what they were asked and what they answered (R42).
func TestStateConversations(t *testing.T) {
	t.Parallel()
	for name, protocol := range stateProtocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startState(t, protocol, nil)
			c := r.do(200, "POST", "/v1/conversations", `{"metadata":{"topic":"numbers"},"items":[{"role":"developer","content":"Be brief."}]}`)
			if c.Object != "conversation" || !strings.HasPrefix(c.ID, "conv_") {
				t.Errorf("the conversation: %+v", c)
			}
			a := r.create(`{"model":"m","input":"count to 2","conversation":"` + c.ID + `"}`)
			if a.Conversation == nil || a.Conversation.ID != c.ID {
				t.Errorf("the response does not say its conversation: %+v", a)
			}
			r.create(`{"model":"m","input":"count to 3","conversation":{"id":"` + c.ID + `"},"store":false}`)
			second := r.create(`{"model":"m","input":"count to 4","conversation":{"id":"` + c.ID + `"}}`)
			want := []string{"Be brief.", "count to 2", "1 2", "count to 4"}
			if diff := cmp.Diff(want, words(r.heard())); diff != "" {
				t.Errorf("what the model got (-want +got):\n%s", diff)
			}
			list := r.do(200, "GET", "/v1/conversations/"+c.ID+"/items?order=asc", "")
			var said []string
			for _, it := range list.Data {
				said = append(said, text(it.Content))
			}
			if diff := cmp.Diff(append(want, "1 2 3 4"), said); diff != "" {
				t.Errorf("its items (-want +got):\n%s", diff)
			}

			// A response in it can be gone on from without it.
			r.create(`{"model":"m","input":"count to 5","previous_response_id":"` + a.ID + `"}`)
			if diff := cmp.Diff([]string{"Be brief.", "count to 2", "1 2", "count to 5"}, words(r.heard())); diff != "" {
				t.Errorf("a branch (-want +got):\n%s", diff)
			}

			added := r.do(200, "POST", "/v1/conversations/"+c.ID+"/items", `{"items":[{"role":"user","content":"x"},{"type":"item_reference","id":"`+list.LastID+`"}]}`)
			if len(added.Data) != 2 || added.HasMore || added.FirstID != added.Data[0].ID {
				t.Errorf("added: %+v", added)
			}
			one := r.do(200, "GET", "/v1/conversations/"+c.ID+"/items/"+added.FirstID, "")
			if one.ID != added.FirstID {
				t.Errorf("one item: %+v", one)
			}
			if d := r.do(200, "DELETE", "/v1/conversations/"+c.ID+"/items/"+list.FirstID, ""); d.ID != c.ID || d.Object != "conversation" {
				t.Errorf("deleting an item: %+v", d)
			}
			if _, _, body := r.call("POST", "/v1/conversations/"+c.ID, `{"metadata":{"topic":"letters"}}`); !strings.Contains(string(body), `"metadata":{"topic":"letters"}`) {
				t.Errorf("metadata: %s", body)
			}
			if d := r.do(200, "DELETE", "/v1/conversations/"+c.ID, ""); d.ID != c.ID || d.Object != "conversation.deleted" || !d.Deleted {
				t.Errorf("deleting it: %+v", d)
			}
			if got := r.refused(404, "POST", "/v1/responses", `{"model":"m","input":"x","conversation":"`+c.ID+`"}`); got != "not_found conversation" {
				t.Errorf("going on in it: %s", got)
			}
			if got := r.refused(400, "POST", "/v1/responses", `{"model":"m","input":"x","previous_response_id":"`+second.ID+`"}`); got != "previous_response_not_found previous_response_id" {
				t.Errorf("going on from a response in it: %s", got)
			}
			r.do(200, "GET", "/v1/responses/"+second.ID, "")
		})
	}
}

// TestStateMentionsCannotBeMade: an item of a client that looks like what stands for
// a conversation is an item (R40).
func TestStateMentionsCannotBeMade(t *testing.T) {
	t.Parallel()
	r := startState(t, fakeupstream.Chat, nil)
	c := r.do(200, "POST", "/v1/conversations", `{"items":[{"role":"user","content":"secret"}]}`)
	last := r.do(200, "GET", "/v1/conversations/"+c.ID+"/items", "").LastID
	a := r.create(`{"model":"m","input":[{"type":"message","id":"` + c.ID + `","conversation":"` + c.ID + `","last":"` + last + `","role":"user","content":"count to 2"}]}`)
	r.create(`{"model":"m","input":"count to 3","previous_response_id":"` + a.ID + `"}`)
	if diff := cmp.Diff([]string{"user: count to 2", "assistant: 1 2", "user: count to 3"}, r.heard()); diff != "" {
		t.Errorf("the model got (-want +got):\n%s", diff)
	}
}

// words are lines without who said them.
func words(lines []string) (out []string) {
	for _, l := range lines {
		_, text, _ := strings.Cut(l, ": ")
		out = append(out, text)
	}
	return out
}

// TestStateConversationsRefuse: what a conversation cannot be is named (R8, R42).
func TestStateConversationsRefuse(t *testing.T) {
	t.Parallel()
	r := startState(t, fakeupstream.Chat, nil)
	c := r.do(200, "POST", "/conversations", "")
	a := r.create(`{"model":"m","input":"count to 1"}`)
	many := strings.Repeat(`{"role":"user","content":"x"},`, 20) + `{"role":"user","content":"x"}`
	for name, test := range map[string]struct {
		status             int
		method, path, body string
		want               string
	}{
		"both":              {400, "POST", "/v1/responses", `{"model":"m","input":"x","conversation":"` + c.ID + `","previous_response_id":"` + a.ID + `"}`, "invalid_value previous_response_id"},
		"no id":             {400, "POST", "/v1/responses", `{"model":"m","input":"x","conversation":{}}`, "missing_required_parameter conversation"},
		"no conversation":   {404, "POST", "/v1/responses", `{"model":"m","input":"x","conversation":"` + a.ID + `"}`, "not_found conversation"},
		"an item twice":     {400, "POST", "/v1/responses", `{"model":"m","conversation":"` + c.ID + `","input":[{"id":"msg_1","role":"user","content":"x"},{"id":"msg_1","role":"user","content":"y"}]}`, "invalid_value input[1].id"},
		"too many at once":  {400, "POST", "/v1/conversations", `{"items":[` + many + `]}`, "invalid_value items"},
		"not a list":        {400, "POST", "/v1/conversations", `{"items":"x"}`, "invalid_type items"},
		"not an item":       {400, "POST", "/v1/conversations", `{"items":[{"role":"king","content":"x"}]}`, "invalid_value items[0].role"},
		"no items":          {400, "POST", "/v1/conversations/" + c.ID + "/items", `{}`, "missing_required_parameter items"},
		"no metadata":       {400, "POST", "/v1/conversations/" + c.ID, `{}`, "missing_required_parameter metadata"},
		"not the metadata":  {400, "POST", "/v1/conversations/" + c.ID, `{"metadata":{"a":1}}`, "invalid_type metadata.a"},
		"misspelt":          {400, "POST", "/v1/conversations", `{"Items":[]}`, "invalid_json Items"},
		"no such item":      {404, "GET", "/v1/conversations/" + c.ID + "/items/msg_1", "", "not_found "},
		"no item to delete": {404, "DELETE", "/v1/conversations/" + c.ID + "/items/msg_1", "", "not_found "},
		"no such page":      {400, "GET", "/v1/conversations/" + c.ID + "/items?after=msg_1", "", "invalid_value after"},
	} {
		if got := r.refused(test.status, test.method, test.path, test.body); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestStateItemThatIsThere: an item whose id the conversation has is left as it is,
// and the answer says so (R42).
func TestStateItemThatIsThere(t *testing.T) {
	t.Parallel()
	r := startState(t, fakeupstream.Chat, nil)
	conv := r.do(200, "POST", "/v1/conversations", `{"items":[{"type":"message","id":"msg_a","role":"user","content":"first"}]}`)
	path := "/v1/conversations/" + conv.ID + "/items"
	added := r.do(200, "POST", path, `{"items":[{"type":"message","id":"msg_a","role":"user","content":"second"},{"type":"message","role":"user","content":"third"}]}`)
	listed := r.do(200, "GET", path+"?order=asc", "")
	if diff := cmp.Diff(listed.Data, added.Data); diff != "" || len(added.Data) != 2 || text(added.Data[0].Content) != "first" {
		t.Errorf("added as %+v (-listed +added):\n%s", added.Data, diff)
	}
}
