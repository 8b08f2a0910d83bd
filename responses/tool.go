package responses

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
)

// A Tool is something that a model may call: one of the structs below, always
// by pointer.
type Tool interface {
	// Type is the wire's type word.
	Type() string
}

// The type words of the tools we act on.
const (
	TypeFunction   = "function"
	TypeCustom     = "custom"
	TypeNamespace  = "namespace"
	TypeToolSearch = "tool_search"
)

type (
	// FunctionTool is a function with JSON arguments. Description, Parameters
	// and Strict are always encoded, as null if the client was silent: clients
	// that read the echo require them.
	FunctionTool struct {
		Kind        kind[*FunctionTool] `json:"type"`
		Name        string              `json:"name"`
		Description *string             `json:"description"`
		Parameters  jsontext.Value      `json:"parameters"`
		Strict      *bool               `json:"strict"`
		Extra       jsontext.Value      `json:",embed"`
	}
	// CustomTool is a free-form tool: its input is text, optionally under a
	// grammar.
	CustomTool struct {
		Kind        kind[*CustomTool] `json:"type"`
		Name        string            `json:"name"`
		Description string            `json:"description,omitzero"`
		Format      jsontext.Value    `json:"format,omitzero"`
		Extra       jsontext.Value    `json:",embed"`
	}
	// NamespaceTool is a group of tools under a name of its own. A call of one of
	// them carries the namespace beside the name.
	NamespaceTool struct {
		Kind        kind[*NamespaceTool] `json:"type"`
		Name        string               `json:"name"`
		Description string               `json:"description,omitzero"`
		Tools       []Tool               `json:"tools"`
		Extra       jsontext.Value       `json:",embed"`
	}
	// ToolSearch lets the model look for tools that were not sent. Where
	// Execution is "client", it is a call that the client answers.
	ToolSearch struct {
		Kind        kind[*ToolSearch] `json:"type"`
		Execution   string            `json:"execution,omitzero"`
		Description string            `json:"description,omitzero"`
		Parameters  jsontext.Value    `json:"parameters,omitzero"`
		Extra       jsontext.Value    `json:",embed"`
	}
	// UnknownTool is a tool of a kind this version does not act on, unchanged.
	UnknownTool struct {
		Name string         `json:"type"`
		Raw  jsontext.Value `json:",embed"`
	}
)

func (*FunctionTool) Type() string  { return TypeFunction }
func (*CustomTool) Type() string    { return TypeCustom }
func (*NamespaceTool) Type() string { return TypeNamespace }
func (*ToolSearch) Type() string    { return TypeToolSearch }
func (t *UnknownTool) Type() string { return t.Name }

// MarshalJSONTo writes the tool as it came.
func (t *UnknownTool) MarshalJSONTo(enc *jsontext.Encoder) error { return enc.WriteValue(t.Raw) }

// newTool returns an empty tool of the named kind for the decoder, or nil.
func newTool(typ string) Tool {
	switch typ {
	case TypeFunction:
		return new(FunctionTool)
	case TypeCustom:
		return new(CustomTool)
	case TypeNamespace:
		return new(NamespaceTool)
	case TypeToolSearch:
		return new(ToolSearch)
	case TypeMCP:
		return new(MCPTool)
	}
	return nil
}

// ToolName is the name by which a model calls t, "" for tools without one.
func ToolName(t Tool) string {
	switch t := t.(type) {
	case *FunctionTool:
		return t.Name
	case *CustomTool:
		return t.Name
	}
	return ""
}

// ToolChoice says whether and what the model must call. On the wire it is one
// of the words none, auto, required, or an object.
type ToolChoice struct {
	// Mode is the word; for an allowed_tools object its mode; else "".
	Mode string `json:"mode"`
	// Type is the object's type, "" if the wire had a word.
	Type string `json:"type"`
	// Name is the one tool that an object of type function, custom or mcp names.
	Name string `json:"name"`
	// ServerLabel is the server that an object of type mcp names.
	ServerLabel string `json:"server_label"`
	// Tools are the tools of an allowed_tools object.
	Tools []ToolRef `json:"tools"`
	// Raw is the object as it came, nil if the choice was built in Go.
	Raw jsontext.Value `json:",embed"`
}

// The tool choice words, and the type word of the hard limit (R45).
const (
	ToolChoiceNone     = "none"
	ToolChoiceAuto     = "auto"
	ToolChoiceRequired = "required"
	TypeAllowedTools   = "allowed_tools"
)

// ToolRef names a tool of the request.
type ToolRef struct {
	Type        string         `json:"type"`
	Name        string         `json:"name,omitzero"`
	ServerLabel string         `json:"server_label,omitzero"`
	Extra       jsontext.Value `json:",embed"`
}

type toolChoiceObject struct {
	Type        string         `json:"type"`
	Name        string         `json:"name,omitzero"`
	ServerLabel string         `json:"server_label,omitzero"`
	Mode        string         `json:"mode,omitzero"`
	Tools       []ToolRef      `json:"tools,omitempty"`
	Extra       jsontext.Value `json:",embed"`
}

// UnmarshalJSONFrom accepts a word or an object.
func (c *ToolChoice) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*c = ToolChoice{}
	if dec.PeekKind() != '{' {
		return json.UnmarshalDecode(dec, &c.Mode)
	}
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	var o toolChoiceObject
	if err := json.Unmarshal(raw, &o); err != nil {
		return underPointer(dec.StackPointer(), err)
	}
	*c = ToolChoice{Mode: o.Mode, Type: o.Type, Name: o.Name, ServerLabel: o.ServerLabel, Tools: o.Tools, Raw: raw.Clone()}
	if o.Type == TypeAllowedTools && o.Mode == "" {
		// The echo must have a mode where the request may leave it out.
		c.Mode = ToolChoiceAuto
		c.Raw, err = SetMembers(c.Raw, Member{Name: "mode", Value: quote(c.Mode)})
	}
	return err
}

// MarshalJSONTo writes the word, or the object as it came.
func (c ToolChoice) MarshalJSONTo(enc *jsontext.Encoder) error {
	switch {
	case c.Type == "":
		return enc.WriteToken(jsontext.String(c.Mode))
	case c.Raw == nil:
		return json.MarshalEncode(enc, &toolChoiceObject{Type: c.Type, Name: c.Name, ServerLabel: c.ServerLabel, Mode: c.Mode, Tools: c.Tools})
	default:
		return enc.WriteValue(c.Raw)
	}
}
