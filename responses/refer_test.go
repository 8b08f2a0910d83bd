package responses_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/responses"
)

// TestReferences: whatever an upstream would look up for a client is found, so
// that it can be asked whose it is (R40).
func TestReferences(t *testing.T) {
	t.Parallel()
	ref := func(param, id string) responses.Reference { return responses.Reference{Param: param, ID: id} }
	for name, test := range map[string]struct {
		body string
		want []responses.Reference
		err  string // the param
	}{
		"nothing":                {`{"model":"m","input":"previous_response_id"}`, nil, ""},
		"nulls":                  {`{"previous_response_id":null,"conversation":null,"input":null}`, nil, ""},
		"a chain":                {`{"previous_response_id":"resp_1"}`, []responses.Reference{ref("previous_response_id", "resp_1")}, ""},
		"another spelling":       {`{"Previous_Response_ID":"resp_1"}`, nil, "Previous_Response_ID"},
		"a conversation":         {`{"conversation":"conv_1"}`, []responses.Reference{ref("conversation", "conv_1")}, ""},
		"a conversation object":  {`{"conversation":{"x":1,"id":"conv_1"}}`, []responses.Reference{ref("conversation", "conv_1")}, ""},
		"a conversation's ID":    {`{"conversation":{"ID":"conv_1"}}`, nil, "conversation.ID"},
		"an item reference":      {`{"input":["x",{"type":"item_reference","id":"msg_1"}]}`, []responses.Reference{ref("input[1].id", "msg_1")}, ""},
		"one without a type":     {`{"input":[{"id":"msg_1"}]}`, []responses.Reference{ref("input[0].id", "msg_1")}, ""},
		"one with a role too":    {`{"input":[{"type":"item_reference","role":"user","id":"msg_1"}]}`, []responses.Reference{ref("input[0].id", "msg_1")}, ""},
		"items to add":           {`{"items":[{"type":"item_reference","id":"msg_1"}]}`, []responses.Reference{ref("items[0].id", "msg_1")}, ""},
		"reasoning by id":        {`{"input":[{"type":"reasoning","id":"rs_1","summary":[]}]}`, []responses.Reference{ref("input[0].id", "rs_1")}, ""},
		"reasoning brought":      {`{"input":[{"type":"reasoning","id":"rs_1","encrypted_content":"x"}]}`, nil, ""},
		"reasoning, not brought": {`{"input":[{"type":"reasoning","id":"rs_1","encrypted_content":""}]}`, []responses.Reference{ref("input[0].id", "rs_1")}, ""},
		"messages brought":       {`{"input":[{"role":"assistant","id":"msg_1","content":"x"},{"type":"function_call","id":"fc_1"}]}`, nil, ""},
		"an unknown kind":        {`{"input":[{"type":"image_generation_call","id":"ig_1"}]}`, []responses.Reference{ref("input[0].id", "ig_1")}, ""},
		"a type in disguise":     {`{"input":[{"type":"reasoning","Type":"message","id":"rs_1"}]}`, nil, "input[0].Type"},
		"a role in disguise":     {`{"input":[{"type":"reasoning","role":"user","id":"rs_1"}]}`, []responses.Reference{ref("input[0].id", "rs_1")}, ""},
		"a seal in disguise":     {`{"input":[{"type":"file_search_call","encrypted_content":"x","id":"fs_1"}]}`, []responses.Reference{ref("input[0].id", "fs_1")}, ""},
		"an approval":            {`{"input":[{"type":"mcp_approval_response","approval_request_id":"mcpr_1","approve":true}]}`, []responses.Reference{ref("input[0].approval_request_id", "mcpr_1")}, ""},
		"a number":               {`{"previous_response_id":1}`, nil, "previous_response_id"},
		"a conversation of none": {`{"conversation":{}}`, nil, "conversation.id"},
		"a list":                 {`{"conversation":["conv_1"]}`, nil, "conversation"},
		"an item's number":       {`{"input":[{"type":"item_reference","id":7}]}`, nil, "input[0].id"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := responses.References([]byte(test.body))
			if test.err != "" {
				if e := responses.AsError(err); err == nil || e.Param != test.err {
					t.Fatalf("got %v, %v", got, err)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("%v, references (-want +got):\n%s", err, diff)
			}
		})
	}
}
