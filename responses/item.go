package responses

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
)

// An Item is one element of a request's input or a response's output: one of
// the structs below, always by pointer.
type Item interface {
	// Type is the wire's type word.
	Type() string
	// ItemID is the item's id, "" if it has none.
	ItemID() string
}

// The type words of the items we act on.
const (
	TypeMessage              = "message"
	TypeFunctionCall         = "function_call"
	TypeFunctionCallOutput   = "function_call_output"
	TypeCustomToolCall       = "custom_tool_call"
	TypeCustomToolCallOutput = "custom_tool_call_output"
	TypeReasoning            = "reasoning"
	TypeItemReference        = "item_reference"
	TypeCompaction           = "compaction"
)

// A Status is the state of an item or of a response.
type Status string

// The statuses. Queued, Failed and Cancelled are for responses only, as far as
// the items we act on go.
const (
	StatusQueued     Status = "queued"
	StatusInProgress Status = "in_progress"
	StatusCompleted  Status = "completed"
	StatusIncomplete Status = "incomplete"
	StatusFailed     Status = "failed"
	StatusCancelled  Status = "cancelled"
)

// A Role says who speaks in a message.
type Role string

// The roles.
const (
	RoleUser      Role = "user"
	RoleSystem    Role = "system"
	RoleDeveloper Role = "developer"
	RoleAssistant Role = "assistant"
)

type (
	// Message is what a role said. In input the type word may be missing, and
	// the content may be a string; both are normal here.
	Message struct {
		Kind    kind[*Message] `json:"type"`
		ID      string         `json:"id,omitzero"`
		Status  Status         `json:"status,omitzero"`
		Role    Role           `json:"role"`
		Content Content        `json:"content"`
		Phase   string         `json:"phase,omitzero"`
		Extra   jsontext.Value `json:",embed"`
	}
	// FunctionCall is a call of a function tool. Arguments is a JSON document as
	// a string, encoded once (R11).
	FunctionCall struct {
		Kind      kind[*FunctionCall] `json:"type"`
		ID        string              `json:"id,omitzero"`
		CallID    string              `json:"call_id"`
		Name      string              `json:"name"`
		Arguments string              `json:"arguments"`
		Status    Status              `json:"status,omitzero"`
		Namespace string              `json:"namespace,omitzero"`
		Extra     jsontext.Value      `json:",embed"`
	}
	// FunctionCallOutput is the result of a function call.
	FunctionCallOutput struct {
		Kind   kind[*FunctionCallOutput] `json:"type"`
		ID     string                    `json:"id,omitzero"`
		CallID string                    `json:"call_id"`
		Output Content                   `json:"output"`
		Status Status                    `json:"status,omitzero"`
		Extra  jsontext.Value            `json:",embed"`
	}
	// CustomToolCall is a call of a free-form tool: its input is text, not JSON.
	CustomToolCall struct {
		Kind      kind[*CustomToolCall] `json:"type"`
		ID        string                `json:"id,omitzero"`
		CallID    string                `json:"call_id"`
		Name      string                `json:"name"`
		Input     string                `json:"input"`
		Status    Status                `json:"status,omitzero"`
		Namespace string                `json:"namespace,omitzero"`
		Extra     jsontext.Value        `json:",embed"`
	}
	// CustomToolCallOutput is the result of a free-form tool call.
	CustomToolCallOutput struct {
		Kind   kind[*CustomToolCallOutput] `json:"type"`
		ID     string                      `json:"id,omitzero"`
		CallID string                      `json:"call_id"`
		Output Content                     `json:"output"`
		Status Status                      `json:"status,omitzero"`
		Extra  jsontext.Value              `json:",embed"`
	}
	// Reasoning is what a model thought: a summary, the raw text where the
	// upstream shows it, and an opaque form that goes back on the next turn.
	Reasoning struct {
		Kind             kind[*Reasoning] `json:"type"`
		ID               string           `json:"id,omitzero"`
		Summary          []Part           `json:"summary"`
		Content          []Part           `json:"content,omitempty"`
		EncryptedContent string           `json:"encrypted_content,omitzero"`
		Status           Status           `json:"status,omitzero"`
		Extra            jsontext.Value   `json:",embed"`
	}
	// ItemReference stands for an item that the server has.
	ItemReference struct {
		Kind  kind[*ItemReference] `json:"type"`
		ID    string               `json:"id"`
		Extra jsontext.Value       `json:",embed"`
	}
	// Compaction stands for earlier items that were summarised.
	Compaction struct {
		Kind             kind[*Compaction] `json:"type"`
		ID               string            `json:"id,omitzero"`
		EncryptedContent string            `json:"encrypted_content"`
		Extra            jsontext.Value    `json:",embed"`
	}
	// UnknownItem is an item of a kind this version does not act on, unchanged.
	// Only its id can be changed, with [WithItemID].
	UnknownItem struct {
		Name string         `json:"type"`
		ID   string         `json:"id"`
		Raw  jsontext.Value `json:",embed"`
	}
)

