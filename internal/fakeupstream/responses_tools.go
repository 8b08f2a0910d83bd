package fakeupstream

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
)

// responsesTool is a tool of any type, as far as the mind reads it.
type responsesTool struct {
	Type       string           `json:"type"`
	Name       string           `json:"name"`
	Parameters jsontext.Value   `json:"parameters"`
	Execution  string           `json:"execution"`
	Tools      []jsontext.Value `json:"tools"` // of a namespace
}

// decodeTools takes the tools of the request that a client runs, before those
// of the input. Tools that the provider would run itself are never called.
func (r *responsesRequest) decodeTools(p *prompt) error {
	given := len(r.Tools) + len(p.tools)
	tools, err := appendTools(nil, r.Tools, "tools", "")
	if err != nil {
		return err
	}
	choice, err := decodeToolChoice(r.ToolChoice, decodeResponsesToolChoice)
	if err != nil {
		return err
	}
	p.tools, err = choice.from(append(tools, p.tools...), given)
	return err
}

// appendTools adds to tools those in list, which is at a place in the request
// and in a namespace. The error is a *refusedError.
func appendTools(tools []tool, list []jsontext.Value, at, namespace string) ([]tool, error) {
	for i, raw := range list {
		at := fmt.Sprintf("%s[%d]", at, i)
		var t responsesTool
		if err := json.Unmarshal(raw, &t); err != nil {
			return nil, refuse(at, "", "Invalid tool: %v", err)
		}
		if err := t.check(at, namespace); err != nil {
			return nil, err
		}
		switch t.Type {
		case "function":
			tools = append(tools, tool{functionTool, namespace, t.Name, t.Parameters})
		case "custom":
			tools = append(tools, tool{kind: customTool, namespace: namespace, name: t.Name})
		case "tool_search":
			if t.Execution == "client" {
				tools = append(tools, tool{kind: searchTool, name: t.Type, schema: t.Parameters})
			}
		case "namespace":
			var err error
			if tools, err = appendTools(tools, t.Tools, at+".tools", t.Name); err != nil {
				return nil, err
			}
		}
	}
	return tools, nil
}

func (t *responsesTool) check(at, namespace string) error {
	named := t.Type == "function" || t.Type == "custom" || t.Type == "namespace"
	switch {
	case t.Type == "":
		return missing(at + ".type")
	case named && t.Name == "":
		return missing(at + ".name")
	case t.Type == "namespace" && namespace != "":
		return refuse(at+".type", "invalid_value", "A namespace cannot be in a namespace.")
	}
	return nil
}

func decodeResponsesToolChoice(raw jsontext.Value) (toolChoice, error) {
	type ref struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}
	var object struct {
		ref
		Mode  string `json:"mode"`
		Tools []ref  `json:"tools"`
	}
	if err := json.Unmarshal(raw, &object); err != nil {
		return toolChoice{}, refuse("tool_choice", "", "Invalid tool_choice: %v", err)
	}
	switch object.Type {
	case "":
		return toolChoice{}, missing("tool_choice.type")
	case "function", "custom":
		if object.Name == "" {
			return toolChoice{}, missing("tool_choice.name")
		}
		return toolChoice{must: true, only: []string{object.Name}}, nil
	case "allowed_tools":
		choice := toolChoice{must: object.Mode == "required", only: []string{}}
		for _, allowed := range object.Tools {
			if allowed.Type == "function" || allowed.Type == "custom" {
				choice.only = append(choice.only, allowed.Name)
			}
		}
		return choice, nil
	}
	return toolChoice{must: true}, nil
}
