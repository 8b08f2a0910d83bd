package codex

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"slices"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// calls pairs the calls of the past with their outputs: Codex leaves out an output
// without a call, and invents one for a call without.
type calls struct {
	open map[string]string // call id → the place of a call that has no output yet
	done map[string]bool
	// order is that of the calls.
	order []string
}

// input encodes the past, item by item (R50).
func (e *encoder) input() error {
	c := &calls{open: map[string]string{}, done: map[string]bool{}}
	everyone := func(responses.Item) bool { return true } // whoever ran it: Codex did not
	for i, it := range upstream.AsFunctions(e.req.Input.Items, everyone, upstream.HostedFunction) {
		if err := e.item(c, fmt.Sprintf("input[%d]", i), it); err != nil {
			return err
		}
	}
	for _, id := range c.order {
		if at, ok := c.open[id]; ok {
			return responses.InvalidParam(responses.CodeInvalidValue, at, "The call %q has no output.", id)
		}
	}
	if e.out.items == nil {
		e.out.items = []jsontext.Value{}
	}
	return nil
}

func (e *encoder) item(c *calls, at string, it responses.Item) error {
	switch it := it.(type) {
	case *responses.Message:
		return e.message(at, it)
	case *responses.Reasoning:
		e.losses.ItemMembers(at, it.Extra)
		return e.add(&wireReasoning{Type: it.Type(), ID: ownID(it), Summary: it.Summary, Content: it.Content, EncryptedContent: it.EncryptedContent})
	case *responses.FunctionCall:
		e.losses.ItemMembers(at, it.Extra)
		return e.call(c, at, it, it.CallID, responses.Callee{Namespace: it.Namespace, Name: it.Name}, it.Arguments)
	case *responses.CustomToolCall:
		e.losses.ItemMembers(at, it.Extra)
		return e.call(c, at, it, it.CallID, responses.Callee{Namespace: it.Namespace, Name: it.Name}, upstream.WrapInput(it.Input))
	case *responses.ToolSearchCall:
		e.losses.ItemMembers(at, it.Extra)
		return e.call(c, at, it, it.CallID, responses.Callee{Name: responses.TypeToolSearch}, string(it.Arguments))
	case *responses.FunctionCallOutput:
		e.losses.ItemMembers(at, it.Extra)
		return e.output(c, at, it.CallID, it.Output)
	case *responses.CustomToolCallOutput:
		e.losses.ItemMembers(at, it.Extra)
		return e.output(c, at, it.CallID, it.Output)
	case *responses.ToolSearchOutput:
		return e.output(c, at, it.CallID, responses.TextContent(e.box.Found(it.Tools)))
	case *responses.AdditionalTools: // in the toolbox
		return nil
	case *responses.UnknownItem:
		if it.Name == "web_search_call" {
			return e.add(it)
		}
		return e.cannot(at, "The Codex app-server cannot take an item of type %q.", it.Name)
	}
	return responses.Unsupported(at, "This model's upstream cannot take an item of type %q.", it.Type())
}

// ownID is the item's id if it is one that can be sent, else "": Codex makes one.
// It must be the upstream's own beside encrypted content (R17).
func ownID(it responses.Item) string {
	if responses.ValidID(responses.ItemPrefix(it.Type()), it.ItemID()) {
		return it.ItemID()
	}
	return ""
}

func (e *encoder) message(at string, m *responses.Message) error {
	e.losses.ItemMembers(at, m.Extra)
	content, err := e.parts(at+".content", m.Content.Parts, m.Role == responses.RoleAssistant)
	if err != nil {
		return err
	}
	role := m.Role
	if role == responses.RoleSystem {
		role = responses.RoleDeveloper
	}
	return e.add(&wireMessage{Type: m.Type(), ID: ownID(m), Role: role, Content: content, Phase: m.Phase, Status: m.Status})
}

func (e *encoder) call(c *calls, at string, it responses.Item, callID string, callee responses.Callee, arguments string) error {
	c.open[callID] = at
	c.order = append(c.order, callID)
	w := &wireCall{
		Type: responses.TypeFunctionCall, CallID: callID, Name: e.box.Name(callee), Arguments: arguments, Status: responses.ItemStatus(it),
	}
	if it.Type() == responses.TypeFunctionCall {
		w.ID = ownID(it)
	}
	return e.add(w)
}

func (e *encoder) output(c *calls, at, callID string, output responses.Content) error {
	if _, ok := c.open[callID]; !ok && !c.done[callID] {
		return responses.InvalidParam(responses.CodeInvalidValue, at+".call_id", "There is no call %q before this output.", callID)
	}
	delete(c.open, callID)
	c.done[callID] = true
	w := &wireOutput{Type: responses.TypeFunctionCallOutput, CallID: callID}
	parts, err := e.parts(at+".output", output.Parts, false)
	if err != nil {
		return err
	}
	plain := output.Plain && len(output.Parts) == 1
	if plain {
		w.Output, err = json.Marshal(output)
	} else {
		w.Output, err = json.Marshal(parts)
	}
	if err != nil {
		return responses.Errorf(responses.CodeServer, "The request could not be encoded for the upstream.").WithCause(err)
	}
	return e.add(w)
}

// parts encodes content that stands at the given place.
func (e *encoder) parts(at string, in []responses.Part, assistant bool) ([]jsontext.Value, error) {
	out := []jsontext.Value{}
	for i, p := range in {
		part, err := e.part(fmt.Sprintf("%s[%d]", at, i), p, assistant)
		if err != nil {
			return nil, err
		}
		if part == nil {
			continue // reported as a loss
		}
		raw, err := json.Marshal(part)
		if err != nil {
			return nil, responses.Errorf(responses.CodeServer, "The request could not be encoded for the upstream.").WithCause(err)
		}
		out = append(out, raw)
	}
	return out, nil
}

func (e *encoder) part(at string, p responses.Part, assistant bool) (any, error) {
	kind := responses.TypeInputText
	if assistant {
		kind = responses.TypeOutputText
	}
	switch p := p.(type) {
	case *responses.InputText:
		e.losses.ItemMembers(at, p.Extra)
		return &wireText{Type: kind, Text: p.Text}, nil
	case *responses.OutputText:
		e.losses.ItemMembers(at, p.Extra)
		return &wireText{Type: kind, Text: p.Text, Annotations: p.Annotations}, nil
	case *responses.Refusal:
		e.losses.ItemMembers(at, p.Extra)
		return &wireText{Type: kind, Text: p.Refusal}, nil
	case *responses.InputImage:
		e.losses.ItemMembers(at, p.Extra)
		return e.image(at, p)
	case *responses.InputFile:
		return nil, responses.Unsupported(at, "The Codex app-server takes no files: send their text, or images of their pages.")
	}
	return nil, responses.Unsupported(at, "The Codex app-server cannot take content of type %q.", p.Type())
}

// details are the ones that Codex knows. It replaces an image with another one by
// an excuse.
var details = []string{"", "auto", "high", "original"}

func (e *encoder) image(at string, p *responses.InputImage) (any, error) {
	if !strings.HasPrefix(p.ImageURL, "data:") {
		return nil, e.cannot(at, "The Codex app-server takes images as data URLs only.")
	}
	image := &wireImage{Type: p.Type(), ImageURL: p.ImageURL, Detail: p.Detail}
	if !slices.Contains(details, p.Detail) {
		if err := e.cannot(at+".detail", "The Codex app-server has no image detail %q.", p.Detail); err != nil {
			return nil, err
		}
		image.Detail = "auto"
	}
	return image, nil
}
