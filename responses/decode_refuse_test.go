package responses_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/responses"
)

// A refusal is a body that DecodeRequest must not take, and how it must say so.
type refusal struct {
	name  string
	body  string
	code  responses.Code
	param string
}

func checkRefusals(t *testing.T, limits *responses.Limits, tests []refusal) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := responses.DecodeRequest([]byte(tt.body), limits)
			e, ok := errors.AsType[*responses.Error](err)
			if !ok {
				t.Fatalf("got %v, want a *responses.Error", err)
			}
			if e.Code != tt.code || e.Param != tt.param {
				t.Errorf("got %s at %q (%s), want %s at %q", e.Code, e.Param, e.Message, tt.code, tt.param)
			}
			if e.Message == "" || e.Origin != responses.OriginClient {
				t.Errorf("message %q, origin %q: want a message, and the client as the origin", e.Message, e.Origin)
			}
		})
	}
}

// TestRefusesWhatIsNotStrictJSON: two readers of one body must never see two
// different requests.
func TestRefusesWhatIsNotStrictJSON(t *testing.T) {
	t.Parallel()
	const bad = responses.CodeInvalidJSON
	checkRefusals(t, nil, []refusal{
		{"empty", ``, bad, ""},
		{"blank", " \n", bad, ""},
		{"array", `[]`, bad, ""},
		{"string", `"x"`, bad, ""},
		{"null", `null`, bad, ""},
		{"cut in a name", `{"mod`, bad, ""},
		{"cut in a value", `{"model":"m`, bad, "model"},
		{"cut before the end", `{"model":"m"`, bad, ""},
		{"trailing object", `{"model":"m"}{"model":"n"}`, bad, ""},
		{"trailing word", `{"model":"m"} x`, bad, ""},
		{"trailing comma", `{"model":"m",}`, bad, ""},
		{"comment", `{"model":"m"/*n*/}`, bad, ""},
		{"invalid UTF-8 in a value", "{\"model\":\"\xff\"}", bad, "model"},
		{"invalid UTF-8 in a name", "{\"model\xff\":\"m\"}", bad, ""},
		{"lone surrogate", `{"model":"\ud800"}`, bad, "model"},
		{"duplicate at the top", `{"model":"a","model":"b"}`, bad, "model"},
		{"duplicate by escape", `{"model":"a","mode\u006c":"b"}`, bad, "model"},
		{"duplicate in an item", `{"input":[{"role":"user","role":"system","content":"x"}]}`, bad, "input[0].role"},
		{"duplicate in a part", `{"input":[{"role":"user","content":[{"type":"input_text","text":"x","text":"y"}]}]}`, bad, "input[0].content[0].text"},
		{"duplicate in a tool", `{"tools":[{"type":"function","name":"a","name":"b"}]}`, bad, "tools[0].name"},
		{"duplicate in a format", `{"text":{"format":{"type":"text","type":"json_object"}}}`, bad, "text.format.type"},
		{"duplicate in a schema", `{"tools":[{"type":"function","name":"a","parameters":{"x":{},"x":{}}}]}`, bad, "tools[0].parameters.x"},
		{"duplicate in an unknown member", `{"acme":{"a":1,"a":2}}`, bad, "acme.a"},
		{"deep objects", strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000), bad, "a"},
		{"deep arrays that never end", `{"input":` + strings.Repeat(`[`, 10_000), bad, "input"},
		{"one level too deep", `{"acme":` + strings.Repeat(`[`, 256) + strings.Repeat(`]`, 256) + `}`, bad, "acme"},
	})
}

