package responses

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"slices"
)

// The type words of tools that a server runs by itself, and of what is shown of
// it.
const (
	TypeMCP                 = "mcp"
	TypeMCPListTools        = "mcp_list_tools"
	TypeMCPCall             = "mcp_call"
	TypeMCPApprovalRequest  = "mcp_approval_request"
	TypeMCPApprovalResponse = "mcp_approval_response"
)

type (
	// MCPTool stands for the tools of an MCP server.
	MCPTool struct {
		Kind        kind[*MCPTool] `json:"type"`
		ServerLabel string         `json:"server_label"`
		ServerURL   string         `json:"server_url,omitzero"`
		// Headers and Authorization are secrets of the client: they are sent to the
		// server, and neither echoed nor stored.
		Headers         map[string]string `json:"headers,omitempty"`
		Authorization   string            `json:"authorization,omitzero"`
		AllowedTools    *MCPFilter        `json:"allowed_tools,omitzero"`
		RequireApproval *MCPApproval      `json:"require_approval,omitzero"`
		Extra           jsontext.Value    `json:",embed"`
	}
	// MCPListTools shows the tools of a server.
	MCPListTools struct {
		Kind        kind[*MCPListTools] `json:"type"`
		ID          string              `json:"id,omitzero"`
		ServerLabel string              `json:"server_label"`
		Tools       []MCPListedTool     `json:"tools"`
		Error       jsontext.Value      `json:"error,omitzero"`
		Extra       jsontext.Value      `json:",embed"`
	}
	// MCPCall is a call that was run, and what came of it.
	MCPCall struct {
		Kind              kind[*MCPCall] `json:"type"`
		ID                string         `json:"id,omitzero"`
		ServerLabel       string         `json:"server_label"`
		Name              string         `json:"name"`
		Arguments         string         `json:"arguments"`
		Output            *string        `json:"output"`
		Error             jsontext.Value `json:"error"`
		Status            Status         `json:"status,omitzero"`
		ApprovalRequestID *string        `json:"approval_request_id"`
		// Content is the result in full, where it is more than text. Output then
		// says in words what there is.
		Content []Part         `json:"antiphon:content,omitempty"`
		Extra   jsontext.Value `json:",embed"`
	}
	// MCPApprovalRequest asks the client whether a call may be run.
	MCPApprovalRequest struct {
		Kind        kind[*MCPApprovalRequest] `json:"type"`
		ID          string                    `json:"id,omitzero"`
		ServerLabel string                    `json:"server_label"`
		Name        string                    `json:"name"`
		Arguments   string                    `json:"arguments"`
		Extra       jsontext.Value            `json:",embed"`
	}
	// MCPApprovalResponse is the client's answer.
	MCPApprovalResponse struct {
		Kind              kind[*MCPApprovalResponse] `json:"type"`
		ID                string                     `json:"id,omitzero"`
		ApprovalRequestID string                     `json:"approval_request_id"`
		Approve           bool                       `json:"approve"`
		Reason            *string                    `json:"reason,omitzero"`
		Extra             jsontext.Value             `json:",embed"`
	}
)

// MCPListedTool is one tool of a server.
type MCPListedTool struct {
	Name        string         `json:"name"`
	Description *string        `json:"description"`
	InputSchema jsontext.Value `json:"input_schema"`
	Annotations jsontext.Value `json:"annotations,omitzero"`
	Extra       jsontext.Value `json:",embed"`
}

func (*MCPTool) Type() string             { return TypeMCP }
func (*MCPListTools) Type() string        { return TypeMCPListTools }
func (*MCPCall) Type() string             { return TypeMCPCall }
func (*MCPApprovalRequest) Type() string  { return TypeMCPApprovalRequest }
func (*MCPApprovalResponse) Type() string { return TypeMCPApprovalResponse }

func (it *MCPListTools) ItemID() string        { return it.ID }
func (it *MCPCall) ItemID() string             { return it.ID }
func (it *MCPApprovalRequest) ItemID() string  { return it.ID }
func (it *MCPApprovalResponse) ItemID() string { return it.ID }

func (it MCPListTools) withID(id string) Item        { it.ID = id; return &it }
func (it MCPCall) withID(id string) Item             { it.ID = id; return &it }
func (it MCPApprovalRequest) withID(id string) Item  { it.ID = id; return &it }
func (it MCPApprovalResponse) withID(id string) Item { it.ID = id; return &it }

// WithoutSecrets returns t as it may be shown and kept: without what only the
// server may see.
func (t *MCPTool) WithoutSecrets() *MCPTool {
	c := *t
	c.Headers, c.Authorization = nil, ""
	return &c
}

