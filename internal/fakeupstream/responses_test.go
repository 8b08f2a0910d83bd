package fakeupstream_test

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
)

const responsesPath = "/v1/responses"

// What the model seals, and takes back from nobody else.
const (
	sealedReasoning  = "ZmFrZSByZWFzb25pbmc="
	sealedCompaction = "ZmFrZSBzdW1tYXJ5"
)

// responsesBody renders an ask as a Responses request.
func responsesBody(a ask, stream bool) object {
	content := any(a.text)
	if a.images != nil {
		parts := []object{{"type": "input_text", "text": a.text}}
		for _, url := range a.images {
			parts = append(parts, object{"type": "input_image", "image_url": url})
		}
		content = parts
	}
	input := []object{{"role": "user", "content": content}}
	for round, texts := range a.results {
		var calls, results []object
		for i, text := range texts {
			id := fmt.Sprintf("call_%d_%d", round, i)
			calls = append(calls, object{"type": "function_call", "call_id": id, "name": a.tools[0].name, "arguments": "{}"})
			results = append(results, object{"type": "function_call_output", "call_id": id, "output": text})
		}
		if round < len(a.thoughts) {
			input = append(input, object{
				"type": "reasoning", "encrypted_content": sealedReasoning,
				"summary": []object{{"type": "summary_text", "text": a.thoughts[round]}},
			})
		}
		input = append(append(input, calls...), results...)
	}
	if a.then != "" {
		input = append(input, object{"role": "user", "content": a.then})
	}
	body := object{"model": "tiny", "input": input, "stream": stream}
	if a.system != "" {
		body["instructions"] = a.system
	}
	responsesSettings(a, body)
	return body
}

func responsesSettings(a ask, body object) {
	var tools []object
	for _, tool := range a.tools {
		function := object{"type": "function", "name": tool.name}
		if tool.schema != "" {
			function["parameters"] = value(tool.schema)
		}
		tools = append(tools, function)
	}
	if tools != nil {
		body["tools"] = tools
	}
	switch a.choice {
	case "":
	case "none", "required":
		body["tool_choice"] = a.choice
	default:
		body["tool_choice"] = object{"type": "function", "name": a.choice}
	}
	if a.allowed != nil {
		var refs []object
		for _, name := range a.allowed {
			refs = append(refs, object{"type": "function", "name": name})
		}
		body["tool_choice"] = object{"type": "allowed_tools", "tools": refs}
	}
	if a.serial {
		body["parallel_tool_calls"] = false
	}
	if a.schema != "" {
		body["text"] = object{"format": object{"type": "json_schema", "name": "answer", "schema": value(a.schema)}}
	}
	if a.object {
		body["text"] = object{"format": object{"type": "json_object"}}
	}
	if a.limit > 0 {
		body["max_output_tokens"] = a.limit
	}
}

func TestResponsesRulesWhole(t *testing.T) {
	t.Parallel()
	for name, tt := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := send(t, nil, "POST", responsesPath, responsesBody(tt.ask, false).String())
			if got.status != 200 || got.header.Get("Content-Type") != "application/json" {
				t.Fatalf("status %d, %s: %s", got.status, got.header.Get("Content-Type"), got.body)
			}
			diff(t, "answer", tt.want, responseSaid(t, decode[response](t, got.body)))
		})
	}
}

// The stream must follow the grammar, say the same as the rules, and end with
// exactly the object that the whole answer is.
func TestResponsesRulesStreamed(t *testing.T) {
	t.Parallel()
	opts := &fakeupstream.ModelOptions{Now: clock, ID: func() string { return "0" }}
	for name, tt := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := send(t, opts, "POST", responsesPath, responsesBody(tt.ask, true).String())
			if got.status != 200 || got.header.Get("Content-Type") != "text/event-stream" || got.err != nil {
				t.Fatalf("status %d, %s, %v: %s", got.status, got.header.Get("Content-Type"), got.err, got.body)
			}
			raw, tokens := followResponses(t, got.body)
			terminal := decode[response](t, string(raw))
			diff(t, "answer", tt.want, responseSaid(t, terminal))
			if tt.want.Out > 0 && tokens != tt.want.Out {
				t.Errorf("%d deltas, want one per token: %d", tokens, tt.want.Out)
			}
			whole := send(t, opts, "POST", responsesPath, responsesBody(tt.ask, false).String())
			diff(t, "terminal response", whole.body, string(raw))
		})
	}
}

func TestResponsesCustomToolGetsTheText(t *testing.T) {
	t.Parallel()
	body := responsesBody(ask{text: "patch both files"}, true)
	body["tools"] = []object{{"type": "web_search"}, {"type": "custom", "name": "patch"}, {"type": "function", "name": "f"}}
	got := send(t, nil, "POST", responsesPath, body.String())
	raw, _ := followResponses(t, got.body)
	want := []saidCall{{"patch", "patch both files"}, {"f", "{}"}}
	diff(t, "calls", want, responseSaid(t, decode[response](t, string(raw))).Calls)
}