// TestRefusesOtherSpellings: a parser behind us that ignores case must not see a
// member that we took for an unknown one.
func TestRefusesOtherSpellings(t *testing.T) {
	t.Parallel()
	const bad = responses.CodeInvalidJSON
	checkRefusals(t, nil, []refusal{
		{"beside the right one", `{"model":"a","MODEL":"b"}`, bad, "MODEL"},
		{"alone", `{"Model":"a"}`, bad, "Model"},
		{"item", `{"input":[{"role":"user","content":"x","Content":"y"}]}`, bad, "input[0].Content"},
		{"item type", `{"input":[{"Type":"message","role":"user"}]}`, bad, "input[0].Type"},
		{"call", `{"input":[{"type":"function_call","call_id":"c","name":"n","NAME":"m"}]}`, bad, "input[0].NAME"},
		{"part", `{"input":[{"role":"user","content":[{"type":"input_text","TEXT":"x"}]}]}`, bad, "input[0].content[0].TEXT"},
		{"image part", `{"input":[{"role":"user","content":[{"type":"input_image","Image_url":"x"}]}]}`, bad, "input[0].content[0].Image_url"},
		{"output part", `{"input":[{"type":"function_call_output","call_id":"c","output":[{"type":"input_file","FILE_ID":"x"}]}]}`, bad, "input[0].output[0].FILE_ID"},
		{"summary part", `{"input":[{"type":"reasoning","summary":[{"type":"summary_text","Text":"x"}]}]}`, bad, "input[0].summary[0].Text"},
		{"tool", `{"tools":[{"type":"function","name":"a","Strict":true}]}`, bad, "tools[0].Strict"},
		{"tool choice", `{"tool_choice":{"type":"web_search","Type":"function"}}`, bad, "tool_choice.Type"},
		{"allowed tools", `{"tool_choice":{"type":"allowed_tools","MODE":"required","tools":[{"type":"web_search"}]}}`, bad, "tool_choice.MODE"},
		{"allowed tool", `{"tool_choice":{"type":"allowed_tools","tools":[{"type":"web_search","Name":"n"}]}}`, bad, "tool_choice.tools[0].Name"},
		{"tool in a namespace", `{"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f","Name":"g"}]}]}`, bad, "tools[0].tools[0].Name"},
		{"tool in an item", `{"input":[{"type":"additional_tools","tools":[{"type":"function","name":"f","Name":"g"}]}]}`, bad, "input[0].tools[0].Name"},
		{"unknown item", `{"input":[{"type":"acme:x","Type":"message"}]}`, bad, "input[0].Type"},
		{"unknown part", `{"input":[{"role":"user","content":[{"type":"acme:x","TYPE":"input_text"}]}]}`, bad, "input[0].content[0].TYPE"},
		{"unknown tool", `{"tools":[{"type":"acme:x","tYpe":"function"}]}`, bad, "tools[0].tYpe"},
		{"text", `{"text":{"FORMAT":{"type":"text"}}}`, bad, "text.FORMAT"},
		{"format", `{"text":{"format":{"type":"text","Schema":{}}}}`, bad, "text.format.Schema"},
		{"reasoning", `{"reasoning":{"Effort":"high"}}`, bad, "reasoning.Effort"},
		{"stream options", `{"stream_options":{"Include_Obfuscation":false}}`, bad, "stream_options.Include_Obfuscation"},
		{"long s", "{\"tool\u017F\":[]}", bad, "tool\u017F"},
		{"kelvin sign", "{\"\u212Aind\":1,\"bac\u212Aground\":true}", bad, "bac\u212Aground"},
	})
}

