package responses

import (
	"cmp"
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
	// withID returns a copy with another id, and closes the interface.
	withID(id string) Item
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
	TypeCompactionTrigger    = "compaction_trigger"
	TypeAdditionalTools      = "additional_tools"
	TypeToolSearchCall       = "tool_search_call"
	TypeToolSearchOutput     = "tool_search_output"
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
	// CompactionTrigger, as the last item, asks for a [Compaction] of all that
	// comes before it, instead of an answer.
	CompactionTrigger struct {
		Kind  kind[*CompactionTrigger] `json:"type"`
		ID    string                   `json:"id,omitzero"`
		Extra jsontext.Value           `json:",embed"`
	}
	// AdditionalTools brings tools in the course of a conversation, beside those
	// of the request.
	AdditionalTools struct {
		Kind  kind[*AdditionalTools] `json:"type"`
		ID    string                 `json:"id,omitzero"`
		Role  Role                   `json:"role,omitzero"`
		Tools []Tool                 `json:"tools"`
		Extra jsontext.Value         `json:",embed"`
	}
	// ToolSearchCall is a model's search for tools. Unlike those of a function
	// call, its arguments are a JSON value.
	ToolSearchCall struct {
		Kind      kind[*ToolSearchCall] `json:"type"`
		ID        string                `json:"id,omitzero"`
		CallID    string                `json:"call_id,omitzero"`
		Execution string                `json:"execution,omitzero"`
		Arguments jsontext.Value        `json:"arguments,omitzero"`
		Status    Status                `json:"status,omitzero"`
		Extra     jsontext.Value        `json:",embed"`
	}
	// ToolSearchOutput brings the tools that a search found.
	ToolSearchOutput struct {
		Kind      kind[*ToolSearchOutput] `json:"type"`
		ID        string                  `json:"id,omitzero"`
		CallID    string                  `json:"call_id,omitzero"`
		Execution string                  `json:"execution,omitzero"`
		Tools     []Tool                  `json:"tools"`
		Status    Status                  `json:"status,omitzero"`
		Extra     jsontext.Value          `json:",embed"`
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
func (*CompactionTrigger) Type() string    { return TypeCompactionTrigger }
func (*AdditionalTools) Type() string      { return TypeAdditionalTools }
func (*ToolSearchCall) Type() string       { return TypeToolSearchCall }
func (*ToolSearchOutput) Type() string     { return TypeToolSearchOutput }
func (it *UnknownItem) Type() string       { return it.Name }

func (it *Message) ItemID() string              { return it.ID }
func (it *FunctionCall) ItemID() string         { return it.ID }
func (it *FunctionCallOutput) ItemID() string   { return it.ID }
func (it *CustomToolCall) ItemID() string       { return it.ID }
func (it *CustomToolCallOutput) ItemID() string { return it.ID }
func (it *Reasoning) ItemID() string            { return it.ID }
func (it *ItemReference) ItemID() string        { return it.ID }
func (it *Compaction) ItemID() string           { return it.ID }
func (it *CompactionTrigger) ItemID() string    { return it.ID }
func (it *AdditionalTools) ItemID() string      { return it.ID }
func (it *ToolSearchCall) ItemID() string       { return it.ID }
func (it *ToolSearchOutput) ItemID() string     { return it.ID }
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
	case TypeCompactionTrigger:
		return new(CompactionTrigger)
	case TypeAdditionalTools:
		return new(AdditionalTools)
	case TypeToolSearchCall:
		return new(ToolSearchCall)
	case TypeToolSearchOutput:
		return new(ToolSearchOutput)
	case TypeMCPListTools:
		return new(MCPListTools)
	case TypeMCPCall:
		return new(MCPCall)
	case TypeMCPApprovalRequest:
		return new(MCPApprovalRequest)
	case TypeMCPApprovalResponse:
		return new(MCPApprovalResponse)
	}
	return nil
}

// WithItemID returns a copy of it with the given id.
func WithItemID(it Item, id string) Item { return it.withID(id) }

func (it Message) withID(id string) Item              { it.ID = id; return &it }
func (it FunctionCall) withID(id string) Item         { it.ID = id; return &it }
func (it FunctionCallOutput) withID(id string) Item   { it.ID = id; return &it }
func (it CustomToolCall) withID(id string) Item       { it.ID = id; return &it }
func (it CustomToolCallOutput) withID(id string) Item { it.ID = id; return &it }
func (it Reasoning) withID(id string) Item            { it.ID = id; return &it }
func (it ItemReference) withID(id string) Item        { it.ID = id; return &it }
func (it Compaction) withID(id string) Item           { it.ID = id; return &it }
func (it CompactionTrigger) withID(id string) Item    { it.ID = id; return &it }
func (it AdditionalTools) withID(id string) Item      { it.ID = id; return &it }
func (it ToolSearchCall) withID(id string) Item       { it.ID = id; return &it }
func (it ToolSearchOutput) withID(id string) Item     { it.ID = id; return &it }

func (it *UnknownItem) withID(id string) Item {
	raw, err := SetMembers(it.Raw, Member{Name: "id", Value: quote(id)})
	if err != nil {
		return it // Raw came from the decoder, so it is an object
	}
	return &UnknownItem{Name: it.Name, ID: id, Raw: raw}
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
	case *ToolSearchCall:
		return it.Status
	case *ToolSearchOutput:
		return it.Status
	case *MCPCall:
		return it.Status
	case *UnknownItem:
		return Status(stringMember(it.Raw, "status"))
	}
	return ""
}

// CallID returns the call_id of an item that calls something, of whatever kind,
// "" if it does not.
func CallID(it Item) string {
	switch it := it.(type) {
	case *FunctionCall:
		return it.CallID
	case *CustomToolCall:
		return it.CallID
	case *ToolSearchCall:
		return it.CallID
	case *UnknownItem:
		return stringMember(it.Raw, "call_id")
	}
	return ""
}

// AsResource returns an input item as the API lists it: with a status, and the
// content of a message as parts. It is a copy if anything changes.
func AsResource(it Item) Item {
	switch it := it.(type) {
	case *Message:
		c := *it
		c.Status = cmp.Or(c.Status, StatusCompleted)
		if c.Content.Plain {
			c.Content = Content{Parts: []Part{textPart(c.Role, c.Content.Text())}}
		}
		return &c
	case *FunctionCall:
		c := *it
		c.Status = cmp.Or(c.Status, StatusCompleted)
		return &c
	case *FunctionCallOutput:
		c := *it
		c.Status = cmp.Or(c.Status, StatusCompleted)
		return &c
	case *CustomToolCall:
		c := *it
		c.Status = cmp.Or(c.Status, StatusCompleted)
		return &c
	case *CustomToolCallOutput:
		c := *it
		c.Status = cmp.Or(c.Status, StatusCompleted)
		return &c
	}
	return it
}

// textPart is text as a role says it.
func textPart(r Role, text string) Part {
	if r == RoleAssistant {
		return &OutputText{Text: text}
	}
	return &InputText{Text: text}
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
