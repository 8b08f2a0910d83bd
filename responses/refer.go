package responses

import (
	"bytes"
	"encoding/json/jsontext"
	"fmt"
	"strings"
)

// A Reference is an id by which a request refers to what somebody remembers.
type Reference struct {
	Param string // where it stands
	ID    string
}

// References returns what a body refers to by id: the previous response, the
// conversation, and items of "input" or "items" that whoever gets them would look
// up. An item that brings along all that it says may have any id. It is for bodies
// that pass on unread to an upstream that remembers, and errs on the side of taking
// something for a reference. The body is one that [PeekRequest] or [PeekModel] has
// accepted.
func References(body []byte) (refs []Reference, err error) {
	known, err := membersOf("", body, "previous_response_id", "conversation", "input", "items")
	if err != nil {
		return nil, err
	}
	if v := known["previous_response_id"]; v != nil {
		id, err := idOf("previous_response_id", v)
		if err != nil {
			return nil, err
		}
		refs = append(refs, Reference{"previous_response_id", id})
	}
	if v := known["conversation"]; v != nil {
		id, err := conversationID(v)
		if err != nil {
			return nil, err
		}
		refs = append(refs, Reference{"conversation", id})
	}
	for _, name := range []string{"input", "items"} {
		more, err := itemReferences(name, known[name])
		if err != nil {
			return nil, err
		}
		refs = append(refs, more...)
	}
	return refs, nil
}

func idOf(param string, v jsontext.Value) (string, error) {
	if v.Kind() != '"' {
		return "", InvalidParam(CodeInvalidType, param, "Must be a string, not %s.", kindName(v.Kind()))
	}
	return stringOf(v), nil
}

// conversationID reads the two forms of a conversation: its id, or an object with
// it.
func conversationID(v jsontext.Value) (string, error) {
	if v.Kind() != '{' {
		return idOf("conversation", v)
	}
	known, err := membersOf("conversation", v, "id")
	if err != nil {
		return "", err
	}
	return idOf("conversation.id", known["id"])
}

// itemReferences returns the references among items.
func itemReferences(param string, v jsontext.Value) (refs []Reference, err error) {
	dec := jsontext.NewDecoder(bytes.NewReader(v))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '[' {
		return nil, nil // a text has none
	}
	for i := 0; dec.PeekKind() != ']'; i++ {
		item, err := dec.ReadValue()
		if err != nil {
			return nil, fieldError(err)
		}
		more, err := itemReference(fmt.Sprintf("%s[%d]", param, i), item)
		if err != nil {
			return nil, err
		}
		refs = append(refs, more...)
	}
	return refs, nil
}

// brings reports whether an item of the type says all there is to it.
func brings(typ string, hasRole, hasSealed bool) bool {
	switch typ {
	case "":
		return hasRole // a message may be without a type
	case TypeMessage, TypeFunctionCall, TypeFunctionCallOutput, "custom_tool_call", "custom_tool_call_output":
		return true
	case TypeReasoning, TypeCompaction:
		return hasSealed
	}
	return false
}

// itemReference returns what an item refers to: itself, unless it says all there
// is to it, and the request that it approves.
func itemReference(param string, item jsontext.Value) (refs []Reference, err error) {
	known, err := membersOf(param, item, "id", "type", "role", "approval_request_id", "encrypted_content")
	if err != nil {
		return nil, err
	}
	if brings(stringOf(known["type"]), known["role"] != nil, stringOf(known["encrypted_content"]) != "") {
		delete(known, "id")
	}
	for _, name := range []string{"id", "approval_request_id"} {
		if v := known[name]; v != nil {
			id, err := idOf(param+"."+name, v)
			if err != nil {
				return nil, err
			}
			refs = append(refs, Reference{param + "." + name, id})
		}
	}
	return refs, nil
}

// membersOf returns those members of an object that have a name and are not null.
// One that differs from a name only by case is refused: whoever reads the bytes
// next may take it for that.
func membersOf(param string, obj jsontext.Value, names ...string) (map[string]jsontext.Value, error) {
	found := map[string]jsontext.Value{}
	for name, v := range Members(obj) {
		for _, known := range names {
			switch {
			case !strings.EqualFold(name, known):
			case name != known:
				return nil, InvalidParam(CodeInvalidJSON, strings.TrimPrefix(param+"."+name, "."), "Unknown member %q: did you mean %q? Names are case-sensitive.", name, known)
			case v.Kind() != 'n':
				found[name] = v
			}
		}
	}
	return found, nil
}
