package responses_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/responses"
)

// samples has a value of each JSON kind, and a fraction because an integer is
// not any number.
var samples = []struct{ kind, value string }{
	{"string", `"x"`},
	{"integer", `17`},
	{"fraction", `0.5`},
	{"boolean", `true`},
	{"array", `[]`},
	{"object", `{}`},
}

// requestKinds says which JSON kinds each member of a request may have (R5).
var requestKinds = map[string]string{
	"model":                "string",
	"input":                "string array",
	"instructions":         "string",
	"previous_response_id": "string",
	"conversation":         "string object",
	"include":              "array",
	"tools":                "array",
	"tool_choice":          "string object",
	"parallel_tool_calls":  "boolean",
	"max_tool_calls":       "integer",
	"max_output_tokens":    "integer",
	"temperature":          "integer fraction",
	"top_p":                "integer fraction",
	"presence_penalty":     "integer fraction",
	"frequency_penalty":    "integer fraction",
	"top_logprobs":         "integer",
	"text":                 "object",
	"reasoning":            "object",
	"truncation":           "string",
	"store":                "boolean",
	"background":           "boolean",
	"stream":               "boolean",
	"stream_options":       "object",
	"service_tier":         "string",
	"metadata":             "object",
	"prompt_cache_key":     "string",
	"safety_identifier":    "string",
	"user":                 "string",
}

// nestedKinds does the same below the top, with %s where the value goes.
var nestedKinds = []struct{ param, body, kinds string }{
	{"include[0]", `{"include":[%s]}`, "string"},
	{"metadata.k", `{"metadata":{"k":%s}}`, "string"},
	{"reasoning.effort", `{"reasoning":{"effort":%s}}`, "string"},
	{"reasoning.summary", `{"reasoning":{"summary":%s}}`, "string"},
	{"stream_options.include_obfuscation", `{"stream_options":{"include_obfuscation":%s}}`, "boolean"},
	{"text.verbosity", `{"text":{"verbosity":%s}}`, "string"},
	{"text.format", `{"text":{"format":%s}}`, "object"},
	{"text.format.type", `{"text":{"format":{"type":%s}}}`, "string"},
	{"text.format.name", `{"text":{"format":{"type":"text","name":%s}}}`, "string"},
	{"text.format.description", `{"text":{"format":{"type":"text","description":%s}}}`, "string"},
	{"text.format.strict", `{"text":{"format":{"type":"text","strict":%s}}}`, "boolean"},
	{"tool_choice.type", `{"tool_choice":{"type":%s}}`, "string"},
	{"tool_choice.name", `{"tool_choice":{"type":"function","name":%s}}`, "string"},
	{"tool_choice.mode", `{"tool_choice":{"type":"allowed_tools","mode":%s}}`, "string"},
	{"tool_choice.tools", `{"tool_choice":{"type":"allowed_tools","tools":%s}}`, "array"},
	{"tool_choice.tools[0]", `{"tool_choice":{"type":"allowed_tools","tools":[%s]}}`, "object"},
	{"tool_choice.tools[0].name", `{"tool_choice":{"type":"allowed_tools","tools":[{"name":%s}]}}`, "string"},
	{"tools[0]", `{"tools":[%s]}`, "object"},
	{"tools[1].name", `{"tools":[{"type":"function","name":"f"},{"type":"function","name":%s}]}`, "string"},
	{"tools[0].description", `{"tools":[{"type":"function","name":"f","description":%s}]}`, "string"},
	{"tools[0].parameters", `{"tools":[{"type":"function","name":"f","parameters":%s}]}`, "object"},
	{"tools[0].strict", `{"tools":[{"type":"function","name":"f","strict":%s}]}`, "boolean"},
	{"tools[0].description", `{"tools":[{"type":"custom","name":"c","description":%s}]}`, "string"},
	{"input[0]", `{"input":[%s]}`, "object"},
	{"input[0].type", `{"input":[{"role":"user","content":"x","type":%s}]}`, "string"},
	{"input[0].content[0].type", `{"input":[{"role":"user","content":[{"type":%s}]}]}`, "string"},
	{"tools[0].type", `{"tools":[{"type":%s}]}`, "string"},
	{"input[0].id", `{"input":[{"role":"user","id":%s}]}`, "string"},
	{"input[0].role", `{"input":[{"role":%s}]}`, "string"},
	{"input[0].status", `{"input":[{"role":"user","status":%s}]}`, "string"},
	{"input[0].phase", `{"input":[{"role":"user","phase":%s}]}`, "string"},
	{"input[0].content", `{"input":[{"role":"user","content":%s}]}`, "string array"},
	{"input[1].content[0]", `{"input":[{"role":"user"},{"role":"user","content":[%s]}]}`, "object"},
	{"input[0].content[0].text", `{"input":[{"role":"user","content":[{"type":"input_text","text":%s}]}]}`, "string"},
	{"input[0].content[0].text", `{"input":[{"role":"user","content":[{"type":"output_text","text":%s}]}]}`, "string"},
	{"input[0].content[0].annotations", `{"input":[{"role":"user","content":[{"type":"output_text","annotations":%s}]}]}`, "array"},
	{"input[0].content[0].logprobs", `{"input":[{"role":"user","content":[{"type":"output_text","logprobs":%s}]}]}`, "array"},
	{"input[0].content[0].logprobs[0].token", `{"input":[{"role":"user","content":[{"type":"output_text","logprobs":[{"token":%s}]}]}]}`, "string"},
	{"input[0].content[0].refusal", `{"input":[{"role":"user","content":[{"type":"refusal","refusal":%s}]}]}`, "string"},
	{"input[0].content[0].image_url", `{"input":[{"role":"user","content":[{"type":"input_image","image_url":%s}]}]}`, "string object"},
	{"input[0].content[0].image_url.url", `{"input":[{"role":"user","content":[{"type":"input_image","image_url":{"url":%s}}]}]}`, "string"},
	{"input[0].content[0].image_url.detail", `{"input":[{"role":"user","content":[{"type":"input_image","image_url":{"url":"u","detail":%s}}]}]}`, "string"},
	{"input[0].content[0].detail", `{"input":[{"role":"user","content":[{"type":"input_image","detail":%s}]}]}`, "string"},
	{"input[0].content[0].file_data", `{"input":[{"role":"user","content":[{"type":"input_file","file_data":%s}]}]}`, "string"},
	{"input[1].text", `{"input":[{"role":"user","content":"x"},{"type":"input_text","text":%s}]}`, "string"},
	{"input[0].image_url.url", `{"input":[{"type":"input_image","image_url":{"url":%s}}]}`, "string"},
	{"input[0].call_id", `{"input":[{"type":"function_call","name":"n","call_id":%s}]}`, "string"},
	{"input[0].name", `{"input":[{"type":"function_call","call_id":"c","name":%s}]}`, "string"},
	{"input[0].arguments", `{"input":[{"type":"function_call","call_id":"c","name":"n","arguments":%s}]}`, "string"},
	{"input[0].input", `{"input":[{"type":"custom_tool_call","call_id":"c","name":"n","input":%s}]}`, "string"},
	{"input[0].output", `{"input":[{"type":"function_call_output","call_id":"c","output":%s}]}`, "string array"},
	{"input[0].output[0].text", `{"input":[{"type":"custom_tool_call_output","call_id":"c","output":[{"type":"input_text","text":%s}]}]}`, "string"},
	{"input[0].summary", `{"input":[{"type":"reasoning","summary":%s}]}`, "array"},
	{"input[0].summary[0].text", `{"input":[{"type":"reasoning","summary":[{"type":"summary_text","text":%s}]}]}`, "string"},
	{"input[0].content[0].text", `{"input":[{"type":"reasoning","content":[{"type":"reasoning_text","text":%s}]}]}`, "string"},
	{"input[0].encrypted_content", `{"input":[{"type":"reasoning","encrypted_content":%s}]}`, "string"},
	{"input[0].encrypted_content", `{"input":[{"type":"compaction","encrypted_content":%s}]}`, "string"},
	{"input[0].tools", `{"input":[{"type":"additional_tools","tools":%s}]}`, "array"},
	{"input[0].tools[0].name", `{"input":[{"type":"additional_tools","tools":[{"type":"function","name":%s}]}]}`, "string"},
	{"input[0].call_id", `{"input":[{"type":"tool_search_call","call_id":%s}]}`, "string"},
	{"input[0].tools", `{"input":[{"type":"tool_search_output","tools":%s}]}`, "array"},
	{"input[0].id", `{"input":[{"type":"compaction_trigger","id":%s}]}`, "string"},
	{"tools[0].tools", `{"tools":[{"type":"namespace","name":"n","tools":%s}]}`, "array"},
	{"tools[0].tools[0].strict", `{"tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f","strict":%s}]}]}`, "boolean"},
	{"tools[0].execution", `{"tools":[{"type":"tool_search","execution":%s}]}`, "string"},
	{"input[0].id", `{"input":[{"type":"item_reference","id":%s}]}`, "string"},
}

