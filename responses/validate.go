package responses

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"
)

var errMessages = InvalidParam(CodeUnsupported, "messages", "Use `input`: this is the Responses API, `messages` belongs to Chat Completions.")

// validate checks types that the decoder cannot and all ranges (R5). Unknown
// words in open-ended fields (service tiers, efforts, includes) pass: the API
// grows, and an upstream knows better than we do.
func (r *Request) validate(lim Limits) error {
	if k := member(r.Extra, "messages").Kind(); k != 0 && k != 'n' {
		return errMessages
	}
	for _, check := range []func() error{
		r.validateConversation, r.validateInput, r.validateNumbers, r.validateText, r.validateTools, r.validateMetadata,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	if len(r.Input.Items) > lim.Items {
		return InvalidParam(CodeTooLarge, "input", "More than %d items.", lim.Items)
	}
	if countTools(r.Tools) > lim.Tools {
		return InvalidParam(CodeTooLarge, "tools", "More than %d tools.", lim.Tools)
	}
	return nil
}

func (r *Request) validateConversation() error {
	switch k := r.Conversation.Kind(); k {
	case 0:
		return nil
	case '"', '{':
		if r.ConversationID() == "" {
			return InvalidParam(CodeMissing, "conversation", "Must be the id of a conversation, or an object with it as `id`.")
		}
		if r.PreviousResponseID != "" {
			return InvalidParam(CodeInvalidValue, "previous_response_id", "Go on either from a response or in a `conversation`, not both.")
		}
		return nil
	default:
		return InvalidParam(CodeInvalidType, "conversation", "Must be a string or an object, not %s.", kindName(k))
	}
}

func (r *Request) validateInput() error { return validateItems("input", r.Input.Items) }

func validateItems(at string, items []Item) error {
	for i, it := range items {
		if err := validateItem(at+"["+strconv.Itoa(i)+"]", it); err != nil {
			return err
		}
	}
	return nil
}

// validateItem checks the members that every server needs to make sense of it.
func validateItem(at string, it Item) error {
	switch it := it.(type) {
	case *Message:
		if err := validateRole(at, it.Role); err != nil {
			return err
		}
		return validateParts(at+".content", it.Content.Parts)
	case *FunctionCall:
		return required(at, "call_id", it.CallID, "name", it.Name)
	case *CustomToolCall:
		return required(at, "call_id", it.CallID, "name", it.Name)
	case *FunctionCallOutput:
		if err := required(at, "call_id", it.CallID); err != nil {
			return err
		}
		return validateParts(at+".output", it.Output.Parts)
	case *CustomToolCallOutput:
		if err := required(at, "call_id", it.CallID); err != nil {
			return err
		}
		return validateParts(at+".output", it.Output.Parts)
	case *Reasoning:
		if err := validateParts(at+".summary", it.Summary); err != nil {
			return err
		}
		return validateParts(at+".content", it.Content)
	case *ItemReference:
		return required(at, "id", it.ID)
	case *Compaction:
		return required(at, "encrypted_content", it.EncryptedContent)
	case *AdditionalTools:
		return validateTools(at+".tools", it.Tools)
	case *ToolSearchOutput:
		return validateTools(at+".tools", it.Tools)
	case *MCPCall:
		return required(at, "server_label", it.ServerLabel, "name", it.Name)
	case *MCPApprovalRequest:
		return required(at, "id", it.ID, "server_label", it.ServerLabel, "name", it.Name)
	case *MCPApprovalResponse:
		return required(at, "approval_request_id", it.ApprovalRequestID)
	}
	return nil
}

func validateRole(at string, role Role) error {
	switch role {
	case RoleUser, RoleSystem, RoleDeveloper, RoleAssistant:
		return nil
	case "":
		return InvalidParam(CodeMissing, at+".role", "A message needs a role: user, system, developer or assistant.")
	default:
		return InvalidParam(CodeInvalidValue, at+".role", "Unknown role %q: use user, system, developer or assistant.", role)
	}
}

func validateParts(at string, parts []Part) error {
	for i, p := range parts {
		if p.Type() == "" {
			return InvalidParam(CodeMissing, fmt.Sprintf("%s[%d].type", at, i), "A part needs a type.")
		}
	}
	return nil
}

// required takes pairs of name and value and refuses an empty value.
func required(at string, pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			return InvalidParam(CodeMissing, at+"."+pairs[i], "Missing %s.", pairs[i])
		}
	}
	return nil
}

