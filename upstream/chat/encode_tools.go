package chat

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"slices"

	"github.com/antiphon-dev/antiphon/responses"
)

// Parameters of functions that the client gave none for: one without arguments,
// and the one that stands for a free-form tool.
var (
	noParameters    = jsontext.Value(`{"type":"object","properties":{}}`)
	inputParameters = jsontext.Value(`{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`)
)

// tools encodes the tools that may be called.
func (e *encoder) tools() error {
	for i, t := range e.req.Tools {
		if !e.allowed(t) {
			continue
		}
		at := fmt.Sprintf("tools[%d]", i)
		switch t := t.(type) {
		case *responses.FunctionTool:
			e.functionTool(at, t)
		case *responses.CustomTool:
			e.customTool(at, t)
		default:
			return responses.Unsupported(at, "This model's upstream has no tool of type %q: use function tools.", t.Type())
		}
	}
	if len(e.wire.Tools) > 0 {
		e.wire.ParallelToolCalls = e.req.ParallelToolCalls
	}
	return nil
}

// allowed reports whether the tool choice lets t be called at all.
func (e *encoder) allowed(t responses.Tool) bool {
	c := e.req.ToolChoice
	if c == nil || c.Type != responses.TypeAllowedTools {
		return true
	}
	return slices.ContainsFunc(c.Tools, func(ref responses.ToolRef) bool {
		return ref.Type == t.Type() && ref.Name == responses.ToolName(t)
	})
}

func (e *encoder) functionTool(at string, t *responses.FunctionTool) {
	f := toolFunction{Name: t.Name, Parameters: t.Parameters, Strict: t.Strict}
	if t.Description != nil {
		f.Description = *t.Description
	}
	if t.Parameters.Kind() != '{' {
		f.Parameters = noParameters
	}
	e.losses.members(at, t.Extra)
	e.wire.Tools = append(e.wire.Tools, tool{Type: "function", Function: f})
}

// customTool encodes a free-form tool as a function with one string.
func (e *encoder) customTool(at string, t *responses.CustomTool) {
	var format struct {
		Type       string `json:"type"`
		Syntax     string `json:"syntax"`
		Definition string `json:"definition"`
	}
	f := toolFunction{Name: t.Name, Description: t.Description, Parameters: inputParameters}
	if len(t.Format) > 0 && (json.Unmarshal(t.Format, &format) != nil || format.Type != "text") {
		e.losses.add(at+".format", "The upstream does not enforce the format of a tool's input.")
	}
	if format.Definition != "" {
		if f.Description != "" {
			f.Description += "\n\n"
		}
		f.Description += fmt.Sprintf("The input must match this grammar (%s):\n%s", format.Syntax, format.Definition)
	}
	if e.custom == nil {
		e.custom = map[string]bool{}
	}
	e.custom[t.Name] = true
	e.losses.members(at, t.Extra)
	e.wire.Tools = append(e.wire.Tools, tool{Type: "function", Function: f})
}

// toolChoice encodes the choice. Without tools there is nothing to choose, and
// servers refuse the member.
func (e *encoder) toolChoice() error {
	c := e.req.ToolChoice
	if c == nil {
		return nil
	}
	choice := &toolChoice{word: c.Mode}
	switch c.Type {
	case "", responses.TypeAllowedTools:
	case responses.TypeFunction, responses.TypeCustom:
		choice = &toolChoice{function: c.Name}
	default:
		return responses.Unsupported("tool_choice", "This model's upstream has no tool of type %q.", c.Type)
	}
	if len(e.wire.Tools) > 0 {
		e.wire.ToolChoice = choice
	}
	return nil
}

// wrapInput returns the arguments with which the stand-in of a free-form tool
// is called.
func wrapInput(input string) string {
	quoted, _ := jsontext.AppendQuote(nil, input) // the error only reports invalid UTF-8, which becomes U+FFFD
	return `{"input":` + string(quoted) + `}`
}
