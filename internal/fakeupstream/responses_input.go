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

	Tools            []jsontext.Value `json:"tools"` // of additional_tools and tool_search_output
	Summary          []contentPart    `json:"summary"`
	EncryptedContent string           `json:"encrypted_content"`
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

// An inputReader takes what the mind needs out of input items, one after the
// other, and checks them. Its errors are *refusedErrors.
type inputReader struct {
	prompt  *prompt
	waiting []string // calls without a result yet: type and call_id
	thought string   // reasoning with no call behind it yet
}

// read checks the items and takes their texts and tools. The error is a
// *refusedError.
func (in responsesInput) read(p *prompt) error {
	r := inputReader{prompt: p}
	for i := range in {
		if err := r.read(&in[i], fmt.Sprintf("input[%d]", i)); err != nil {
			return err
		}
	}
	if len(r.waiting) > 0 {
		return refuse("input", "", "No tool output found for %s.", r.waiting[0])
	}
	return nil
}

// read takes the item at a place in the request.
func (r *inputReader) read(item *responsesItem, at string) error {
	if item.Type == "" && item.Role != "" {
		item.Type = "message"
	}
	if err := item.check(at); err != nil {
		return err
	}
	p := r.prompt
	p.compact = item.Type == "compaction_trigger"
	if !strings.HasSuffix(item.Type, "_output") {
		p.results = nil
	}
	switch item.Type {
	case "message":
		return item.readMessage(p, at)
	case "reasoning":
		r.thought = item.thought()
	case "additional_tools":
		return item.readTools(p, at)
	case "function_call", "custom_tool_call", "tool_search_call":
		r.waiting = append(r.waiting, item.Type+" "+item.CallID)
		p.past = append(p.past, r.thought)
		r.thought = ""
	case "function_call_output", "custom_tool_call_output":
		if err := r.endCall(item); err != nil {
			return err
		}
		return item.readResult(p, at)
	case "tool_search_output":
		if err := r.endCall(item); err != nil {
			return err
		}
		return item.readFound(p, at)
	}
	return nil
}

// endCall checks that the item is the result of a call that has none yet.
func (r *inputReader) endCall(item *responsesItem) error {
	call := strings.TrimSuffix(item.Type, "_output")
	if call == "tool_search" {
		call = "tool_search_call"
	}
	n := slices.Index(r.waiting, call+" "+item.CallID)
	if n < 0 {
		return refuse("input", "", "No tool call found for %s with call_id %s.", item.Type, item.CallID)
	}
	r.waiting = slices.Delete(r.waiting, n, n+1)
	return nil
}

// seals are what the encrypted content of an item must be: nobody else can have
// made it.
var seals = map[string]string{"reasoning": fakeEncryptedContent, "compaction": fakeCompaction}

// check refuses what the first-party API refuses in any item.
func (item *responsesItem) check(at string) error {
	seal := seals[item.Type]
	switch {
	case item.Type == "":
		return missing(at + ".type")
	case seal != "" && item.EncryptedContent != seal && (item.EncryptedContent != "" || item.Type == "compaction"):
		return refuse(at+".encrypted_content", "invalid_encrypted_content", "The encrypted content of %s could not be verified.", at)
	}
	return item.checkID(at)
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
		p.hear(c)
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

// readTools takes the tools that the item adds to those of the request.
func (item *responsesItem) readTools(p *prompt, at string) (err error) {
	p.tools, err = appendTools(p.tools, item.Tools, at+".tools", "")
	return err
}

// readFound takes the tools that a search has found. Their names are its result.
func (item *responsesItem) readFound(p *prompt, at string) error {
	before := len(p.tools)
	if err := item.readTools(p, at); err != nil {
		return err
	}
	var names []string
	for _, t := range p.tools[before:] {
		names = append(names, t.path())
	}
	p.results = append(p.results, strings.Join(names, " "))
	return nil
}

// thought returns the text of a reasoning item, or nothing if it has lost its
// encrypted content, without which no provider takes it for its own.
func (item *responsesItem) thought() string {
	if item.EncryptedContent == "" {
		return ""
	}
	var summary content
	summary.add(item.Summary)
	return summary.text
}