func (r *Request) validateNumbers() error {
	floats := []struct {
		param    string
		v        *float64
		min, max float64
	}{
		{"temperature", r.Temperature, 0, 2},
		{"top_p", r.TopP, 0, 1},
		{"presence_penalty", r.PresencePenalty, -2, 2},
		{"frequency_penalty", r.FrequencyPenalty, -2, 2},
	}
	for _, f := range floats {
		if f.v != nil && (*f.v < f.min || *f.v > f.max) {
			return InvalidParam(CodeInvalidValue, f.param, "Must be between %g and %g, not %g.", f.min, f.max, *f.v)
		}
	}
	ints := []struct {
		param    string
		v        *int64
		min, max int64 // max 0: none
	}{
		{"max_output_tokens", r.MaxOutputTokens, 16, 0},
		{"max_tool_calls", r.MaxToolCalls, 1, 0},
		{"top_logprobs", r.TopLogprobs, 0, 20},
	}
	for _, n := range ints {
		switch {
		case n.v == nil:
		case *n.v < n.min:
			return InvalidParam(CodeInvalidValue, n.param, "Must be at least %d, not %d.", n.min, *n.v)
		case n.max > 0 && *n.v > n.max:
			return InvalidParam(CodeInvalidValue, n.param, "Must be at most %d, not %d.", n.max, *n.v)
		}
	}
	return nil
}

