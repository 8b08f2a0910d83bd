package fakeupstream

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// chatRequest is a Chat Completions request, as far as the mind reads it.
type chatRequest struct {
	Model         string        `json:"model"`
	Messages      []chatMessage `json:"messages"`
	Stream        bool          `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Tools             []chatTool     `json:"tools"`
	ToolChoice        jsontext.Value `json:"tool_choice"`
	ParallelToolCalls *bool          `json:"parallel_tool_calls"`
	ResponseFormat    struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Schema jsontext.Value `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
	MaxTokens           int `json:"max_tokens"`
	MaxCompletionTokens int `json:"max_completion_tokens"`
}

type chatMessage struct {
	Role             string  `json:"role"`
	Content          content `json:"content"`
	ReasoningContent string  `json:"reasoning_content"`
	Reasoning        string  `json:"reasoning"`
	ToolCallID       string  `json:"tool_call_id"`
	ToolCalls        []struct {
		ID string `json:"id"`
	} `json:"tool_calls"`
}

type chatTool struct {
	Type     string `json:"type"`
	Function struct {
		Name       string         `json:"name"`
		Parameters jsontext.Value `json:"parameters"`
	} `json:"function"`
}

// answerChat answers POST /v1/chat/completions.
func (m *Model) answerChat(x *Exchange) Reply {
	var req chatRequest
	p, err := req.decode(x.Body)
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return refused.reply()
	}
	if failure, ok := p.faults.failure(req.Stream); ok {
		return failure
	}
	c := &completion{
		id:      "chatcmpl-" + m.id(),
		created: m.now().Unix(),
		request: &req,
		prompt:  p,
		delay:   m.pace(&p.faults),
		newID:   m.id,
	}
	if req.Stream {
		return p.faults.apply(Reply{
			ContentType: eventStream,
			Header:      http.Header{"Cache-Control": {"no-cache"}},
			Stream:      c.stream,
		})
	}
	return p.faults.apply(c.whole())
}

// decode parses and checks a request and returns what the mind needs of it. The
// error is a *refusedError.
func (r *chatRequest) decode(body []byte) (*prompt, error) {
	if err := decodeBody(body, r); err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	p := &prompt{
		parallel: r.ParallelToolCalls == nil || *r.ParallelToolCalls,
		limit:    r.MaxTokens,
	}
	if r.MaxCompletionTokens > 0 {
		p.limit = r.MaxCompletionTokens
	}
	switch r.ResponseFormat.Type {
	case "json_schema":
		p.format.schema = r.ResponseFormat.JSONSchema.Schema
	case "json_object":
		p.format.object = true
	}
	r.read(p)
	if err := p.checkThoughts("messages"); err != nil {
		return nil, err
	}
	p.faults.shorten(&p.limit)
	return p, r.decodeTools(p)
}

// read takes the texts of the messages.
func (r *chatRequest) read(p *prompt) {
	for _, message := range r.Messages {
		p.words += len(strings.Fields(message.Content.text))
		switch message.Role {
		case "user":
			p.hear(message.Content)
		case "tool":
			p.results = append(p.results, message.Content.text)
		default:
			p.results = nil
		}
		thought := message.ReasoningContent
		if p.faults.short {
			thought = message.Reasoning
		}
		for range message.ToolCalls {
			p.past = append(p.past, thought)
			thought = ""
		}
	}
}

func (r *chatRequest) decodeTools(p *prompt) error {
	var tools []tool
	for i, t := range r.Tools {
		if t.Type != "function" {
			return refuse(fmt.Sprintf("tools[%d].type", i), "invalid_value", "Invalid value: '%s'. Supported values are: 'function'.", t.Type)
		}
		if t.Function.Name == "" {
			return missing(fmt.Sprintf("tools[%d].function.name", i))
		}
		tools = append(tools, tool{name: t.Function.Name, schema: t.Function.Parameters})
	}
	choice, err := decodeToolChoice(r.ToolChoice, decodeChatToolChoice)
	if err != nil {
		return err
	}
	p.tools, err = choice.from(tools, len(tools))
	return err
}

func decodeChatToolChoice(raw jsontext.Value) (toolChoice, error) {
	type ref struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	var object struct {
		ref
		AllowedTools struct {
			Mode  string `json:"mode"`
			Tools []ref  `json:"tools"`
		} `json:"allowed_tools"`
	}
	if err := json.Unmarshal(raw, &object); err != nil {
		return toolChoice{}, refuse("tool_choice", "", "Invalid tool_choice: %v", err)
	}
	switch object.Type {
	case "function":
		if object.Function.Name == "" {
			return toolChoice{}, missing("tool_choice.function.name")
		}
		return toolChoice{must: true, only: []string{object.Function.Name}}, nil
	case "allowed_tools":
		choice := toolChoice{must: object.AllowedTools.Mode == "required", only: []string{}}
		for _, allowed := range object.AllowedTools.Tools {
			choice.only = append(choice.only, allowed.Function.Name)
		}
		return choice, nil
	}
	return toolChoice{}, refuse("tool_choice.type", "invalid_value", "Invalid value: '%s'.", object.Type)
}

// check refuses what the first-party API refuses, so that a translation that
// goes wrong is noticed.
func (r *chatRequest) check() error {
	switch {
	case r.Model == "":
		return missing("model")
	case len(r.Messages) == 0:
		return missing("messages")
	case r.MaxTokens < 0 || r.MaxCompletionTokens < 0:
		return refuse("max_tokens", "integer_below_min_value", "Invalid value: the most tokens must be at least 1.")
	case len(r.Tools) == 0 && r.ParallelToolCalls != nil:
		return refuse("parallel_tool_calls", "", "'parallel_tool_calls' is only allowed when 'tools' are specified.")
	case r.ResponseFormat.Type == "json_schema" && !given(r.ResponseFormat.JSONSchema.Schema):
		return missing("response_format.json_schema.schema")
	}
	return checkMessages(r.Messages)
}

// checkMessages checks the roles, and that every tool call has its result right
// behind it and every result its call.
func checkMessages(messages []chatMessage) error {
	var waiting []string // ids of calls without a result yet
	for i, message := range messages {
		param := fmt.Sprintf("messages[%d].role", i)
		switch message.Role {
		case "system", "developer", "user", "assistant":
		case "tool":
			call := slices.Index(waiting, message.ToolCallID)
			if call < 0 {
				return refuse(param, "", "A message with role 'tool' must answer one of the 'tool_calls' before it.")
			}
			waiting = slices.Delete(waiting, call, call+1)
			continue
		default:
			return refuse(param, "invalid_value", "Invalid value: '%s'.", message.Role)
		}
		if len(waiting) > 0 {
			return refuse(param, "", "No tool message answers these tool_call_ids: %s", strings.Join(waiting, ", "))
		}
		for _, call := range message.ToolCalls {
			waiting = append(waiting, call.ID)
		}
	}
	if len(waiting) > 0 {
		return refuse("messages", "", "No tool message answers these tool_call_ids: %s", strings.Join(waiting, ", "))
	}
	return nil
}