// TestRefusesWrongTypes puts a value of every kind into every member. The wrong
// kinds must be refused as a type, by the name of the member; the right ones may
// be refused for what they say, but never as a type.
func TestRefusesWrongTypes(t *testing.T) {
	t.Parallel()
	for name, kinds := range requestKinds {
		checkKinds(t, name, `{"`+name+`":%s}`, kinds)
	}
	for _, n := range nestedKinds {
		checkKinds(t, n.param, n.body, n.kinds)
	}
}

func checkKinds(t *testing.T, param, format, kinds string) {
	t.Helper()
	for _, s := range samples {
		body := fmt.Sprintf(format, s.value)
		_, err := responses.DecodeRequest([]byte(body), nil)
		e := responses.AsError(err)
		wrongType := e != nil && e.Code == responses.CodeInvalidType
		switch {
		case slices.Contains(strings.Fields(kinds), s.kind):
			if wrongType {
				t.Errorf("%s\n\tgot %v, want its type accepted", body, err)
			}
		case !wrongType || e.Param != param:
			t.Errorf("%s\n\tgot %v, want %s at %q", body, err, responses.CodeInvalidType, param)
		}
	}
}

// TestTypesCoverEveryMember keeps the table above whole when a request grows.
func TestTypesCoverEveryMember(t *testing.T) {
	t.Parallel()
	for f := range reflect.TypeFor[responses.Request]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if _, ok := requestKinds[name]; !ok && name != "" && name != "-" {
			t.Errorf("requestKinds does not say what %q may be", name)
		}
	}
}
