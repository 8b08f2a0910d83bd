package fakeupstream

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"slices"
)

// toolChoice is what a request says about calling tools. The zero value allows
// all of them.
type toolChoice struct {
	none bool
	must bool     // "required", or a named tool
	only []string // names; nil means any
}

// decodeToolChoice reads the words that both protocols share, and leaves
// objects, which they spell differently, to decodeObject.
func decodeToolChoice(raw jsontext.Value, decodeObject func(jsontext.Value) (toolChoice, error)) (toolChoice, error) {
	switch raw.Kind() {
	case jsontext.KindInvalid, jsontext.KindNull: // absent
		return toolChoice{}, nil
	case jsontext.KindBeginObject:
		return decodeObject(raw)
	}
	var word string
	_ = json.Unmarshal(raw, &word)
	switch word {
	case "auto":
		return toolChoice{}, nil
	case "none":
		return toolChoice{none: true}, nil
	case "required":
		return toolChoice{must: true}, nil
	}
	return toolChoice{}, refuse("tool_choice", "invalid_value", "Invalid value: %s. Supported values are: 'none', 'auto', and 'required'.", raw)
}

// from returns the tools that may be called, of those that can be. A request
// may have given more.
func (c toolChoice) from(tools []tool, given int) ([]tool, error) {
	if c.must && given == 0 {
		return nil, refuse("tool_choice", "", "'tool_choice' is only allowed when 'tools' are specified.")
	}
	if c.none {
		return nil, nil
	}
	if c.only == nil {
		return tools, nil
	}
	var allowed []tool
	for _, name := range c.only {
		i := slices.IndexFunc(tools, func(t tool) bool { return t.name == name })
		if i < 0 {
			return nil, refuse("tool_choice", "", "Tool choice '%s' not found in 'tools' parameter.", name)
		}
		allowed = append(allowed, tools[i])
	}
	return allowed, nil
}
