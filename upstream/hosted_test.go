package upstream_test

import (
	"encoding/json/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// TestAsFunctions: what a server ran reaches a model that knows only functions as
// calls and their outputs, in the order that servers accept (R31, R44).
func TestAsFunctions(t *testing.T) {
	t.Parallel()
	const user = `{"type":"message","role":"user","content":"hi"}`
	for name, tt := range map[string]struct{ in, want string }{
		"nothing": {user, user},
		"parallel calls": {
			`{"type":"mcp_list_tools","id":"mcpl_1","server_label":"s","tools":[]},` +
				`{"type":"mcp_call","id":"mcp_1","server_label":"s","name":"a","arguments":"{}","output":"A"},` +
				`{"type":"mcp_call","id":"mcp_2","server_label":"s","name":"b.c","arguments":"","error":{"type":"http_error","code":500,"message":"down"}},` + user,
			`{"type":"function_call","call_id":"call_1","name":"s__a","arguments":"{}","status":"completed"},` +
				`{"type":"function_call","call_id":"call_2","name":"s__b_c","arguments":"","status":"completed"},` +
				`{"type":"function_call_output","call_id":"call_1","output":"A"},` +
				`{"type":"function_call_output","call_id":"call_2","output":"Error: down"},` + user,
		},
		"mixed turn": {
			`{"type":"mcp_call","id":"mcp_1","server_label":"s","name":"a","arguments":"{}","output":"A"},` +
				`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},` +
				`{"type":"function_call_output","call_id":"c","output":"F"}`,
			`{"type":"function_call","call_id":"call_1","name":"s__a","arguments":"{}","status":"completed"},` +
				`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},` +
				`{"type":"function_call_output","call_id":"call_1","output":"A"},` +
				`{"type":"function_call_output","call_id":"c","output":"F"}`,
		},
		"approved": {
			`{"type":"mcp_approval_request","id":"mcpr_1","server_label":"s","name":"a","arguments":"{}"},` +
				`{"type":"mcp_approval_response","approval_request_id":"mcpr_1","approve":true},` +
				`{"type":"mcp_call","id":"mcp_9","server_label":"s","name":"a","arguments":"{}","output":"A","approval_request_id":"mcpr_1"}`,
			`{"type":"function_call","call_id":"call_9","name":"s__a","arguments":"{}","status":"completed"},` +
				`{"type":"function_call_output","call_id":"call_9","output":"A"}`,
		},
		"denied": {
			`{"type":"mcp_approval_request","id":"mcpr_1","server_label":"s","name":"a","arguments":"{}"},` +
				`{"type":"mcp_approval_response","approval_request_id":"mcpr_1","approve":false,"reason":"not now"}`,
			`{"type":"function_call","call_id":"call_1","name":"s__a","arguments":"{}","status":"completed"},` +
				`{"type":"function_call_output","call_id":"call_1","output":"The call was not run: the user denied it, saying: not now"}`,
		},
		"not answered": {
			`{"type":"mcp_approval_request","id":"mcpr_1","server_label":"s","name":"a","arguments":"{}"},` + user,
			`{"type":"function_call","call_id":"call_1","name":"s__a","arguments":"{}","status":"completed"},` +
				`{"type":"function_call_output","call_id":"call_1","output":"The call was not run: it needs the user's approval, which was not given."},` + user,
		},
		"images and errors of tools": {
			`{"type":"mcp_call","server_label":"s","name":"a","arguments":"{}","output":"[image]","antiphon:content":[{"type":"input_image","image_url":"data:x"}]},` + user + `,` +
				`{"type":"mcp_call","id":"mcp_2","server_label":"s","name":"a","arguments":"{}","error":{"type":"mcp_tool_execution_error","content":[{"type":"text","text":"no"},{"type":"text","text":"way"}]}}`,
			`{"type":"function_call","call_id":"call_hosted_0","name":"s__a","arguments":"{}","status":"completed"},` +
				`{"type":"function_call_output","call_id":"call_hosted_0","output":[{"type":"input_image","image_url":"data:x"}]},` + user + `,` +
				`{"type":"function_call","call_id":"call_2","name":"s__a","arguments":"{}","status":"completed"},` +
				`{"type":"function_call_output","call_id":"call_2","output":"Error: no\nway"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := upstream.AsFunctions(items(t, tt.in), func(responses.Item) bool { return true }, upstream.HostedFunction)
			if diff := cmp.Diff(lines(t, items(t, tt.want)), lines(t, got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	kept := items(t, `{"type":"mcp_call","id":"mcp_1","server_label":"s","name":"a","arguments":"{}","output":"A"}`)
	if got := upstream.AsFunctions(kept, func(responses.Item) bool { return false }, upstream.HostedFunction); got[0] != kept[0] {
		t.Error("an item that is not to be translated was changed")
	}
}

func items(t *testing.T, list string) []responses.Item {
	t.Helper()
	r, err := responses.DecodeRequest([]byte(`{"input":[`+list+`]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.Input.Items
}

func lines(t *testing.T, items []responses.Item) string {
	t.Helper()
	var b strings.Builder
	for _, it := range items {
		line, err := json.Marshal(it)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.String()
}
