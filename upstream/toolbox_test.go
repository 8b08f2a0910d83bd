package upstream_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

func toolbox(t *testing.T, body string) (*upstream.Toolbox, error) {
	t.Helper()
	req, err := responses.DecodeRequest([]byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	return upstream.NewToolbox(req)
}

// TestToolboxNamesBothWays: every kind of tool has one function name, and a call
// of it is again a call of that tool.
func TestToolboxNamesBothWays(t *testing.T) {
	t.Parallel()
	box, err := toolbox(t, `{"model":"m","tools":[
		{"type":"function","name":"plain","description":"d","parameters":{"type":"object"},"strict":false},
		{"type":"function","name":"bare"},
		{"type":"custom","name":"patch","description":"Edits.","format":{"type":"grammar","syntax":"lark","definition":"start: X"}},
		{"type":"namespace","name":"mcp__toy","tools":[{"type":"function","name":"get.weather","defer_loading":true}]},
		{"type":"namespace","name":"functions","tools":[{"type":"custom","name":"exec"}]},
		{"type":"tool_search","execution":"client","description":"Finds tools.","parameters":{"type":"object"}},
		{"type":"web_search","external_web_access":false}],
		"input":[{"type":"additional_tools","tools":[{"type":"function","name":"late"}]},
			{"type":"tool_search_call","call_id":"c","arguments":{}},
			{"type":"tool_search_output","call_id":"c","tools":[{"type":"namespace","name":"ns","tools":[{"type":"function","name":"found"}]}]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]responses.Callee{
		"plain":                 {Kind: "function_call", Name: "plain"},
		"bare":                  {Kind: "function_call", Name: "bare"},
		"patch":                 {Kind: "custom_tool_call", Name: "patch"},
		"mcp__toy__get_weather": {Kind: "function_call", Namespace: "mcp__toy", Name: "get.weather"},
		"exec":                  {Kind: "custom_tool_call", Name: "exec"},
		"tool_search":           {Kind: "tool_search_call", Name: "tool_search"},
		"late":                  {Kind: "function_call", Name: "late"},
		"ns__found":             {Kind: "function_call", Namespace: "ns", Name: "found"},
	}
	got := map[string]responses.Callee{}
	for _, f := range box.Functions {
		got[f.Name] = box.Callee(f.Name)
		if name := box.Name(f.Callee); name != f.Name {
			t.Errorf("%+v is called %q and %q", f.Callee, f.Name, name)
		}
		if f.Parameters.Kind() != '{' {
			t.Errorf("%s has no parameters", f.Name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("functions (-want +got):\n%s", diff)
	}
	if d := box.Functions[2].Description; !strings.Contains(d, "Edits.") || !strings.Contains(d, "start: X") {
		t.Errorf("the grammar is not in the description: %q", d)
	}
	var lost []string
	for _, l := range box.Losses {
		lost = append(lost, l.Param)
	}
	if diff := cmp.Diff([]string{"tools[2].format", "tools[6]"}, lost); diff != "" {
		t.Errorf("losses (-want +got):\n%s", diff)
	}
	if c := box.Callee("invented"); c.Name != "invented" || c.Kind != responses.TypeFunctionCall {
		t.Errorf("an unknown function is %+v", c)
	}
	if name := box.Name(responses.Callee{Namespace: "functions", Name: "exec"}); name != "exec" {
		t.Errorf("the plain namespace adds to the name: %q", name)
	}
}

func TestToolboxRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ body, param string }{
		"a hosted tool":      {`{"tools":[{"type":"file_search","vector_store_ids":[]}]}`, "tools[0]"},
		"a server's search":  {`{"tools":[{"type":"tool_search"}]}`, "tools[0]"},
		"nested namespaces":  {`{"tools":[{"type":"namespace","name":"a","tools":[{"type":"namespace","name":"b","tools":[]}]}]}`, "tools[0].tools[0]"},
		"the same name":      {`{"tools":[{"type":"function","name":"f"},{"type":"function","name":"f"}]}`, "tools[1]"},
		"a flattened twin":   {`{"tools":[{"type":"function","name":"a__b"},{"type":"namespace","name":"a","tools":[{"type":"function","name":"b"}]}]}`, "tools[1].tools[0]"},
		"a twin of any kind": {`{"tools":[{"type":"function","name":"f"},{"type":"custom","name":"f"}]}`, "tools[1]"},
		"a twin in an item":  {`{"tools":[{"type":"function","name":"f"}],"input":[{"type":"additional_tools","tools":[{"type":"custom","name":"f"}]}]}`, "input[0].tools[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := toolbox(t, test.body)
			if e := responses.AsError(err); e == nil || e.Code != responses.CodeUnsupported || e.Param != test.param {
				t.Errorf("got %v, want a refusal of %s", err, test.param)
			}
		})
	}
}

func TestToolboxTakesTheLatestOfTheSameTool(t *testing.T) {
	t.Parallel()
	box, err := toolbox(t, `{"tools":[{"type":"function","name":"f","description":"old"}],
		"input":[{"type":"additional_tools","tools":[{"type":"function","name":"f","description":"new"}]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if len(box.Functions) != 1 || box.Functions[0].Description != "new" {
		t.Errorf("got %+v", box.Functions)
	}
}

func TestToolboxKeepsToAllowedTools(t *testing.T) {
	t.Parallel()
	box, err := toolbox(t, `{"tools":[{"type":"function","name":"a"},{"type":"custom","name":"b"},{"type":"function","name":"c"}],
		"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"a"},{"type":"custom","name":"b"}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	if len(box.Functions) != 2 {
		t.Errorf("got %+v", box.Functions)
	}
}

// TestLongNamesStayApart: names that do not fit are shortened, and differently.
func TestLongNamesStayApart(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 70)
	box, err := toolbox(t, `{"tools":[{"type":"namespace","name":"s","tools":[{"type":"function","name":"`+long+`a"},{"type":"function","name":"`+long+`b"}]}]}`)
	if err != nil {
		t.Fatal(err)
	}
	a, b := box.Functions[0].Name, box.Functions[1].Name
	if a == b || len(a) > 64 || len(b) > 64 {
		t.Errorf("names are %q and %q", a, b)
	}
	if c := box.Callee(b); c.Name != long+"b" || c.Namespace != "s" {
		t.Errorf("%q is a call of %+v", b, c)
	}
}

func TestFreeFormInput(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, arguments, want string }{
		{"wrapped", upstream.WrapInput("a \"b\"\n\x00é"), "a \"b\"\n\x00é"},
		{"empty", upstream.WrapInput(""), ""},
		{"spaced", ` { "input" : "a" } `, "a"},
		{"bare text", "a", "a"},
		{"JSON text", `"a"`, `"a"`},
		{"no input", `{}`, `{}`},
		{"null", `{"input":null}`, `{"input":null}`},
		{"not text", `{"input":1}`, `{"input":1}`},
		{"more members", `{"input":"a","b":1}`, `{"input":"a","b":1}`},
		{"another case", `{"Input":"a"}`, `{"Input":"a"}`},
		{"twice", `{"input":"a","input":"b"}`, `{"input":"a","input":"b"}`},
		{"cut", `{"input":"a`, `{"input":"a`},
		{"nothing", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := upstream.UnwrapInput(tt.arguments); got != tt.want {
				t.Errorf("UnwrapInput(%q) = %q, want %q", tt.arguments, got, tt.want)
			}
		})
	}
}