func (*Message) Type() string              { return TypeMessage }
func (*FunctionCall) Type() string         { return TypeFunctionCall }
func (*FunctionCallOutput) Type() string   { return TypeFunctionCallOutput }
func (*CustomToolCall) Type() string       { return TypeCustomToolCall }
func (*CustomToolCallOutput) Type() string { return TypeCustomToolCallOutput }
func (*Reasoning) Type() string            { return TypeReasoning }
func (*ItemReference) Type() string        { return TypeItemReference }
func (*Compaction) Type() string           { return TypeCompaction }
func (it *UnknownItem) Type() string       { return it.Name }

func (it *Message) ItemID() string              { return it.ID }
func (it *FunctionCall) ItemID() string         { return it.ID }
func (it *FunctionCallOutput) ItemID() string   { return it.ID }
func (it *CustomToolCall) ItemID() string       { return it.ID }
func (it *CustomToolCallOutput) ItemID() string { return it.ID }
func (it *Reasoning) ItemID() string            { return it.ID }
func (it *ItemReference) ItemID() string        { return it.ID }
func (it *Compaction) ItemID() string           { return it.ID }
func (it *UnknownItem) ItemID() string          { return it.ID }

// MarshalJSONTo writes the item as it came.
func (it *UnknownItem) MarshalJSONTo(enc *jsontext.Encoder) error { return enc.WriteValue(it.Raw) }

// newItem returns an empty item of the named kind for the decoder, or nil.
func newItem(typ string) Item {
	switch typ {
	case TypeMessage, "":
		return new(Message)
	case TypeFunctionCall:
		return new(FunctionCall)
	case TypeFunctionCallOutput:
		return new(FunctionCallOutput)
	case TypeCustomToolCall:
		return new(CustomToolCall)
	case TypeCustomToolCallOutput:
		return new(CustomToolCallOutput)
	case TypeReasoning:
		return new(Reasoning)
	case TypeItemReference:
		return new(ItemReference)
	case TypeCompaction:
		return new(Compaction)
	}
	return nil
}

// WithItemID returns a copy of it with the given id.
func WithItemID(it Item, id string) Item {
	switch it := it.(type) {
	case *Message:
		c := *it
		c.ID = id
		return &c
	case *FunctionCall:
		c := *it
		c.ID = id
		return &c
	case *FunctionCallOutput:
		c := *it
		c.ID = id
		return &c
	case *CustomToolCall:
		c := *it
		c.ID = id
		return &c
	case *CustomToolCallOutput:
		c := *it
		c.ID = id
		return &c
	case *Reasoning:
		c := *it
		c.ID = id
		return &c
	case *ItemReference:
		c := *it
		c.ID = id
		return &c
	case *Compaction:
		c := *it
		c.ID = id
		return &c
	case *UnknownItem:
		raw, err := SetMembers(it.Raw, Member{Name: "id", Value: quote(id)})
		if err != nil {
			return it // Raw came from the decoder, so it is an object
		}
		return &UnknownItem{Name: it.Name, ID: id, Raw: raw}
	}
	return it
}

// ItemStatus returns the status member of it, "" if it has none.
func ItemStatus(it Item) Status {
	switch it := it.(type) {
	case *Message:
		return it.Status
	case *FunctionCall:
		return it.Status
	case *FunctionCallOutput:
		return it.Status
	case *CustomToolCall:
		return it.Status
	case *CustomToolCallOutput:
		return it.Status
	case *Reasoning:
		return it.Status
	case *UnknownItem:
		return Status(stringMember(it.Raw, "status"))
	}
	return ""
}

// Content is the content of a message or the output of a tool. On the wire it
// is a list of parts or a plain string; a string is one part here, and the flag
// keeps the client's spelling for upstreams that care.
type Content struct {
	Parts []Part
	// Plain is true if the wire had a string: Parts then holds one InputText.
	Plain bool
}

// TextContent returns plain text as content.
func TextContent(text string) Content {
	return Content{Parts: []Part{&InputText{Text: text}}, Plain: true}
}

// Text joins the text of c.
func (c Content) Text() string { return TextOf(c.Parts) }

// UnmarshalJSONFrom accepts a string, a list of parts, or null (no content).
func (c *Content) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*c = Content{}
	switch dec.PeekKind() {
	case '"':
		var s string
		if err := json.UnmarshalDecode(dec, &s); err != nil {
			return err
		}
		*c = TextContent(s)
		return nil
	default:
		return json.UnmarshalDecode(dec, &c.Parts)
	}
}

// MarshalJSONTo writes a plain text as a string and anything else as parts.
func (c Content) MarshalJSONTo(enc *jsontext.Encoder) error {
	if c.Plain && len(c.Parts) == 1 {
		if t, ok := c.Parts[0].(*InputText); ok {
			return enc.WriteToken(jsontext.String(t.Text))
		}
	}
	return json.MarshalEncode(enc, c.Parts)
}
