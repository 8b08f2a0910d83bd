package fakeupstream

import (
	"encoding/json/jsontext"
	"strings"
)

// toolKind is how a tool is called.
type toolKind int

const (
	functionTool toolKind = iota // with arguments that follow the schema
	customTool                   // with free text; there is no schema
	searchTool                   // with arguments, to look for more tools at the client
)

// A tool can be called by the mind.
type tool struct {
	kind      toolKind
	namespace string // empty if it is in none
	name      string
	schema    jsontext.Value
}

// call returns a call with arguments, or with the input of a custom tool.
func (t tool) call(arguments []byte) part {
	p := part{kind: callPart, tool: t}
	switch t.kind {
	case customTool:
		p.tokens = words(string(arguments))
	case searchTool:
		p.tokens = whole(arguments)
	default:
		p.tokens = pieces(arguments)
	}
	return p
}

// path is the name with the namespace.
func (t tool) path() string {
	if t.namespace == "" {
		return t.name
	}
	return t.namespace + "." + t.name
}

// tool returns the tool that answers to a name: the one that is called so or
// else, since gateways rename tools that an upstream has no form for, the first
// one whose path ends so.
func (p *prompt) tool(name string) (tool, bool) {
	for _, t := range p.tools {
		if t.name == name || t.path() == name {
			return t, true
		}
	}
	for _, t := range p.tools {
		if strings.HasSuffix(t.path(), name) {
			return t, true
		}
	}
	return tool{}, false
}