func TestRefusesMeaningless(t *testing.T) {
	t.Parallel()
	const (
		value   = responses.CodeInvalidValue
		missing = responses.CodeMissing
	)
	metadata := func(n int) string {
		var pairs []string
		for i := range n {
			pairs = append(pairs, fmt.Sprintf(`"k%d":"v"`, i))
		}
		return `{"metadata":{` + strings.Join(pairs, ",") + `}}`
	}
	checkRefusals(t, nil, []refusal{
		{"R2: messages", `{"model":"m","messages":[{"role":"user","content":"x"}]}`, responses.CodeUnsupported, "messages"},
		{"R2: messages beside input", `{"input":"x","messages":[]}`, responses.CodeUnsupported, "messages"},

		{"no role", `{"input":[{"content":"x"}]}`, missing, "input[0].role"},
		{"role null", `{"input":[{"role":null,"content":"x"}]}`, missing, "input[0].role"},
		{"string among items", `{"input":["x",{}]}`, responses.CodeInvalidType, "input[0]"},
		{"unknown role", `{"input":[{"role":"user"},{"role":"tool","content":"x"}]}`, value, "input[1].role"},
		{"role in capitals", `{"input":[{"role":"User","content":"x"}]}`, value, "input[0].role"},
		{"call without call_id", `{"input":[{"type":"function_call","name":"n","arguments":"{}"}]}`, missing, "input[0].call_id"},
		{"call without name", `{"input":[{"type":"function_call","call_id":"c","arguments":"{}"}]}`, missing, "input[0].name"},
		{"custom call without call_id", `{"input":[{"type":"custom_tool_call","name":"n"}]}`, missing, "input[0].call_id"},
		{"custom call without name", `{"input":[{"type":"custom_tool_call","call_id":"c"}]}`, missing, "input[0].name"},
		{"output without call_id", `{"input":[{"type":"function_call_output","output":"x"}]}`, missing, "input[0].call_id"},
		{"custom output without call_id", `{"input":[{"type":"custom_tool_call_output","output":"x"}]}`, missing, "input[0].call_id"},
		{"reference without id", `{"input":[{"type":"item_reference"}]}`, missing, "input[0].id"},
		{"compaction without content", `{"input":[{"type":"compaction"}]}`, missing, "input[0].encrypted_content"},

		{"part without type", `{"input":[{"role":"user","content":[{"type":"input_text","text":"x"},{"text":"y"}]}]}`, missing, "input[0].content[1].type"},
		{"output part without type", `{"input":[{"type":"function_call_output","call_id":"c","output":[{}]}]}`, missing, "input[0].output[0].type"},
		{"custom output part without type", `{"input":[{"type":"custom_tool_call_output","call_id":"c","output":[{}]}]}`, missing, "input[0].output[0].type"},
		{"summary part without type", `{"input":[{"type":"reasoning","summary":[{"text":"x"}]}]}`, missing, "input[0].summary[0].type"},
		{"reasoning part without type", `{"input":[{"type":"reasoning","content":[{"type":null}]}]}`, missing, "input[0].content[0].type"},

		{"image object without url", `{"input":[{"role":"user","content":[{"type":"input_image","image_url":{"URL":"u"}}]}]}`, missing, "input[0].content[0].image_url.url"},

		{"temperature too high", `{"temperature":2.01}`, value, "temperature"},
		{"temperature negative", `{"temperature":-0.1}`, value, "temperature"},
		{"top_p too high", `{"top_p":1.1}`, value, "top_p"},
		{"presence_penalty too low", `{"presence_penalty":-2.1}`, value, "presence_penalty"},
		{"frequency_penalty too high", `{"frequency_penalty":2.1}`, value, "frequency_penalty"},
		{"max_output_tokens too low", `{"max_output_tokens":15}`, value, "max_output_tokens"},
		{"max_tool_calls zero", `{"max_tool_calls":0}`, value, "max_tool_calls"},
		{"top_logprobs too high", `{"top_logprobs":21}`, value, "top_logprobs"},
		{"top_logprobs negative", `{"top_logprobs":-1}`, value, "top_logprobs"},
		{"truncation", `{"truncation":"always"}`, value, "truncation"},

		{"format without type", `{"text":{"format":{"name":"n"}}}`, missing, "text.format.type"},
		{"schema without name", `{"text":{"format":{"type":"json_schema","schema":{}}}}`, value, "text.format.name"},
		{"schema with a bad name", `{"text":{"format":{"type":"json_schema","name":"a b","schema":{}}}}`, value, "text.format.name"},
		{"schema with a long name", `{"text":{"format":{"type":"json_schema","name":"` + strings.Repeat("n", 65) + `","schema":{}}}}`, value, "text.format.name"},
		{"format without schema", `{"text":{"format":{"type":"json_schema","name":"n"}}}`, missing, "text.format.schema"},
		{"format with schema null", `{"text":{"format":{"type":"json_schema","name":"n","schema":null}}}`, missing, "text.format.schema"},

		{"metadata: too many", metadata(17), value, "metadata"},
		{"metadata: long name", `{"metadata":{"` + strings.Repeat("é", 65) + `":"v"}}`, value, "metadata"},
		{"metadata: long value", `{"metadata":{"k":"` + strings.Repeat("é", 513) + `"}}`, value, "metadata.k"},
	})
}

