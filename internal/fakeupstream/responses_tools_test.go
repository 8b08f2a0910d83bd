package fakeupstream_test

import (
	"encoding/json/jsontext"
	"strings"
	"testing"
)

// Tools of every form that a client of Responses gives.
var (
	weatherFunction = object{"type": "function", "name": "get_weather", "parameters": value(citySchema)}
	patchTool       = object{"type": "custom", "name": "patch"}
	mapNamespace    = object{"type": "namespace", "name": "maps", "tools": []object{weatherFunction, {"type": "custom", "name": "draw"}}}
	searchTool      = object{"type": "tool_search", "execution": "client", "parameters": value(`{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}`)}
)

// outputOf asks a fresh model for a stream and returns the output items.
func outputOf(t *testing.T, body object) []string {
	t.Helper()
	body["model"], body["stream"] = "tiny", true
	got := send(t, nil, "POST", responsesPath, body.String())
	if got.status != 200 || got.err != nil {
		t.Fatalf("status %d, %v: %s", got.status, got.err, got.body)
	}
	list, rest := frames(t, got.body)
	if rest != "" {
		t.Fatalf("rest %q", rest)
	}
	terminal := decode[event](t, list[len(list)-1].data)
	var items []string
	for _, raw := range decode[response](t, string(terminal.Response)).Output {
		items = append(items, string(raw))
	}
	return items
}

func TestResponsesCallsToolsOfEveryForm(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text  string
		tools []object
		want  string // members of the item
	}{
		"function":              {`[[call get_weather {"city":"Rome"}]]`, []object{weatherFunction}, `"type":"function_call","status":"completed","arguments":"{\"city\":\"Rome\"}"`},
		"custom":                {`[[call patch "a\nb ]]"]]`, []object{patchTool}, `"input":"a\nb ]]"`},
		"custom, type":          {`[[call patch x]]`, []object{patchTool}, `"type":"custom_tool_call","status":"completed"`},
		"custom, text":          {`[[call patch a = b[0];]]`, []object{patchTool}, `"input":"a = b[0];"`},
		"custom, object":        {`[[call patch {"a":1}]]`, []object{patchTool}, `"input":"{\"a\":1}"`},
		"in a namespace":        {`[[call get_weather Rome]]`, []object{mapNamespace}, `"name":"get_weather","namespace":"maps"`},
		"by namespace":          {`[[call maps.get_weather Rome]]`, []object{weatherFunction, mapNamespace}, `"namespace":"maps"`},
		"custom in a namespace": {`[[call draw Rome]]`, []object{mapNamespace}, `"input":"Rome","name":"draw","namespace":"maps"`},
		"search":                {`[[call tool_search {"query":"weather"}]]`, []object{searchTool}, `"type":"tool_search_call","status":"completed","arguments":{"query":"weather"}`},
		"search at the client":  {`[[call tool_search weather]]`, []object{searchTool}, `"execution":"client"`},
		"search at the server":  {`[[call tool_search weather]]`, []object{{"type": "tool_search"}}, `There is no tool tool_search.`},
		"first of a namespace":  {`weather in Oslo`, []object{mapNamespace}, `"arguments":"{\"city\":\"Oslo\"}"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			items := outputOf(t, object{"input": tt.text, "tools": tt.tools})
			if len(items) != 1 {
				t.Fatalf("items %q, want one", items)
			}
			checkHolds(t, items[0], tt.want)
		})
	}
}

// A search and a compaction are announced and done; they have no events of
// their own.
func TestResponsesWholeItems(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]object{
		"search":     {"input": "[[call tool_search x]]", "tools": []object{searchTool}},
		"compaction": {"input": []object{{"role": "user", "content": "hi"}, {"type": "compaction_trigger"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body["model"], body["stream"] = "tiny", true
			list, _ := frames(t, send(t, nil, "POST", responsesPath, body.String()).body)
			var events []string
			for _, f := range list {
				events = append(events, f.event)
			}
			diff(t, "events", []string{
				"response.created", "response.in_progress", "response.output_item.added", "response.output_item.done", "response.completed",
			}, events)
		})
	}
}

func TestResponsesToolsFromTheInput(t *testing.T) {
	t.Parallel()
	user := object{"role": "user", "content": "[[call tool_search x]] [[call draw Rome]]"}
	search := object{"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": object{"query": "x"}}
	found := object{"type": "tool_search_output", "call_id": "c1", "execution": "client", "tools": []object{mapNamespace, patchTool}}
	tools := []object{searchTool}

	added := outputOf(t, object{"input": []object{{"type": "additional_tools", "role": "developer", "tools": tools}, user}})
	checkHolds(t, added[0], `"type":"tool_search_call"`)
	called := outputOf(t, object{"input": []object{user, search, found}, "tools": tools})
	checkHolds(t, called[0], `"name":"draw","namespace":"maps"`)
	missing := outputOf(t, object{"input": []object{{"role": "user", "content": "[[call draw Rome]]"}}, "tools": tools})
	checkHolds(t, missing[0], "There is no tool draw.")

	user["content"] = "[[call tool_search x]]"
	answered := outputOf(t, object{"input": []object{user, search, found}, "tools": tools})
	checkHolds(t, answered[0], "The tool answered: maps.get_weather maps.draw patch")
}

func TestResponsesCompacts(t *testing.T) {
	t.Parallel()
	user := object{"role": "user", "content": "weather in Rome"}
	items := outputOf(t, object{"input": []object{user, {"type": "compaction_trigger"}}, "tools": []object{weatherFunction}})
	if len(items) != 1 {
		t.Fatalf("items %q, want one", items)
	}
	checkHolds(t, items[0], `"type":"compaction","encrypted_content":"`+sealedCompaction+`"`)

	// The item comes back, and the conversation goes on.
	next := outputOf(t, object{"input": []any{user, jsontext.Value(items[0]), object{"role": "user", "content": "hi"}}})
	checkHolds(t, next[0], "You said: hi")
	over := outputOf(t, object{"input": []object{user, {"type": "compaction_trigger"}, {"role": "user", "content": "hi"}}})
	checkHolds(t, over[0], "You said: hi")
}

func checkHolds(t *testing.T, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%s does not hold %s", text, part)
	}
}
