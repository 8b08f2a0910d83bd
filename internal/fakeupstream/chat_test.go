package fakeupstream_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
)

const chatPath = "/v1/chat/completions"

// chatBody renders an ask as a Chat Completions request.
func chatBody(a ask, stream bool) object {
	content := any(a.text)
	if a.images != nil {
		parts := []object{{"type": "text", "text": a.text}}
		for _, url := range a.images {
			parts = append(parts, object{"type": "image_url", "image_url": object{"url": url}})
		}
		content = parts
	}
	var messages []object
	if a.system != "" {
		messages = append(messages, object{"role": "system", "content": a.system})
	}
	messages = append(messages, object{"role": "user", "content": content})
	for round, texts := range a.results {
		var calls, results []object
		for i, text := range texts {
			id := fmt.Sprintf("call_%d_%d", round, i)
			calls = append(calls, object{"id": id, "type": "function", "function": object{"name": a.tools[0].name, "arguments": "{}"}})
			results = append(results, object{"role": "tool", "tool_call_id": id, "content": text})
		}
		assistant := object{"role": "assistant", "content": nil, "tool_calls": calls}
		if round < len(a.thoughts) {
			assistant["reasoning_content"] = a.thoughts[round]
		}
		messages = append(append(messages, assistant), results...)
	}
	if a.then != "" {
		messages = append(messages, object{"role": "user", "content": a.then})
	}
	body := object{"model": "tiny", "messages": messages}
	chatSettings(a, body)
	if stream {
		body["stream"], body["stream_options"] = true, object{"include_usage": true}
	}
	return body
}

func chatSettings(a ask, body object) {
	var tools []object
	for _, tool := range a.tools {
		function := object{"name": tool.name}
		if tool.schema != "" {
			function["parameters"] = value(tool.schema)
		}
		tools = append(tools, object{"type": "function", "function": function})
	}
	if tools != nil {
		body["tools"] = tools
	}
	switch a.choice {
	case "":
	case "none", "required":
		body["tool_choice"] = a.choice
	default:
		body["tool_choice"] = object{"type": "function", "function": object{"name": a.choice}}
	}
	if a.allowed != nil {
		var refs []object
		for _, name := range a.allowed {
			refs = append(refs, object{"type": "function", "function": object{"name": name}})
		}
		body["tool_choice"] = object{"type": "allowed_tools", "allowed_tools": object{"mode": "auto", "tools": refs}}
	}
	if a.serial {
		body["parallel_tool_calls"] = false
	}
	if a.schema != "" {
		body["response_format"] = object{"type": "json_schema", "json_schema": object{"name": "answer", "schema": value(a.schema)}}
	}
	if a.object {
		body["response_format"] = object{"type": "json_object"}
	}
	if a.limit > 0 {
		body["max_completion_tokens"] = a.limit
	}
}

type chatUsage struct {
	PromptTokens        int            `json:"prompt_tokens"`
	CompletionTokens    int            `json:"completion_tokens"`
	TotalTokens         int            `json:"total_tokens"`
	PromptTokensDetails map[string]int `json:"prompt_tokens_details"`
	OutputDetails       map[string]int `json:"completion_tokens_details"`
}

type chatCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type chatMessage struct {
	Role             string     `json:"role"`
	Content          *string    `json:"content"`
	ReasoningContent string     `json:"reasoning_content"`
	Refusal          *string    `json:"refusal"`
	ToolCalls        []chatCall `json:"tool_calls"`
	Annotations      []int      `json:"annotations"`
}

type chatChoice struct {
	Index        int          `json:"index"`
	Message      *chatMessage `json:"message"`
	Delta        *chatMessage `json:"delta"`
	Logprobs     *int         `json:"logprobs"`
	FinishReason *string      `json:"finish_reason"`
}

// chatObject is a completion or a chunk of one.
type chatObject struct {
	ID                string       `json:"id"`
	Object            string       `json:"object"`
	Created           int64        `json:"created"`
	Model             string       `json:"model"`
	Choices           []chatChoice `json:"choices"`
	Usage             *chatUsage   `json:"usage"`
	ServiceTier       string       `json:"service_tier"`
	SystemFingerprint string       `json:"system_fingerprint"`
}

func TestChatRulesWhole(t *testing.T) {
	t.Parallel()
	for name, tt := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := send(t, &fakeupstream.ModelOptions{Now: clock}, "POST", chatPath, chatBody(tt.ask, false).String())
			if got.status != 200 || got.header.Get("Content-Type") != "application/json" {
				t.Fatalf("status %d, %s: %s", got.status, got.header.Get("Content-Type"), got.body)
			}
			completion := decode[chatObject](t, got.body)
			if completion.Object != "chat.completion" {
				t.Errorf("object %q", completion.Object)
			}
			choice := completion.Choices[0]
			diff(t, "answer", tt.want, chatSaid(t, completion, *choice.Message, choice.FinishReason))
		})
	}
}

