package engine

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/tool"
)

func rawArguments(it responses.Item) string {
	if call, ok := it.(*responses.FunctionCall); ok {
		return call.Arguments
	}
	return ""
}

// resultOf is an outcome as an item tells it.
func resultOf(o outcome) (output *string, failure jsontext.Value, content []responses.Part, status responses.Status) {
	if o.err != nil {
		return nil, errorValue(o.err), nil, responses.StatusFailed
	}
	var texts []string
	plain := true
	for _, p := range o.result.Content {
		switch p := p.(type) {
		case *responses.InputText:
			texts = append(texts, strings.ToValidUTF8(p.Text, "\uFFFD"))
		default:
			plain = false
			texts = append(texts, "["+strings.TrimPrefix(p.Type(), "input_")+"]")
		}
	}
	text := strings.Join(texts, "\n")
	if o.result.IsError {
		return nil, executionError(text), nil, responses.StatusFailed
	}
	if !plain {
		content = readable(o.result.Content)
	}
	return &text, nil, content, responses.StatusCompleted
}

// readable returns parts that can be sent: a tool may return anything.
func readable(parts []responses.Part) []responses.Part {
	out := make([]responses.Part, len(parts))
	for i, p := range parts {
		out[i] = p
		if _, err := json.Marshal(p); err != nil {
			out[i] = &responses.InputText{Text: "[" + strings.TrimPrefix(p.Type(), "input_") + " that cannot be read]"}
			if t, ok := p.(*responses.InputText); ok {
				out[i] = &responses.InputText{Text: strings.ToValidUTF8(t.Text, "\uFFFD")}
			}
		}
	}
	return out
}

// told is what may be said of an error: the message of one of ours, whose cause is
// private, and the text of any other.
func told(err error) string {
	if e, ok := errors.AsType[*responses.Error](err); ok {
		return e.Message
	}
	return err.Error()
}

// errorValue is an error in the words of the API.
func errorValue(err error) jsontext.Value {
	e, ok := errors.AsType[*tool.Error](err)
	if !ok {
		return executionError(told(err))
	}
	typ := "http_error"
	if e.Protocol {
		typ = "mcp_protocol_error"
	}
	return marshaled(struct {
		Type    string `json:"type"`
		Code    int    `json:"code"`
		Message string `json:"message"`
	}{typ, e.Code, strings.ToValidUTF8(e.Message, "\uFFFD")})
}

func executionError(text string) jsontext.Value {
	type part struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	return marshaled(struct {
		Type    string `json:"type"`
		Content []part `json:"content"`
	}{"mcp_tool_execution_error", []part{{"text", strings.ToValidUTF8(text, "\uFFFD")}}})
}

func marshaled(v any) jsontext.Value {
	b, err := json.Marshal(v)
	if err != nil {
		return jsontext.Value("null") // cannot be: it is valid text
	}
	return b
}

// output is what the model is told of a call, nil if it is not to be told
// anything.
func (s *slot) output() responses.Item {
	content := responses.TextContent("Error: this tool may not be called now.")
	switch s.kind {
	case slotHosted:
		if s.result == nil {
			return nil
		}
		content = s.result.Result()
	case slotHidden:
	default:
		return nil
	}
	switch call := s.item.(type) {
	case *responses.FunctionCall:
		return &responses.FunctionCallOutput{CallID: call.CallID, Output: content}
	case *responses.CustomToolCall:
		return &responses.CustomToolCallOutput{CallID: call.CallID, Output: content}
	}
	return nil
}
