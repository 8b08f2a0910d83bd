package antiphon_test

import (
	"encoding/json/v2"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
)

const weather = `"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}]`

// callOf is the call_id of the last call in an answer.
func callOf(t *testing.T, a *answered) (itemID, callID string) {
	t.Helper()
	var call struct {
		ID     string `json:"id"`
		Type   string `json:"type"`
		CallID string `json:"call_id"`
	}
	if err := json.Unmarshal(a.Output[len(a.Output)-1], &call); err != nil || call.Type != "function_call" {
		t.Fatalf("no call: %v, %s", err, a.Output)
	}
	return call.ID, call.CallID
}

// TestStateTools: the result of a call needs nothing but the response that made the
// call; one that belongs to no call is refused, and so is a call that is sent again
// (R40).
func TestStateTools(t *testing.T) {
	t.Parallel()
	for name, protocol := range stateProtocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startState(t, protocol, nil)
			first := r.create(`{"model":"m","input":"[[call get_weather Oslo]]",` + weather + `}`)
			item, call := callOf(t, first)
			result := `{"type":"function_call_output","call_id":"` + call + `","output":"rain"}`
			second := r.create(`{"model":"m","input":[` + result + `],"previous_response_id":"` + first.ID + `",` + weather + `}`)
			want := []string{"user: [[call get_weather Oslo]]", "call get_weather", "result rain"}
			if diff := cmp.Diff(want, r.heard()); diff != "" {
				t.Errorf("what the model got (-want +got):\n%s", diff)
			}
			third := r.create(`{"model":"m","input":"count to 1","previous_response_id":"` + second.ID + `"}`)
			if len(r.heard()) != 5 {
				t.Errorf("what the model got then: %q", r.heard())
			}
			for name, test := range map[string]struct{ body, want string }{
				"no such call": {`"input":[{"type":"function_call_output","call_id":"call_x","output":""}],"previous_response_id":"` + third.ID + `"`, "invalid_value input[0].call_id"},
				"no context":   {`"input":[` + result + `]`, "invalid_value input[0].call_id"},
				"sent again": {
					`"input":[{"type":"function_call","id":"` + item + `","call_id":"` + call + `","name":"get_weather","arguments":"{}"},` + result + `],"previous_response_id":"` + first.ID + `"`,
					"invalid_value input[0].id",
				},
			} {
				if got := r.refused(400, "POST", "/v1/responses", `{"model":"m",`+test.body+`}`); got != test.want {
					t.Errorf("%s: %s, want %s", name, got, test.want)
				}
			}
		})
	}
}

// TestStateReferences: references stand for output items of stored responses, as
// clients send them that resend a conversation without its content (R3, R40).
func TestStateReferences(t *testing.T) {
	t.Parallel()
	for name, protocol := range stateProtocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startState(t, protocol, nil)
			first := r.create(`{"model":"m","input":"[[call get_weather Oslo]]",` + weather + `}`)
			item, call := callOf(t, first)
			input := `[{"role":"user","content":"weather?"},{"id":"` + item + `"},{"type":"item_reference","id":"` + item + `"},` +
				`{"type":"function_call_output","call_id":"` + call + `","output":"rain"}]`
			r.create(`{"model":"m","input":` + input + `,` + weather + `}`)
			want := []string{"user: weather?", "call get_weather", "result rain"}
			if diff := cmp.Diff(want, r.heard()); diff != "" {
				t.Errorf("what the model got (-want +got):\n%s", diff)
			}
			r.create(`{"model":"m","input":[{"type":"item_reference","id":"` + item + `"},{"type":"function_call_output","call_id":"` + call + `","output":"sun"}],"previous_response_id":"` + first.ID + `"}`)
			want = []string{"user: [[call get_weather Oslo]]", "call get_weather", "result sun"}
			if diff := cmp.Diff(want, r.heard()); diff != "" {
				t.Errorf("a reference to what is in the context (-want +got):\n%s", diff)
			}
			if got := r.refused(404, "POST", "/v1/responses", `{"model":"m","input":[{"type":"item_reference","id":"msg_x"}]}`); got != "not_found input[0].id" {
				t.Errorf("a reference to nothing: %s", got)
			}
		})
	}
}