func TestRefusesTools(t *testing.T) {
	t.Parallel()
	const (
		value   = responses.CodeInvalidValue
		missing = responses.CodeMissing
		tools   = `"tools":[{"type":"function","name":"f"},{"type":"custom","name":"c"}]`
	)
	checkRefusals(t, nil, []refusal{
		{"no type", `{"tools":[{"name":"f"}]}`, missing, "tools[0].type"},
		{"no name", `{"tools":[{"type":"function"}]}`, value, "tools[0].name"},
		{"custom without name", `{"tools":[{"type":"custom"}]}`, value, "tools[0].name"},
		{"bad name", `{"tools":[{"type":"function","name":"f"},{"type":"function","name":"a b"}]}`, value, "tools[1].name"},
		{"long name", `{"tools":[{"type":"function","name":"` + strings.Repeat("n", 129) + `"}]}`, value, "tools[0].name"},
		{"parameters as a string", `{"tools":[{"type":"function","name":"f","parameters":"{}"}]}`, responses.CodeInvalidType, "tools[0].parameters"},

		{"namespace without name", `{"tools":[{"type":"namespace","tools":[]}]}`, missing, "tools[0].name"},
		{"namespace with a bad tool", `{"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"},{"type":"function"}]}]}`, value, "tools[0].tools[1].name"},
		{"additional tool without name", `{"input":[{"type":"additional_tools","tools":[{"type":"custom"}]}]}`, value, "input[0].tools[0].name"},
		{"found tool without type", `{"input":[{"type":"tool_search_output","tools":[{"name":"f"}]}]}`, missing, "input[0].tools[0].type"},

		{"choice: unknown word", `{` + tools + `,"tool_choice":"any"}`, value, "tool_choice"},
		{"choice: required without tools", `{"tool_choice":"required"}`, value, "tool_choice"},
		{"choice: other function", `{` + tools + `,"tool_choice":{"type":"function","name":"g"}}`, value, "tool_choice"},
		{"choice: function without name", `{` + tools + `,"tool_choice":{"type":"function"}}`, value, "tool_choice"},
		{"choice: custom named as function", `{` + tools + `,"tool_choice":{"type":"function","name":"c"}}`, value, "tool_choice"},
		{"choice: no tools at all", `{"tool_choice":{"type":"custom","name":"c"}}`, value, "tool_choice"},
		{"choice: no type", `{` + tools + `,"tool_choice":{"name":"f"}}`, value, "tool_choice"},
		{"allowed: no tools", `{` + tools + `,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]}}`, missing, "tool_choice.tools"},
		{"allowed: unknown mode", `{` + tools + `,"tool_choice":{"type":"allowed_tools","mode":"some","tools":[{"type":"function","name":"f"}]}}`, value, "tool_choice.mode"},
		{"allowed: other tool", `{` + tools + `,"tool_choice":{"type":"allowed_tools","tools":[{"type":"function","name":"f"},{"type":"function","name":"g"}]}}`, value, "tool_choice.tools[1]"},
	})
}

func TestRefusesTooMuch(t *testing.T) {
	t.Parallel()
	const big = responses.CodeTooLarge
	checkRefusals(t, &responses.Limits{Bytes: 200, Depth: 5, Items: 2, Tools: 2}, []refusal{
		{"bytes", `{"input":"` + strings.Repeat("x", 200) + `"}`, big, ""},
		{"depth", `{"input":[{"role":"user","content":[{"type":"input_text","acme":{}}]}]}`, responses.CodeInvalidJSON, "input"},
		{"items", `{"input":[{"role":"user"},{"role":"user"},{"role":"user"}]}`, big, "input"},
		{"tools", `{"tools":[{"type":"a"},{"type":"b"},{"type":"c"}]}`, big, "tools"},
		{"grouped tools", `{"tools":[{"type":"namespace","name":"n","tools":[{"type":"b"},{"type":"c"}]}]}`, big, "tools"},
	})
	t.Run("as much as allowed", func(t *testing.T) {
		t.Parallel()
		body := `{"input":[{"role":"user","content":[]},{"role":"user"}],"tools":[{"type":"a"},{"type":"b"}]}`
		limits := responses.Limits{Bytes: len(body), Depth: 4, Items: 2, Tools: 2}
		if _, err := responses.DecodeRequest([]byte(body), &limits); err != nil {
			t.Error(err)
		}
	})
	t.Run("default items", func(t *testing.T) {
		t.Parallel()
		body := `{"input":[` + strings.Repeat(`{"type":"a"},`, 100_000) + `{"type":"a"}]}`
		_, err := responses.DecodeRequest([]byte(body), nil)
		if e := responses.AsError(err); e == nil || e.Code != big || e.Param != "input" {
			t.Errorf("got %v, want %s at input", err, big)
		}
	})
	t.Run("default bytes", func(t *testing.T) {
		t.Parallel()
		_, err := responses.DecodeRequest(make([]byte, 64<<20+1), nil)
		if e := responses.AsError(err); e == nil || e.Code != big {
			t.Errorf("got %v, want %s", err, big)
		}
	})
}