func TestResponsesSealsReasoningOnRequest(t *testing.T) {
	t.Parallel()
	body := responsesBody(ask{text: "think"}, false)
	body["include"] = []string{"reasoning.encrypted_content"}
	got := decode[response](t, send(t, nil, "POST", responsesPath, body.String()).body)
	if sealed := decode[item](t, string(got.Output[0])).EncryptedContent; sealed == nil || *sealed == "" {
		t.Errorf("reasoning item %s has no encrypted_content", got.Output[0])
	}
}

func TestResponseEchoesTheRequest(t *testing.T) {
	t.Parallel()
	request := object{
		"model": "m", "input": "hi", "instructions": "Be brief.", "max_output_tokens": 100, "max_tool_calls": 2,
		"metadata": object{"k": "v"}, "parallel_tool_calls": false, "presence_penalty": 0.5, "frequency_penalty": 0.25,
		"prompt_cache_key": "key", "reasoning": object{"effort": "low"}, "safety_identifier": "id", "store": false,
		"temperature": 0.5, "top_p": 0.5, "top_logprobs": 3, "truncation": "auto", "user": "u", "tool_choice": "none",
		"text":  object{"format": object{"type": "json_schema", "name": "n", "schema": object{"type": "string"}}, "verbosity": "low"},
		"tools": []object{{"type": "function", "name": "f"}, {"type": "web_search"}},
	}
	want := object{}
	for name, value := range request {
		want[name] = value
	}
	delete(want, "input")
	want["reasoning"] = object{"effort": "low", "summary": nil}
	want["text"] = value(`{"format":{"description":null,"name":"n","schema":{"type":"string"},"strict":false,"type":"json_schema"},"verbosity":"low"}`)
	want["tools"] = value(`[{"description":null,"name":"f","parameters":null,"strict":true,"type":"function"},{"type":"web_search"}]`)

	got := object{}
	body := send(t, nil, "POST", responsesPath, request.String()).body
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	for name := range got {
		if _, echoed := want[name]; !echoed {
			delete(got, name)
		}
	}
	diff(t, "echo", canonical(t, want.String()), canonical(t, got.String()))
}

func TestResponsesRefusesWhatTheAPIRefuses(t *testing.T) {
	t.Parallel()
	user := object{"role": "user", "content": "hi"}
	call := object{"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
	result := object{"type": "function_call_output", "call_id": "c1", "output": "r"}
	for name, tt := range map[string]struct {
		change object
		param  string
	}{
		"no model":                   {object{"model": nil}, "model"},
		"no input":                   {object{"input": nil}, "input"},
		"messages":                   {object{"messages": []object{user}}, "messages"},
		"response_format":            {object{"response_format": object{"type": "json_object"}}, "response_format"},
		"max_tokens":                 {object{"max_tokens": 5}, "max_tokens"},
		"limit below one":            {object{"max_output_tokens": 0}, "max_output_tokens"},
		"unknown previous response":  {object{"previous_response_id": "resp_1"}, "previous_response_id"},
		"conversation":               {object{"conversation": "conv_1"}, "conversation"},
		"background":                 {object{"background": true}, "background"},
		"item without a type":        {object{"input": []object{{"text": "hi"}}}, "input[0].type"},
		"message of a strange role":  {object{"input": []object{{"role": "tool", "content": "hi"}}}, "input[0].role"},
		"message without content":    {object{"input": []object{{"role": "user"}}}, "input[0].content"},
		"foreign message id":         {object{"input": []object{{"role": "user", "content": "hi", "id": "chatcmpl-1"}}}, "input[0].id"},
		"foreign call id":            {object{"input": []object{{"type": "function_call", "id": "call_1", "call_id": "c1"}}}, "input[0].id"},
		"foreign reasoning":          {object{"input": []object{{"type": "reasoning", "summary": []object{}, "encrypted_content": "x"}, user}}, "input[0].encrypted_content"},
		"foreign compaction":         {object{"input": []object{{"type": "compaction", "encrypted_content": "x"}, user}}, "input[0].encrypted_content"},
		"empty compaction":           {object{"input": []object{{"type": "compaction"}, user}}, "input[0].encrypted_content"},
		"search without a result":    {object{"input": []object{user, {"type": "tool_search_call", "call_id": "c1"}}}, "input"},
		"result of another kind":     {object{"input": []object{user, call, {"type": "tool_search_output", "call_id": "c1"}}}, "input"},
		"namespace without a name":   {object{"tools": []object{{"type": "namespace"}}}, "tools[0].name"},
		"namespace in a namespace":   {object{"tools": []object{{"type": "namespace", "name": "a", "tools": []object{{"type": "namespace", "name": "b"}}}}}, "tools[0].tools[0].type"},
		"added tool without a name":  {object{"input": []object{{"type": "additional_tools", "tools": []object{{"type": "function"}}}, user}}, "input[0].tools[0].name"},
		"long id":                    {object{"input": []object{{"type": "reasoning", "id": "rs_" + strings.Repeat("0", 64)}}}, "input[0].id"},
		"result without its call":    {object{"input": []object{user, result}}, "input"},
		"result of the other kind":   {object{"input": []object{user, call, {"type": "custom_tool_call_output", "call_id": "c1", "output": "r"}}}, "input"},
		"result of a strange type":   {object{"input": []object{user, call, {"type": "function_call_output", "call_id": "c1", "output": 1}}}, "input[2].output"},
		"call without a result":      {object{"input": []object{user, call}}, "input"},
		"tool of the other protocol": {object{"tools": []object{{"type": "function", "function": object{"name": "f"}}}}, "tools[0].name"},
		"tool without a type":        {object{"tools": []object{{"name": "f"}}}, "tools[0].type"},
		"tool that is no object":     {object{"tools": []int{1}}, "tools[0]"},
		"choice of another protocol": {object{"tool_choice": object{"type": "function", "function": object{"name": "f"}}}, "tool_choice.name"},
		"choice without a type":      {object{"tool_choice": object{"name": "f"}}, "tool_choice.type"},
		"choice of nothing":          {object{"tool_choice": "required"}, "tool_choice"},
		"choice of an unknown tool": {object{
			"tools":       []object{{"type": "function", "name": "f"}},
			"tool_choice": object{"type": "allowed_tools", "mode": "auto", "tools": []object{{"type": "function", "name": "g"}}},
		}, "tool_choice"},
		"format without a name":   {object{"text": object{"format": object{"type": "json_schema", "schema": object{}}}}, "text.format.name"},
		"format without a schema": {object{"text": object{"format": object{"type": "json_schema", "name": "n"}}}, "text.format.schema"},
		"format that is a word":   {object{"text": object{"format": "json"}}, "text.format"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := object{"model": "m", "input": "hi"}
			for key, value := range tt.change {
				body[key] = value
			}
			checkRefused(t, send(t, nil, "POST", responsesPath, body.String()), tt.param)
		})
	}
}

