package codex

import (
	"fmt"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
)

// swallowed are names that Codex takes for tools of its own, even where those are
// switched off: it would leave the client's tool out without a word.
var swallowed = map[string]bool{"exec_command": true, "shell_command": true}

// reservedPrefix is that of the names that Codex keeps for MCP servers.
const reservedPrefix = "mcp__"

// tools encodes the tools that may be called.
func (e *encoder) tools() error {
	for _, l := range e.box.Losses {
		if err := e.cannot(l.Param, "%s", l.Reason); err != nil {
			return err
		}
	}
	if c := e.req.ToolChoice; c != nil && c.Mode == responses.ToolChoiceNone {
		return nil // a model that must not call any needs none
	}
	for i := range e.box.Functions {
		f := &e.box.Functions[i]
		if swallowed[f.Name] || strings.HasPrefix(f.Name, reservedPrefix) {
			return responses.Unsupported(f.At, "The Codex app-server keeps the name %q for itself: give the tool another.", f.Name)
		}
		if f.Strict != nil && *f.Strict {
			if err := e.cannot(f.At+".strict", "The Codex app-server does not enforce the schema of a tool."); err != nil {
				return err
			}
		}
		schema, lost := reduceSchema(f.Parameters)
		if len(lost) > 0 {
			e.losses.Add(f.At+".parameters", "The Codex app-server leaves out parts of the schema: %s.", strings.Join(lost, ", "))
		}
		e.out.start.DynamicTools = append(e.out.start.DynamicTools, dynamicTool{
			Type: "function", Name: f.Name, Description: f.Description, InputSchema: schema,
		})
	}
	if p := e.req.ParallelToolCalls; p != nil && !*p && len(e.box.Functions) > 0 {
		return e.cannot("parallel_tool_calls", "The Codex app-server always allows parallel calls.")
	}
	return nil
}

// toolChoice refuses what would force a call.
func (e *encoder) toolChoice() error {
	c := e.req.ToolChoice
	if c == nil {
		return nil
	}
	forced := ""
	switch {
	case c.Type != "" && c.Type != responses.TypeAllowedTools:
		forced = fmt.Sprintf("%s %s", c.Type, c.Name)
	case c.Mode == responses.ToolChoiceRequired:
		forced = c.Mode
	}
	if forced == "" {
		return nil
	}
	return e.cannot("tool_choice", "The Codex app-server leaves it to the model whether to call a tool; it cannot have %s.", strings.TrimSpace(forced))
}