var formatName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (r *Request) validateText() error {
	if r.Truncation != "" && r.Truncation != "auto" && r.Truncation != "disabled" {
		return InvalidParam(CodeInvalidValue, "truncation", "Must be auto or disabled, not %q.", r.Truncation)
	}
	if r.Text == nil || r.Text.Format == nil {
		return nil
	}
	switch f := r.Text.Format; f.Type {
	case "":
		return InvalidParam(CodeMissing, "text.format.type", "A format needs a type: text, json_schema or json_object.")
	case FormatJSONSchema:
		if !formatName.MatchString(f.Name) {
			return InvalidParam(CodeInvalidValue, "text.format.name", "Needs 1 to 64 letters, digits, _ or -.")
		}
		if f.Schema.Kind() != '{' {
			return InvalidParam(CodeMissing, "text.format.schema", "A json_schema format needs a schema object.")
		}
	}
	return nil
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

func (r *Request) validateTools() error {
	if err := validateTools("tools", r.Tools); err != nil {
		return err
	}
	return r.validateToolChoice()
}

// validateTools checks the tools of a request, an item or a namespace.
func validateTools(at string, tools []Tool) error {
	for i, t := range tools {
		if err := validateTool(at+"["+strconv.Itoa(i)+"]", t); err != nil {
			return err
		}
	}
	return nil
}

func validateTool(at string, t Tool) error {
	switch t := t.(type) {
	case *FunctionTool:
		if k := t.Parameters.Kind(); t.Parameters != nil && k != '{' && k != 'n' {
			return InvalidParam(CodeInvalidType, at+".parameters", "Must be a JSON Schema object.")
		}
		return validateToolName(at, t.Name)
	case *CustomTool:
		return validateToolName(at, t.Name)
	case *NamespaceTool:
		if err := required(at, "name", t.Name); err != nil {
			return err
		}
		return validateTools(at+".tools", t.Tools)
	case *MCPTool:
		return t.validate(at)
	case *UnknownTool:
		return required(at, "type", t.Name)
	}
	return nil
}

var serverLabel = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

func (t *MCPTool) validate(at string) error {
	if !serverLabel.MatchString(t.ServerLabel) {
		return InvalidParam(CodeInvalidValue, at+".server_label", "Needs a letter, then at most 63 letters, digits, _ or -.")
	}
	if a := t.RequireApproval; a != nil && a.Mode != "" && a.Mode != ApprovalAlways && a.Mode != ApprovalNever {
		return InvalidParam(CodeInvalidValue, at+".require_approval", "Must be always, never or an object, not %q.", a.Mode)
	}
	return nil
}

func validateToolName(at, name string) error {
	if !toolName.MatchString(name) {
		return InvalidParam(CodeInvalidValue, at+".name", "Needs 1 to 128 letters, digits, _, . or -.")
	}
	return nil
}

// countTools counts tools and those inside them.
func countTools(tools []Tool) int {
	n := len(tools)
	for _, t := range tools {
		if group, ok := t.(*NamespaceTool); ok {
			n += countTools(group.Tools)
		}
	}
	return n
}

func (r *Request) validateToolChoice() error {
	c := r.ToolChoice
	if c == nil {
		return nil
	}
	switch c.Type {
	case "":
		switch c.Mode {
		case ToolChoiceNone, ToolChoiceAuto:
		case ToolChoiceRequired:
			if len(r.Tools) == 0 && !r.bringsTools() {
				return InvalidParam(CodeInvalidValue, "tool_choice", "A tool is required, but `tools` is empty.")
			}
		default:
			return InvalidParam(CodeInvalidValue, "tool_choice", "Must be none, auto, required or an object, not %q.", c.Mode)
		}
	case TypeFunction, TypeCustom:
		return r.validateToolRef("tool_choice", c.Type, c.Name)
	case TypeAllowedTools:
		if len(c.Tools) == 0 {
			return InvalidParam(CodeMissing, "tool_choice.tools", "allowed_tools needs at least one tool.")
		}
		if !slices.Contains([]string{ToolChoiceNone, ToolChoiceAuto, ToolChoiceRequired}, c.Mode) {
			return InvalidParam(CodeInvalidValue, "tool_choice.mode", "Must be auto, required or none, not %q.", c.Mode)
		}
		for i, ref := range c.Tools {
			if err := r.validateToolRef(fmt.Sprintf("tool_choice.tools[%d]", i), ref.Type, ref.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// validateToolRef checks that a function or custom tool that a choice names is
// among the tools. Other kinds have names that only their server knows.
func (r *Request) validateToolRef(at, typ, name string) error {
	if typ != TypeFunction && typ != TypeCustom || r.bringsTools() {
		return nil
	}
	for _, t := range r.Tools {
		if t.Type() == typ && ToolName(t) == name {
			return nil
		}
	}
	return InvalidParam(CodeInvalidValue, at, "There is no %s tool named %q in `tools`.", typ, name)
}

// bringsTools reports whether tools may come from elsewhere than the top level
// of `tools`: some clients send them as input items, and some kinds of tools
// contain or find others.
func (r *Request) bringsTools() bool {
	for _, it := range r.Input.Items {
		switch it.(type) {
		case *AdditionalTools, *ToolSearchOutput:
			return true
		}
	}
	for _, t := range r.Tools {
		switch t.(type) {
		case *FunctionTool, *CustomTool:
		default:
			return true
		}
	}
	return false
}

func (r *Request) validateMetadata() error { return validateMetadata(r.Metadata) }

func validateMetadata(metadata map[string]string) error {
	if len(metadata) > 16 {
		return InvalidParam(CodeInvalidValue, "metadata", "At most 16 members, not %d.", len(metadata))
	}
	for k, v := range metadata {
		if n := utf8.RuneCountInString(k); n > 64 {
			return InvalidParam(CodeInvalidValue, "metadata", "A name is longer than 64 characters (%d).", n)
		}
		if n := utf8.RuneCountInString(v); n > 512 {
			return InvalidParam(CodeInvalidValue, "metadata."+k, "Longer than 512 characters (%d).", n)
		}
	}
	return nil
}
