package antiphon_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/responses"
)

// as returns the rig for the holder of another key.
func (r *stateRig) as(key string) *stateRig {
	other := *r
	other.key = key
	return &other
}

// TestStateTenants: whatever is asked for with the id of another tenant's response,
// conversation or item is answered, in status, headers and body, like an id that
// never was (R40, R42).
func TestStateTenants(t *testing.T) {
	t.Parallel()
	a := startState(t, fakeupstream.Chat, func(o *antiphon.Options) {
		o.Keys = []antiphon.Key{{Name: "a", Tenant: "a", Secret: "key-of-a"}, {Name: "b", Tenant: "b", Secret: "key-of-b"}}
	}).as("key-of-a")
	b := a.as("key-of-b")
	resp := a.create(`{"model":"m","input":"[[call get_weather Oslo]]",` + weather + `}`)
	item, call := callOf(t, resp)
	conv := a.do(200, "POST", "/v1/conversations", `{"items":[{"role":"user","content":"x"}]}`)
	list := a.do(200, "GET", "/v1/conversations/"+conv.ID+"/items", "")
	mine := b.do(200, "POST", "/v1/conversations", `{"items":[{"role":"user","content":"x"}]}`)

	shard, _ := responses.Shard(resp.ID)
	never := map[string]string{
		resp.ID:      responses.NewID(responses.PrefixResponse, shard, time.Now()),
		item:         responses.NewID(responses.PrefixFunctionCall, shard, time.Now()),
		conv.ID:      responses.NewID(responses.PrefixConversation, shard, time.Now()),
		list.FirstID: responses.NewID(responses.PrefixMessage, shard, time.Now()),
	}
	for _, call := range []struct{ method, path, body string }{
		{"GET", "/v1/responses/" + resp.ID, ""},
		{"GET", "/v1/responses/" + resp.ID + "?include=reasoning.encrypted_content", ""},
		{"GET", "/v1/responses/" + resp.ID + "?stream=true&starting_after=1", ""},
		{"GET", "/v1/responses/" + resp.ID + "/input_items", ""},
		{"GET", "/v1/responses/" + resp.ID + "/input_items?after=" + item, ""},
		{"DELETE", "/v1/responses/" + resp.ID, ""},
		{"POST", "/v1/responses", `{"model":"m","input":"x","previous_response_id":"` + resp.ID + `"}`},
		{"POST", "/v1/responses", `{"model":"m","input":"x","previous_response_id":"` + resp.ID + `","stream":true,"store":false}`},
		{"POST", "/v1/responses", `{"model":"m","input":[{"type":"function_call_output","call_id":"` + call + `","output":"x"}],"previous_response_id":"` + resp.ID + `"}`},
		{"POST", "/v1/responses", `{"model":"m","input":[{"type":"item_reference","id":"` + item + `"}]}`},
		{"POST", "/v1/responses", `{"model":"m","input":"x","conversation":"` + conv.ID + `"}`},
		{"POST", "/v1/responses/input_tokens", `{"model":"m","input":"x","previous_response_id":"` + resp.ID + `"}`},
		{"POST", "/v1/responses/input_tokens", `{"model":"m","input":"x","conversation":"` + conv.ID + `"}`},
		{"GET", "/v1/conversations/" + conv.ID, ""},
		{"POST", "/v1/conversations/" + conv.ID, `{"metadata":{}}`},
		{"DELETE", "/v1/conversations/" + conv.ID, ""},
		{"GET", "/v1/conversations/" + conv.ID + "/items", ""},
		{"GET", "/v1/conversations/" + conv.ID + "/items?after=" + list.FirstID, ""},
		{"POST", "/v1/conversations/" + conv.ID + "/items", `{"items":[{"role":"user","content":"x"}]}`},
		{"GET", "/v1/conversations/" + conv.ID + "/items/" + list.FirstID, ""},
		{"DELETE", "/v1/conversations/" + conv.ID + "/items/" + list.FirstID, ""},
		{"GET", "/v1/conversations/" + mine.ID + "/items/" + list.FirstID, ""},
		{"DELETE", "/v1/conversations/" + mine.ID + "/items/" + list.FirstID, ""},
		{"GET", "/v1/conversations/" + mine.ID + "/items?after=" + list.FirstID, ""},
		{"POST", "/v1/conversations/" + mine.ID + "/items", `{"items":[{"type":"item_reference","id":"` + item + `"}]}`},
		{"POST", "/v1/conversations", `{"items":[{"type":"item_reference","id":"` + item + `"}]}`},
	} {
		path, body := call.path, call.body
		for real, other := range never {
			path, body = strings.ReplaceAll(path, real, other), strings.ReplaceAll(body, real, other)
		}
		foreign, none := asText(b.call(call.method, call.path, call.body)), asText(b.call(call.method, path, body))
		if path == call.path && body == call.body {
			t.Errorf("%s %s names nothing", call.method, call.path)
		}
		if diff := cmp.Diff(none, foreign); diff != "" {
			t.Errorf("%s %s %s (-never was +foreign):\n%s", call.method, call.path, call.body, diff)
		}
		if !strings.HasPrefix(foreign, "4") {
			t.Errorf("%s %s %s is served:\n%s", call.method, call.path, call.body, foreign)
		}
	}
	// Nothing of it did anything.
	a.do(200, "GET", "/v1/responses/"+resp.ID, "")
	a.do(200, "GET", "/v1/conversations/"+conv.ID+"/items/"+list.FirstID, "")
}

// asText is an answer in one text, without what differs from call to call.
func asText(status int, header http.Header, body []byte) string {
	header.Del("X-Request-Id")
	header.Del("Date")
	return fmt.Sprintln(status, header, string(body))
}

// TestStateSurvivesItsKey: the tenant owns, not the key (R40).
func TestStateSurvivesItsKey(t *testing.T) {
	t.Parallel()
	r := startState(t, fakeupstream.Chat, func(o *antiphon.Options) {
		o.Keys = []antiphon.Key{{Name: "old", Tenant: "a", Secret: "key-1"}, {Name: "new", Tenant: "a", Secret: "key-2"}}
	})
	a := r.as("key-1").create(`{"model":"m","input":"count to 2"}`)
	r.as("key-2").create(`{"model":"m","input":"count to 3","previous_response_id":"` + a.ID + `"}`)
	if want := []string{"user: count to 2", "assistant: 1 2", "user: count to 3"}; !cmp.Equal(want, r.heard()) {
		t.Errorf("the model got %q", r.heard())
	}
	r.as("key-2").do(200, "DELETE", "/v1/responses/"+a.ID, "")
}