// ids are those of a page.
func (a *answered) ids() []string {
	ids := []string{}
	for _, it := range a.Data {
		ids = append(ids, it.ID)
	}
	return ids
}

// TestStateInputItems: the input of a response is listed in pages, whole, with
// stable ids (R42).
func TestStateInputItems(t *testing.T) {
	t.Parallel()
	r := startState(t, fakeupstream.Chat, nil)
	var items []string
	for i := range 45 {
		items = append(items, fmt.Sprintf(`{"role":"user","content":"item %d"}`, i))
	}
	first := r.create(`{"model":"m","input":"before"}`)
	a := r.create(`{"model":"m","previous_response_id":"` + first.ID + `","input":[` + strings.Join(items, ",") + `,{"type":"message","id":"msg_mine","role":"user","content":[{"type":"input_text","text":"last"}]}]}`)
	path := "/v1/responses/" + a.ID + "/input_items"

	newest := r.do(200, "GET", path, "")
	if len(newest.Data) != 20 || !newest.HasMore || newest.FirstID != "msg_mine" || newest.LastID != newest.Data[19].ID || newest.Object != "list" {
		t.Errorf("the default page: %+v", newest)
	}
	if d := newest.Data[1]; d.Type != "message" || d.Role != "user" || string(d.Content) != `[{"type":"input_text","text":"item 44"}]` || !strings.HasPrefix(d.ID, "msg_") {
		t.Errorf("an item: %+v", d)
	}
	var all []string
	after := ""
	for range 10 {
		page := r.do(200, "GET", path+"?order=asc&limit=13&after="+after, "")
		all = append(all, page.ids()...)
		if !page.HasMore {
			break
		}
		after = page.LastID
	}
	backwards := r.do(200, "GET", path+"?limit=100", "").ids()
	slices.Reverse(backwards)
	if diff := cmp.Diff(backwards, all); diff != "" || len(all) != 46 {
		t.Errorf("%d items in pages (-all at once +in pages):\n%s", len(all), diff)
	}
	for query, want := range map[string]string{
		"limit=0": "limit", "limit=101": "limit", "limit=x": "limit", "order=up": "order", "after=msg_none": "after",
	} {
		if got := r.refused(400, "GET", path+"?"+query, ""); got != "invalid_value "+want {
			t.Errorf("%s: %s", query, got)
		}
	}
}

// TestStateResentReasoning: a client that resends an answer gets by without the
// sealed form of its reasoning, which it was not given: the model gets it from the
// store, if the reasoning is the owner's and the same (R17, R40).
func TestStateResentReasoning(t *testing.T) {
	t.Parallel()
	a := startState(t, fakeupstream.Responses, func(o *antiphon.Options) {
		o.Keys = []antiphon.Key{{Name: "a", Tenant: "a", Secret: "key-of-a"}, {Name: "b", Tenant: "b", Secret: "key-of-b"}}
	}).as("key-of-a")
	const question = `{"type":"message","role":"user","content":"please think about seven"}`
	first := a.create(`{"model":"m","input":[` + question + `]}`)
	var output []string
	for _, it := range first.Output {
		output = append(output, string(it))
	}
	resent := strings.Join(output, ",")
	for _, test := range []struct {
		name  string
		who   *stateRig
		items string
		want  bool
	}{
		{"stored", a, resent, true},
		{"other words", a, strings.Replace(resent, `"summary":[`, `"summary":[{"type":"summary_text","text":"No: "},`, 1), false},
		{"another tenant", a.as("key-of-b"), resent, false},
	} {
		r := test.who
		second := r.create(`{"model":"m","input":[` + question + `,` + test.items + `,{"type":"message","role":"user","content":"count to 2"}],"metadata":{}}`)
		all := r.fake.Requests()
		if sent := string(all[len(all)-1].Body); strings.Contains(sent, `"encrypted_content":"`) != test.want {
			t.Errorf("%s: the model got %s", test.name, sent)
		}
		_, _, listed := r.call("GET", "/v1/responses/"+second.ID+"/input_items?order=asc", "")
		if strings.Contains(string(listed), "encrypted_content") || strings.Count(string(listed), `"type":"reasoning"`) != 1 {
			t.Errorf("%s: the input is listed as %s", test.name, listed)
		}
	}
}
