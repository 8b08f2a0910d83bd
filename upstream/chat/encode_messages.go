package chat

import (
	"fmt"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// A passage is a message and what must follow it directly.
type passage struct {
	at      string // the place in the input where it begins
	message message
	said    parts    // the assistant's texts
	thought []string // the assistant's reasoning
	field   string   // the member that the server gave it under
	results []message
	media   parts // of the results
}

// history orders the input into passages.
type history struct {
	passages []*passage
	// speaking is the assistant's passage that its next item belongs to; nil if
	// someone else spoke last.
	speaking *passage
	calls    map[string]calledBy // by call id; the latest where one is used again
}

type calledBy struct {
	passage *passage
	name    string
}

// messages encodes the instructions and the input.
func (e *encoder) messages() error {
	h := &history{calls: map[string]calledBy{}}
	everyone := func(responses.Item) bool { return true } // whoever ran it: no chat server did
	for i, it := range upstream.AsFunctions(e.req.Input.Items, everyone, upstream.HostedFunction) {
		if err := e.item(h, fmt.Sprintf("input[%d]", i), it); err != nil {
			return err
		}
	}
	if in := e.req.Instructions; in != nil && *in != "" {
		e.wire.Messages = append(e.wire.Messages, message{Role: "system", Content: textContent(*in)})
	}
	for _, p := range h.passages {
		e.passage(p)
	}
	return nil
}

// item adds one input item to the history.
func (e *encoder) item(h *history, at string, it responses.Item) error {
	switch it := it.(type) {
	case *responses.Message:
		return e.message(h, at, it)
	case *responses.Reasoning:
		e.pastReasoning(h, at, it)
	case *responses.FunctionCall:
		e.losses.ItemMembers(at, it.Extra)
		e.pastCall(h, at, it.CallID, responses.Callee{Namespace: it.Namespace, Name: it.Name}, it.Arguments)
	case *responses.CustomToolCall:
		e.losses.ItemMembers(at, it.Extra)
		e.pastCall(h, at, it.CallID, responses.Callee{Namespace: it.Namespace, Name: it.Name}, upstream.WrapInput(it.Input))
	case *responses.ToolSearchCall:
		e.losses.ItemMembers(at, it.Extra)
		e.pastCall(h, at, it.CallID, responses.Callee{Name: responses.TypeToolSearch}, string(it.Arguments))
	case *responses.FunctionCallOutput:
		e.losses.ItemMembers(at, it.Extra)
		return e.result(h, at, it.CallID, it.Output)
	case *responses.CustomToolCallOutput:
		e.losses.ItemMembers(at, it.Extra)
		return e.result(h, at, it.CallID, it.Output)
	case *responses.ToolSearchOutput:
		return e.result(h, at, it.CallID, responses.TextContent(e.box.Found(it.Tools)))
	case *responses.AdditionalTools: // in the toolbox
	case *responses.UnknownItem:
		e.losses.Add(at, "The upstream cannot take an item of type %q; it was left out.", it.Name)
	default:
		return responses.Unsupported(at, "This model's upstream cannot take an item of type %q.", it.Type())
	}
	return nil
}

func (e *encoder) message(h *history, at string, m *responses.Message) error {
	e.losses.ItemMembers(at, m.Extra)
	if m.Phase != "" {
		e.losses.Once(at, "phase", upstream.NotSent)
	}
	said, err := e.parts(at+".content", m.Content.Parts)
	if err != nil {
		return err
	}
	c := textContent(said.text())
	if said.hasMedia() {
		if m.Role != responses.RoleUser {
			return responses.Unsupported(at+".content", "This model's upstream takes only text in a message of the role %q.", m.Role)
		}
		c = content{parts: said}
	}
	if m.Role == responses.RoleAssistant {
		p := h.assistant(at)
		p.said = append(p.said, said...)
		return nil
	}
	role := m.Role
	if role == responses.RoleDeveloper && !e.opts.DeveloperRole {
		role = responses.RoleSystem
	}
	h.speaking = nil
	h.passages = append(h.passages, &passage{at: at, message: message{Role: string(role), Content: c}})
	return nil
}

// assistant returns the passage that what the assistant says at the given place
// belongs to.
func (h *history) assistant(at string) *passage {
	if h.speaking == nil {
		h.speaking = &passage{at: at, message: message{Role: string(responses.RoleAssistant)}}
		h.passages = append(h.passages, h.speaking)
	}
	return h.speaking
}

func (e *encoder) pastCall(h *history, at, callID string, callee responses.Callee, arguments string) {
	if arguments == "" {
		arguments = "{}" // servers parse it
	}
	name := e.box.Name(callee)
	p := h.assistant(at)
	p.message.ToolCalls = append(p.message.ToolCalls, toolCall{
		ID: callID, Type: "function", Function: function{Name: name, Arguments: arguments},
	})
	h.calls[callID] = calledBy{passage: p, name: name}
}

// result puts the output of a call behind the message that called.
func (e *encoder) result(h *history, at, callID string, output responses.Content) error {
	by, ok := h.calls[callID]
	if !ok {
		return responses.InvalidParam(responses.CodeInvalidValue, at+".call_id", "There is no call %q before this output.", callID)
	}
	out, err := e.parts(at+".output", output.Parts)
	if err != nil {
		return err
	}
	if by.passage == h.speaking {
		h.speaking = nil // what the assistant says next, it says knowing the result
	}
	text := out.text()
	if out.hasMedia() {
		by.passage.addMedia(callID, by.name, out)
		if text == "" {
			text = "The result is not text: it follows in the next user message."
		}
	}
	by.passage.results = append(by.passage.results, message{Role: "tool", ToolCallID: callID, Content: textContent(text)})
	return nil
}

// addMedia keeps what a tool message cannot hold, with a note of whose it is.
func (p *passage) addMedia(callID, name string, result parts) {
	p.media = append(p.media, textPart(fmt.Sprintf("From the result of %s (%s):", name, callID)))
	for _, part := range result {
		if part.Type != textType {
			p.media = append(p.media, part)
		}
	}
}

// passage writes the messages of p.
func (e *encoder) passage(p *passage) {
	m := p.message
	if m.Role == string(responses.RoleAssistant) {
		thought := strings.Join(p.thought, "\n")
		if p.field == fieldReasoning {
			m.Reasoning = thought
		} else {
			m.ReasoningContent = thought
		}
		if text := p.said.text(); text != "" {
			m.Content = textContent(text)
		} else if len(m.ToolCalls) == 0 {
			// Servers refuse a message of the assistant that says nothing.
			if thought != "" {
				e.losses.Once(p.at, "summary", "Reasoning that led to no text and no call was not sent.")
			}
			return
		}
	}
	e.wire.Messages = append(e.wire.Messages, m)
	e.wire.Messages = append(e.wire.Messages, p.results...)
	if len(p.media) > 0 {
		e.wire.Messages = append(e.wire.Messages, message{Role: string(responses.RoleUser), Content: content{parts: p.media}})
	}
}
