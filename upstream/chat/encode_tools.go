package chat

import (
	"github.com/antiphon-dev/antiphon/responses"
)

// tools encodes the tools that may be called.
func (e *encoder) tools() {
	for i := range e.box.Functions {
		f := &e.box.Functions[i]
		e.wire.Tools = append(e.wire.Tools, tool{Type: "function", Function: toolFunction{
			Name: f.Name, Description: f.Description, Parameters: f.Parameters, Strict: f.Strict,
		}})
	}
	for _, l := range e.box.Losses {
		e.losses.Add(l.Param, "%s", l.Reason)
	}
	if len(e.wire.Tools) > 0 {
		e.wire.ParallelToolCalls = e.req.ParallelToolCalls
	}
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
		choice = &toolChoice{function: e.box.Name(responses.Callee{Name: c.Name})}
	default:
		return responses.Unsupported("tool_choice", "This model's upstream has no tool of type %q.", c.Type)
	}
	if len(e.wire.Tools) > 0 {
		e.wire.ToolChoice = choice
	}
	return nil
}
