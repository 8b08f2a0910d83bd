package responses_test

import (
	"encoding/json/v2"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/responses"
)

// TestMCPTool reads what a request may say of a server's tools, in each of its
// spellings, and writes it as it came (R43, R45).
func TestMCPTool(t *testing.T) {
	t.Parallel()
	const entry = `{"type":"mcp","server_label":"files","server_url":"https://x.example/mcp","headers":{"X":"s3cret"},` +
		`"authorization":"s3cret","allowed_tools":{"tool_names":["a","b"],"read_only":true},` +
		`"require_approval":{"never":{"tool_names":["a"]},"always":["z"]},"defer_loading":true}`
	tool, ok := decode(t, `{"tools":[`+entry+`]}`).Tools[0].(*responses.MCPTool)
	if !ok {
		t.Fatal("it is no MCP tool")
	}
	for _, tt := range []struct {
		name     string
		readOnly bool
		allowed  bool
		approval bool
	}{{"a", true, true, false}, {"a", false, false, false}, {"b", true, true, true}, {"z", true, false, true}} {
		if got := tool.AllowedTools.Matches(tt.name, tt.readOnly); got != tt.allowed {
			t.Errorf("%s, read only %t: allowed %t, want %t", tt.name, tt.readOnly, got, tt.allowed)
		}
		if got := tool.RequireApproval.Needs(tt.name, tt.readOnly); got != tt.approval {
			t.Errorf("%s: needs approval %t, want %t", tt.name, got, tt.approval)
		}
	}
	got, err := json.Marshal(tool)
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, got, []byte(entry))
	shown, err := json.Marshal(tool.WithoutSecrets())
	if err != nil || strings.Contains(string(shown), "s3cret") || tool.Authorization == "" {
		t.Errorf("without secrets: %s, %v", shown, err)
	}
}

// TestMCPApprovalDefaults: what a client does not say needs approval, as the API
// has it.
func TestMCPApprovalDefaults(t *testing.T) {
	t.Parallel()
	for entry, want := range map[string]bool{
		``:                                       true,
		`,"require_approval":null`:               true,
		`,"require_approval":"always"`:           true,
		`,"require_approval":"never"`:            false,
		`,"require_approval":{}`:                 true,
		`,"require_approval":{"never":{}}`:       true,
		`,"require_approval":{"never":["x"]}`:    false,
		`,"require_approval":{"always":["y"]}`:   true,
		`,"require_approval":{"never":["y"]}`:    true,
		`,"require_approval":{"never":[]}`:       true,
		`,"allowed_tools":null`:                  true,
		`,"allowed_tools":["x"],"server_url":""`: true,
	} {
		tool := decode(t, `{"tools":[{"type":"mcp","server_label":"s"`+entry+`}]}`).Tools[0].(*responses.MCPTool)
		if got := tool.RequireApproval.Needs("x", false); got != want {
			t.Errorf("%s: needs approval %t, want %t", entry, got, want)
		}
	}
}

// TestMCPRefusals: a wrong entry is refused, and the field is named (R5).
func TestMCPRefusals(t *testing.T) {
	t.Parallel()
	for body, param := range map[string]string{
		`{"tools":[{"type":"mcp"}]}`:                                                        "tools[0].server_label",
		`{"tools":[{"type":"mcp","server_label":"1x"}]}`:                                    "tools[0].server_label",
		`{"tools":[{"type":"mcp","server_label":"x","require_approval":"maybe"}]}`:          "tools[0].require_approval",
		`{"tools":[{"type":"mcp","server_label":"x","require_approval":{"never":1}}]}`:      "tools[0].require_approval.never",
		`{"tools":[{"type":"mcp","server_label":"x","allowed_tools":[1]}]}`:                 "tools[0].allowed_tools[0]",
		`{"tools":[{"type":"mcp","server_label":"x","allowed_tools":{"tool_names":"a"}}]}`:  "tools[0].allowed_tools.tool_names",
		`{"tools":[{"type":"mcp","server_label":"x","headers":{"A":1}}]}`:                   "tools[0].headers.A",
		`{"tools":[{"type":"mcp","server_label":"x","Server_URL":"https://evil.example"}]}`: "tools[0].Server_URL",
		`{"input":[{"type":"mcp_approval_response","approve":true}]}`:                       "input[0].approval_request_id",
		`{"input":[{"type":"mcp_approval_request","server_label":"x","name":"y"}]}`:         "input[0].id",
		`{"input":[{"type":"mcp_call","name":"y","arguments":""}]}`:                         "input[0].server_label",
	} {
		_, err := responses.DecodeRequest([]byte(body), nil)
		if e := responses.AsError(err); e == nil || e.Param != param {
			t.Errorf("%s: got %v, want a refusal of %s", body, err, param)
		}
	}
}

// TestMCPGrammar: the events of a call that the server runs are held to their
// order in a response, and left alone in a turn of an upstream that runs its own.
func TestMCPGrammar(t *testing.T) {
	t.Parallel()
	call := func(status responses.Status, arguments string) *responses.MCPCall {
		return &responses.MCPCall{ID: "mcp_1", ServerLabel: "s", Name: "n", Arguments: arguments, Status: status}
	}
	event := func(typ responses.EventType, text string) responses.Event {
		return responses.Event{Type: typ, ItemID: "mcp_1", Text: text}
	}
	legal := []responses.Event{
		{Type: responses.EventItemAdded, Item: call(responses.StatusInProgress, "")},
		event(responses.EventMCPCallInProgress, ""),
		event(responses.EventMCPArgumentsDelta, `{"a":`), event(responses.EventMCPArgumentsDelta, `1}`),
		event(responses.EventMCPArgumentsDone, `{"a":1}`),
		event(responses.EventMCPCallCompleted, ""),
		{Type: responses.EventItemDone, Item: call(responses.StatusCompleted, `{"a":1}`)},
	}
	for name, tt := range map[string]struct {
		change func(events []responses.Event) []responses.Event
		wrong  string
	}{
		"legal":             {func(e []responses.Event) []responses.Event { return e }, ""},
		"other arguments":   {func(e []responses.Event) []responses.Event { e[4].Text = "{}"; return e }, "not what the deltas said"},
		"another item":      {func(e []responses.Event) []responses.Event { e[5].ItemID = "mcp_2"; return e }, "item_id"},
		"before the item":   {func(e []responses.Event) []responses.Event { return e[1:] }, "not added"},
		"done says another": {func(e []responses.Event) []responses.Event { e[6].Item = call("completed", "{}"); return e }, "not what the events before said"},
		"list of a call":    {func(e []responses.Event) []responses.Event { e[1].Type = responses.EventMCPListInProgress; return e }, "belongs to"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := responses.NewGrammar()
			resp := &responses.Response{ID: "resp_1"}
			all := append([]responses.Event{{Type: responses.EventCreated, Response: resp}, {Type: responses.EventInProgress, Response: resp}},
				tt.change(append([]responses.Event(nil), legal...))...)
			var err error
			for i := range all {
				all[i].Seq = int64(i)
				if err = g.Check(&all[i]); err != nil {
					break
				}
			}
			if (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("got %v, want %q", err, tt.wrong)
			}
		})
	}
	turn := responses.NewTurnGrammar()
	for _, ev := range []responses.Event{event(responses.EventMCPCallInProgress, ""), event(responses.EventMCPArgumentsDelta, "x")} {
		if err := turn.Check(&ev); err != nil {
			t.Errorf("in a turn: %v", err)
		}
	}
}
