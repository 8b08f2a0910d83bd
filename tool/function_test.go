package tool_test

import (
	"context"
	"encoding/json/jsontext"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/tool"
)

func nothing(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text(""), nil }

// TestWhoseFunction: a tool of the gateway is told apart from the client's own by
// what the request leaves out (R43).
func TestWhoseFunction(t *testing.T) {
	t.Parallel()
	e, err := tool.Functions(
		tool.Function{Tool: tool.Tool{Name: "weather"}, Run: nothing},
		tool.Function{Tool: tool.Tool{Name: "clock"}, Override: true, Run: nothing},
		tool.Function{Tool: tool.Tool{Name: "search"}, StandsFor: []string{"web_search"}, Run: nothing},
	)
	if err != nil {
		t.Fatal(err)
	}
	for entry, want := range map[string]string{
		`{"type":"function","name":"weather"}`:                                "weather",
		`{"type":"function","name":"weather","parameters":null}`:              "weather",
		`{"type":"function","name":"weather","parameters":{}}`:                "",
		`{"type":"function","name":"weather","parameters":{"type":"object"}}`: "",
		`{"type":"function","name":"clock","parameters":{"type":"object"}}`:   "clock",
		`{"type":"function","name":"other"}`:                                  "",
		`{"type":"custom","name":"weather"}`:                                  "",
		`{"type":"web_search"}`:                                               "search",
		`{"type":"web_search","filters":{}}`:                                  "search",
		`{"type":"file_search","vector_store_ids":[]}`:                        "",
		`{"type":"mcp","server_label":"weather"}`:                             "",
		`{"type":"namespace","name":"weather","tools":[]}`:                    "",
	} {
		r, err := responses.DecodeRequest([]byte(`{"tools":[`+entry+`]}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Runs(r.Tools[0]); got != (want != "") {
			t.Errorf("%s: Runs says %t, want %q to run", entry, got, want)
		}
		set, err := e.Open(t.Context(), &tool.Ask{Tool: r.Tools[0]})
		if (err == nil) != (want != "") || err == nil && (len(set.Tools) != 1 || set.Tools[0].Name != want) {
			t.Errorf("%s: opened %v, %v, want %q", entry, set, err, want)
		}
	}
}

func TestFunctionsRefuses(t *testing.T) {
	t.Parallel()
	ok := tool.Function{Tool: tool.Tool{Name: "a"}, Run: nothing}
	with := func(change func(*tool.Function)) tool.Function {
		f := ok
		change(&f)
		return f
	}
	for want, list := range map[string][]tool.Function{
		"two of that name":   {ok, ok},
		"64 letters":         {with(func(f *tool.Function) { f.Name = "a b" })},
		"nothing to run":     {with(func(f *tool.Function) { f.Run = nil })},
		"JSON Schema object": {with(func(f *tool.Function) { f.Parameters = jsontext.Value(`[]`) })},
		"told apart by name": {with(func(f *tool.Function) { f.StandsFor = []string{"function"} })},
		`as "a" does`: {
			with(func(f *tool.Function) { f.StandsFor = []string{"x"} }),
			with(func(f *tool.Function) { f.Name, f.StandsFor = "b", []string{"x"} }),
		},
	} {
		if _, err := tool.Functions(list...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	r := &tool.Result{Content: []responses.Part{
		&responses.InputText{Text: "four"}, &responses.InputImage{ImageURL: "six666"}, &responses.InputFile{Filename: "five5", FileData: "two", FileURL: "x"},
		&responses.UnknownPart{Name: "x", Raw: jsontext.Value(`{"type":"x"}`)},
	}}
	if got, want := r.Size(), 4+6+9+12; got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}

// TestJSON: a structured result is text with sorted members, and what cannot be
// encoded is the tool's failure (R43).
func TestJSON(t *testing.T) {
	t.Parallel()
	r, err := tool.JSON(map[string]int{"b": 2, "a": 1})
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := r.Content[0].(*responses.InputText); !ok || text.Text != `{"a":1,"b":2}` {
		t.Errorf("got %+v", r.Content[0])
	}
	if _, err := tool.JSON(make(chan int)); err == nil {
		t.Error("a channel is no result")
	}
}
