package engine

import (
	"encoding/json/v2"
	"slices"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/tool"
)

// A limit is what a request allows to be called (R45). A call beyond it is
// suppressed, whoever would run it.
type limit struct {
	param string // the member that set it, "" if there is no limit
	none  bool   // nothing may be called
	// refs are the tools that the tool choice allows, nil for all.
	refs []responses.ToolRef
	// names are those of the top-level list, nil for all.
	names []string
}

// A called tool is what a limit judges.
type called struct {
	typ, name string
	namespace string
	label     string // of a tool of ours
}

// allowedToolsMember is a top-level list of names: the same limit as the tool
// choice of that type, in short.
const allowedToolsMember = "allowed_tools"

func limitOf(req *responses.Request) (*limit, error) {
	l := new(limit)
	for name, v := range responses.Members(req.Extra) {
		if name != allowedToolsMember || v.Kind() == 'n' {
			continue
		}
		l.param, l.names = name, []string{}
		if json.Unmarshal(v, &l.names) != nil {
			return nil, responses.InvalidParam(responses.CodeInvalidType, name, "Must be a list of names of tools.")
		}
	}
	c := req.ToolChoice
	switch {
	case c == nil:
	case c.Mode == responses.ToolChoiceNone:
		l.param, l.none = "tool_choice", true
	case c.Type == responses.TypeAllowedTools:
		l.param, l.refs = "tool_choice", c.Tools
	case c.Type == responses.TypeFunction, c.Type == responses.TypeCustom, c.Type == responses.TypeMCP:
		l.param, l.refs = "tool_choice", []responses.ToolRef{{Type: c.Type, Name: c.Name, ServerLabel: c.ServerLabel}}
	}
	return l, nil
}

// allows reports whether a call is within the limit.
func (l *limit) allows(c called) bool {
	if l.none || l.names != nil && !slices.Contains(l.names, c.name) {
		return false
	}
	return l.refs == nil || slices.ContainsFunc(l.refs, func(ref responses.ToolRef) bool { return refersTo(ref, c) })
}

// refersTo reports whether a reference of a tool choice is to a tool.
func refersTo(ref responses.ToolRef, c called) bool {
	switch ref.Type {
	case responses.TypeMCP:
		return c.label != "" && ref.ServerLabel == c.label && (ref.Name == "" || ref.Name == c.name)
	case responses.TypeFunction:
		return ref.Name == c.name && (c.typ == responses.TypeFunction || c.label == tool.DefaultLabel)
	case responses.TypeNamespace:
		return c.namespace != "" && ref.Name == c.namespace
	}
	return ref.Type == c.typ && (ref.Name == "" || ref.Name == c.name)
}
