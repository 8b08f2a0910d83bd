package fakeupstream

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"slices"
	"strings"
)

// responsesInput is the input: a string, which is a message of the user, or a
// list of items.
type responsesInput []responsesItem

var _ json.UnmarshalerFrom = (*responsesInput)(nil)

// responsesItem is an input item of any type. Those that the mind does not read
// are passed over.
type responsesItem struct {
	Type    string         `json:"type"`
	ID      string         `json:"id"`
	Role    string         `json:"role"`
	Content jsontext.Value `json:"content"`
	CallID  string         `json:"call_id"`
	Output  jsontext.Value `json:"output"`
}

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (in *responsesInput) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '"' {
		return json.UnmarshalDecode(d, (*[]responsesItem)(in))
	}
	text, err := d.ReadValue()
	*in = []responsesItem{{Type: "message", Role: "user", Content: text.Clone()}}
	return err
}

// idPrefixes are what the first-party API insists on when items come back.
var idPrefixes = map[string]string{"message": "msg", "function_call": "fc", "reasoning": "rs"}

// read checks the items and takes their texts. The error is a *refusedError.
func (in responsesInput) read(p *prompt) error {
	var waiting []string // calls without a result yet: type and call_id
	for i, item := range in {
		at := fmt.Sprintf("input[%d]", i)
		if item.Type == "" && item.Role != "" {
			item.Type = "message"
		}
		if err := item.checkID(at); err != nil {
			return err
		}
		call, isResult := strings.CutSuffix(item.Type, "_output")
		if !isResult {
			p.results = nil
		}
		switch item.Type {
		case "":
			return missing(at + ".type")
		case "message":
			if err := item.readMessage(p, at); err != nil {
				return err
			}
		case "function_call", "custom_tool_call":
			waiting = append(waiting, item.Type+" "+item.CallID)
		case "function_call_output", "custom_tool_call_output":
			n := slices.Index(waiting, call+" "+item.CallID)
			if n < 0 {
				return refuse("input", "", "No tool call found for %s with call_id %s.", item.Type, item.CallID)
			}
			waiting = slices.Delete(waiting, n, n+1)
			if err := item.readResult(p, at); err != nil {
				return err
			}
		}
	}
	if len(waiting) > 0 {
		return refuse("input", "", "No tool output found for %s.", waiting[0])
	}
	return nil
}

func (item *responsesItem) checkID(at string) error {
	prefix := idPrefixes[item.Type]
	switch {
	case item.ID == "" || prefix == "":
		return nil
	case !strings.HasPrefix(item.ID, prefix):
		return refuse(at+".id", "invalid_value", "Invalid '%s.id': '%s'. Expected an ID that begins with '%s'.", at, item.ID, prefix)
	case len(item.ID) > 64:
		return refuse(at+".id", "string_above_max_length", "Invalid '%s.id': longer than 64.", at)
	}
	return nil
}

func (item *responsesItem) readMessage(p *prompt, at string) error {
	var c content
	if err := json.Unmarshal(item.Content, &c); err != nil {
		return refuse(at+".content", "", "Invalid '%s.content': %v", at, err)
	}
	p.words += len(strings.Fields(c.text))
	switch item.Role {
	case "user":
		p.text, p.faults = takeDirectives(c.text)
		p.images = c.images
	case "assistant", "system", "developer":
	default:
		return refuse(at+".role", "invalid_value", "Invalid value: '%s'.", item.Role)
	}
	return nil
}

func (item *responsesItem) readResult(p *prompt, at string) error {
	var c content
	if err := json.Unmarshal(item.Output, &c); err != nil {
		return refuse(at+".output", "", "Invalid '%s.output': %v", at, err)
	}
	p.words += len(strings.Fields(c.text))
	p.results = append(p.results, c.text)
	return nil
}