func TestResponsesTakesWhatTheAPITakes(t *testing.T) {
	t.Parallel()
	hosted := []object{{"type": "web_search"}}
	for name, change := range map[string]object{
		"nulls":           {"tools": nil, "tool_choice": nil, "reasoning": nil, "text": nil, "stream": nil, "store": nil, "previous_response_id": nil, "conversation": nil, "max_output_tokens": nil, "metadata": nil, "messages": nil},
		"unknown members": {"client_metadata": object{"a": "b"}},
		"hosted tool":     {"tools": hosted, "tool_choice": object{"type": "web_search"}},
		"no allowed tool": {"tools": append(hosted, object{"type": "function", "name": "f"}), "tool_choice": object{"type": "allowed_tools", "mode": "auto", "tools": hosted}},
		"other items": {"input": []object{
			{"type": "reasoning", "id": "rs_1", "summary": []object{}, "content": nil},
			{"type": "reasoning", "id": "rs_2", "summary": []object{}, "encrypted_content": sealedReasoning},
			{"type": "compaction", "encrypted_content": sealedCompaction},
			{"type": "message", "id": "msg_1", "role": "assistant", "content": []object{{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "b"}}},
			{"type": "computer_call_output", "call_id": "c", "output": object{"type": "computer_screenshot"}},
			{"role": "user", "content": "hi"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := object{"model": "m", "input": "hi"}
			for key, value := range change {
				body[key] = value
			}
			got := send(t, nil, "POST", responsesPath, body.String())
			if got.status != 200 {
				t.Fatalf("status %d: %s", got.status, got.body)
			}
			if text := responseSaid(t, decode[response](t, got.body)).Text; text != "You said: hi" {
				t.Errorf("text %q", text)
			}
		})
	}
}

func TestResponsesErrorInsideTheStream(t *testing.T) {
	t.Parallel()
	got := send(t, nil, "POST", responsesPath, responsesBody(ask{text: "hi [[error]]"}, true).String())
	list, rest := frames(t, got.body)
	if rest != "" || got.err != nil {
		t.Fatalf("rest %q, %v", rest, got.err)
	}
	var events []string
	for _, f := range list {
		events = append(events, f.event)
	}
	diff(t, "events", []string{
		"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
		"response.output_text.delta", "error", "response.failed",
	}, events)
	const message = `"message":"The server had an error while processing your request."`
	diff(t, "error", `{"type":"error","sequence_number":5,"error":{`+message+`,"type":"server_error","param":null,"code":"server_error"}}`, list[5].data)
	for _, part := range []string{`"status":"failed"`, `"error":{"code":"server_error",` + message + `}`} {
		if !strings.Contains(list[6].data, part) {
			t.Errorf("failed response lacks %s: %s", part, list[6].data)
		}
	}
}

func canonical(t *testing.T, text string) string {
	t.Helper()
	v := jsontext.Value(text)
	if err := v.Canonicalize(); err != nil {
		t.Fatal(err)
	}
	return string(v)
}