func TestChatRulesStreamed(t *testing.T) {
	t.Parallel()
	for name, tt := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := send(t, &fakeupstream.ModelOptions{Now: clock}, "POST", chatPath, chatBody(tt.ask, true).String())
			if got.status != 200 || got.header.Get("Content-Type") != "text/event-stream" || got.err != nil {
				t.Fatalf("status %d, %s, %v: %s", got.status, got.header.Get("Content-Type"), got.err, got.body)
			}
			diff(t, "answer", tt.want, foldChat(t, got.body, tt.want.Out))
		})
	}
}

// foldChat checks the order of a stream and puts its answer together.
func foldChat(t *testing.T, body string, tokens int) said {
	t.Helper()
	list, rest := frames(t, body)
	if rest != "" || len(list) < 3 || list[len(list)-1].data != "[DONE]" {
		t.Fatalf("the stream does not end with [DONE]: %q", body)
	}
	var chunks []chatObject
	for _, f := range list[:len(list)-1] {
		chunk := decode[chatObject](t, f.data)
		if chunk.Object != "chat.completion.chunk" || !strings.Contains(f.data, `"usage":`) {
			t.Errorf("chunk %s", f.data)
		}
		chunks = append(chunks, chunk)
	}
	first := *chunks[0].Choices[0].Delta
	if first.Role != "assistant" || (first.Content != nil && *first.Content != "") {
		t.Errorf("the first delta is not the role alone: %+v", first)
	}
	last := chunks[len(chunks)-1]
	if len(last.Choices) == 0 {
		chunks = chunks[:len(chunks)-1]
	}
	end := chunks[len(chunks)-1]
	message := chatMessage{}
	deltas := 0
	for _, chunk := range chunks[1:] {
		if chunk.Usage != nil {
			t.Errorf("usage before the end: %+v", chunk)
		}
		deltas += message.add(t, *chunk.Choices[0].Delta)
	}
	if tokens > 0 && deltas != tokens {
		t.Errorf("%d deltas, want one per token: %d", deltas, tokens)
	}
	end.Usage = last.Usage
	return chatSaid(t, end, message, end.Choices[0].FinishReason)
}

// add returns how many tokens the delta carries.
func (m *chatMessage) add(t *testing.T, delta chatMessage) int {
	t.Helper()
	if delta.Role != "" {
		t.Errorf("role sent again: %+v", delta)
	}
	tokens := 0
	if delta.Content != nil {
		m.Content = concat(m.Content, *delta.Content)
		tokens++
	}
	if delta.Refusal != nil {
		m.Refusal = concat(m.Refusal, *delta.Refusal)
		tokens++
	}
	if delta.ReasoningContent != "" {
		m.ReasoningContent += delta.ReasoningContent
		tokens++
	}
	for _, call := range delta.ToolCalls {
		if call.ID != "" {
			if call.Index != len(m.ToolCalls) || call.Function.Arguments != "" {
				t.Errorf("call %+v opened at index %d", call, len(m.ToolCalls))
			}
			m.ToolCalls = append(m.ToolCalls, call)
			continue
		}
		m.ToolCalls[call.Index].Function.Arguments += call.Function.Arguments
		tokens++
	}
	return tokens
}

// chatSaid checks what every completion has and takes the answer out of it.
func chatSaid(t *testing.T, o chatObject, m chatMessage, reason *string) said {
	t.Helper()
	if !strings.HasPrefix(o.ID, "chatcmpl-") || o.Model != "tiny" || o.Created != clock().Unix() || len(o.Choices) != 1 {
		t.Errorf("envelope %+v", o)
	}
	got := said{Reasoning: m.ReasoningContent}
	if m.Content != nil {
		got.Text = *m.Content
	}
	if m.Refusal != nil {
		got.Refusal = *m.Refusal
	}
	wantReason := "stop"
	ids := map[string]bool{}
	for _, call := range m.ToolCalls {
		wantReason = "tool_calls"
		ids[call.ID] = true
		if !strings.HasPrefix(call.ID, "call_") || call.Type != "function" {
			t.Errorf("call %+v", call)
		}
		got.Calls = append(got.Calls, saidCall{call.Function.Name, call.Function.Arguments})
	}
	if len(ids) != len(m.ToolCalls) {
		t.Errorf("call ids are not unique: %+v", m.ToolCalls)
	}
	if reason == nil {
		t.Fatal("no finish_reason")
	}
	got.Truncated = *reason == "length"
	if !got.Truncated && *reason != wantReason {
		t.Errorf("finish_reason %q, want %q", *reason, wantReason)
	}
	if u := o.Usage; u != nil {
		got.In, got.Out, got.Thought = u.PromptTokens, u.CompletionTokens, u.OutputDetails["reasoning_tokens"]
		if u.TotalTokens != got.In+got.Out || u.PromptTokensDetails["cached_tokens"] != 0 {
			t.Errorf("usage %+v", u)
		}
	}
	return got
}