// An MCPFilter names some of a server's tools. On the wire it is a list of names
// or an object.
type MCPFilter struct {
	// ToolNames are the tools; nil means that the filter does not look at names.
	ToolNames []string `json:"tool_names"`
	// ReadOnly, if not nil, is whether the tools are those that say of themselves
	// that they change nothing, or those that do not.
	ReadOnly *bool          `json:"read_only"`
	Extra    jsontext.Value `json:",embed"`

	list bool // it was a list on the wire
}

// Matches reports whether the filter names a tool. A nil filter names none.
func (f *MCPFilter) Matches(name string, readOnly bool) bool {
	if f == nil || f.ToolNames == nil && f.ReadOnly == nil {
		return false
	}
	return (f.ToolNames == nil || slices.Contains(f.ToolNames, name)) && (f.ReadOnly == nil || *f.ReadOnly == readOnly)
}

type mcpFilterObject struct {
	ToolNames []string       `json:"tool_names,omitzero"`
	ReadOnly  *bool          `json:"read_only,omitzero"`
	Extra     jsontext.Value `json:",embed"`
}

// UnmarshalJSONFrom accepts a list of names or an object.
func (f *MCPFilter) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*f = MCPFilter{}
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	var o mcpFilterObject
	if f.list = raw.Kind() == '['; f.list {
		o.ToolNames = []string{}
		err = json.Unmarshal(raw, &o.ToolNames)
	} else {
		err = json.Unmarshal(raw, &o)
	}
	if err != nil {
		return underPointer(dec.StackPointer(), err)
	}
	f.ToolNames, f.ReadOnly, f.Extra = o.ToolNames, o.ReadOnly, o.Extra
	return nil
}

// MarshalJSONTo writes the filter as it came: as a list or as an object.
func (f MCPFilter) MarshalJSONTo(enc *jsontext.Encoder) error {
	if f.list {
		return json.MarshalEncode(enc, f.ToolNames)
	}
	return json.MarshalEncode(enc, &mcpFilterObject{ToolNames: f.ToolNames, ReadOnly: f.ReadOnly, Extra: f.Extra})
}

// The words of an [MCPApproval].
const (
	ApprovalAlways = "always"
	ApprovalNever  = "never"
)

// MCPApproval says which calls need the client's approval. On the wire it is one of
// the words always and never, or an object with a filter for each.
type MCPApproval struct {
	Mode   string         `json:"-"` // the word; "" if the wire had an object
	Always *MCPFilter     `json:"always"`
	Never  *MCPFilter     `json:"never"`
	Extra  jsontext.Value `json:",embed"`
}

// Needs reports whether a call of a tool needs approval. What is not said is
// always: so is everything, for a nil MCPApproval.
func (a *MCPApproval) Needs(name string, readOnly bool) bool {
	switch {
	case a == nil:
		return true
	case a.Mode != "":
		return a.Mode != ApprovalNever
	}
	return a.Always.Matches(name, readOnly) || !a.Never.Matches(name, readOnly)
}

type mcpApprovalObject struct {
	Always *MCPFilter     `json:"always,omitzero"`
	Never  *MCPFilter     `json:"never,omitzero"`
	Extra  jsontext.Value `json:",embed"`
}

// UnmarshalJSONFrom accepts a word or an object.
func (a *MCPApproval) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*a = MCPApproval{}
	if dec.PeekKind() == '"' {
		return json.UnmarshalDecode(dec, &a.Mode)
	}
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	var o mcpApprovalObject
	if err := json.Unmarshal(raw, &o, dec.Options()); err != nil {
		return underPointer(dec.StackPointer(), err)
	}
	*a = MCPApproval{Always: o.Always, Never: o.Never, Extra: o.Extra}
	return nil
}

// MarshalJSONTo writes the word or the object.
func (a MCPApproval) MarshalJSONTo(enc *jsontext.Encoder) error {
	if a.Mode != "" {
		return enc.WriteToken(jsontext.String(a.Mode))
	}
	return json.MarshalEncode(enc, &mcpApprovalObject{Always: a.Always, Never: a.Never, Extra: a.Extra})
}

// Result is what the call came to, as the model is told: its content, its output,
// or its error in words.
func (it *MCPCall) Result() Content {
	switch {
	case len(it.Content) > 0:
		return Content{Parts: it.Content}
	case it.Output != nil:
		return TextContent(*it.Output)
	case it.Error.Kind() == '"':
		return TextContent("Error: " + stringOf(it.Error))
	case it.Error.Kind() == '{':
		return TextContent("Error: " + errorText(it.Error))
	}
	return TextContent("There is no result.")
}

// errorText is what an error object says: its message, or the texts of its
// content.
func errorText(e jsontext.Value) string {
	if s := stringMember(e, "message"); s != "" {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(member(e, "content"), &parts) != nil || len(parts) == 0 {
		return string(e)
	}
	text := parts[0].Text
	for _, p := range parts[1:] {
		text += "\n" + p.Text
	}
	return text
}