func TestChatUsageChunkIsOptional(t *testing.T) {
	t.Parallel()
	got := send(t, nil, "POST", chatPath, `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`)
	if strings.Contains(got.body, "usage") || !strings.HasSuffix(got.body, "\n\ndata: [DONE]\n\n") {
		t.Errorf("stream %q", got.body)
	}
}

func TestChatRefusesWhatTheAPIRefuses(t *testing.T) {
	t.Parallel()
	user := object{"role": "user", "content": "hi"}
	call := object{"role": "assistant", "tool_calls": []object{{"id": "c1", "type": "function", "function": object{"name": "f", "arguments": "{}"}}}}
	result := object{"role": "tool", "tool_call_id": "c1", "content": "r"}
	for name, tt := range map[string]struct {
		change object
		param  string
	}{
		"no model":                   {object{"model": nil}, "model"},
		"no messages":                {object{"messages": nil}, "messages"},
		"content of a wrong type":    {object{"messages": []object{{"role": "user", "content": 1}}}, ""},
		"unknown role":               {object{"messages": []object{{"role": "robot", "content": "hi"}}}, "messages[0].role"},
		"result without its call":    {object{"messages": []object{user, result}}, "messages[1].role"},
		"result twice":               {object{"messages": []object{user, call, result, result}}, "messages[3].role"},
		"call without a result":      {object{"messages": []object{user, call}}, "messages"},
		"result after something":     {object{"messages": []object{user, call, user, result}}, "messages[2].role"},
		"tool of the other protocol": {object{"tools": []object{{"type": "function", "name": "f"}}}, "tools[0].function.name"},
		"tool that is no function":   {object{"tools": []object{{"type": "web_search"}}}, "tools[0].type"},
		"choice of another protocol": {object{"tool_choice": object{"type": "function", "name": "f"}}, "tool_choice.function.name"},
		"choice of nothing":          {object{"tool_choice": "required"}, "tool_choice"},
		"choice of a strange word":   {object{"tool_choice": "any"}, "tool_choice"},
		"choice of a strange type":   {object{"tool_choice": object{"type": "any"}}, "tool_choice.type"},
		"choice of an unknown tool": {object{
			"tools":       []object{{"type": "function", "function": object{"name": "f"}}},
			"tool_choice": object{"type": "function", "function": object{"name": "g"}},
		}, "tool_choice"},
		"parallel without tools":  {object{"parallel_tool_calls": true}, "parallel_tool_calls"},
		"format without a schema": {object{"response_format": object{"type": "json_schema"}}, "response_format.json_schema.schema"},
		"negative limit":          {object{"max_tokens": -1}, "max_tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := object{"model": "m", "messages": []object{user}}
			for key, value := range tt.change {
				body[key] = value
			}
			checkRefused(t, send(t, nil, "POST", chatPath, body.String()), tt.param)
		})
	}
}

func checkRefused(t *testing.T, got outcome, param string) {
	t.Helper()
	type envelope struct {
		Error struct {
			Message string  `json:"message"`
			Type    string  `json:"type"`
			Param   *string `json:"param"`
			Code    *string `json:"code"`
		} `json:"error"`
	}
	if got.status != 400 {
		t.Fatalf("status %d, want 400: %s", got.status, got.body)
	}
	e := decode[envelope](t, got.body).Error
	if e.Type != "invalid_request_error" || e.Message == "" {
		t.Errorf("error %s", got.body)
	}
	if gotParam := concat(e.Param, ""); *gotParam != param {
		t.Errorf("param %q, want %q: %s", *gotParam, param, got.body)
	}
}

func TestChatErrorInsideTheStream(t *testing.T) {
	t.Parallel()
	got := send(t, nil, "POST", chatPath, chatBody(ask{text: "think [[error]]"}, true).String())
	list, rest := frames(t, got.body)
	// The role, five words of reasoning, one of text, the error, [DONE].
	if len(list) != 9 || rest != "" || got.err != nil {
		t.Fatalf("%d frames, rest %q, %v", len(list), rest, got.err)
	}
	if !strings.Contains(list[6].data, `{"content":"Thought"}`) {
		t.Errorf("before the error: %s", list[6].data)
	}
	if want := `{"error":{"message":"The server had an error while processing your request.","type":"server_error","param":null,"code":"server_error"}}`; list[7].data != want {
		t.Errorf("error frame %s, want %s", list[7].data, want)
	}
}

func TestChatCutAfterTheFirstToken(t *testing.T) {
	t.Parallel()
	got := send(t, nil, "POST", chatPath, chatBody(ask{text: "hi [[cut]]"}, true).String())
	list, rest := frames(t, got.body)
	if len(list) != 2 || len(rest) != 60 || !errors.Is(got.err, io.ErrUnexpectedEOF) {
		t.Errorf("%d frames, rest %q, %v; want role and token, a broken frame, %v", len(list), rest, got.err, io.ErrUnexpectedEOF)
	}
}

func clock() time.Time { return time.Unix(1_700_000_000, 0) }

func concat(s *string, more string) *string {
	if s != nil {
		more = *s + more
	}
	return &more
}
