package codex

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"maps"
	"slices"
)

// What Codex does with the keywords of a tool's JSON Schema.
var (
	// kept are those that reach the model.
	kept = map[string]bool{
		"type": true, "description": true, "enum": true, "const": true, "properties": true, "required": true, "items": true, "minItems": true,
		"additionalProperties": true, "anyOf": true, "oneOf": true, "allOf": true, "$ref": true, "$defs": true, "definitions": true,
	}
	// idle are those that say nothing to a model.
	idle = map[string]bool{
		"title": true, "$schema": true, "$id": true, "$comment": true, "deprecated": true, "readOnly": true, "writeOnly": true,
	}
	// Where schemas stand within a schema: alone, in a list, under names.
	schemaAt     = []string{"items", "additionalProperties"}
	schemasIn    = []string{"anyOf", "oneOf", "allOf"}
	schemasUnder = []string{"properties", "$defs", "definitions"}
)

// maxDepth is how deep a schema is looked into.
const maxDepth = 64

// reduceSchema returns a schema that Codex passes on as it is, as far as it does
// pass it on, and the keywords that it leaves out. Where Codex would guess, and
// make a string of what may be anything, it is told.
func reduceSchema(schema jsontext.Value) (jsontext.Value, []string) {
	var s any
	if json.Unmarshal(schema, &s) != nil {
		return schema, nil // a decoder accepted it
	}
	lost := map[string]bool{}
	s = reduce(s, lost, 0)
	out, err := json.Marshal(s, json.Deterministic(true))
	if err != nil {
		return schema, nil
	}
	return out, slices.Sorted(maps.Keys(lost))
}

func reduce(s any, lost map[string]bool, depth int) any {
	if s == true {
		return map[string]any{} // Codex reads true as a string
	}
	m, ok := s.(map[string]any)
	if !ok || depth > maxDepth {
		return s
	}
	for name := range m {
		if !kept[name] && !idle[name] {
			lost[name] = true
		}
	}
	for _, name := range schemaAt {
		if inner, ok := m[name]; ok && inner != true {
			m[name] = reduce(inner, lost, depth+1)
		}
	}
	for _, name := range schemasIn {
		if list, ok := m[name].([]any); ok {
			for i := range list {
				list[i] = reduce(list[i], lost, depth+1)
			}
		}
	}
	for _, name := range schemasUnder {
		if named, ok := m[name].(map[string]any); ok {
			for key := range named {
				named[key] = reduce(named[key], lost, depth+1)
			}
		}
	}
	settle(m)
	return m
}

// settle says what Codex would otherwise take for a string: the type of values
// that are listed, and the items of an array.
func settle(m map[string]any) {
	if m["type"] == "array" && m["items"] == nil {
		m["items"] = map[string]any{}
	}
	if m["type"] != nil {
		return
	}
	values, _ := m["enum"].([]any)
	if c, ok := m["const"]; ok {
		values = []any{c}
	}
	var types []any
	for _, v := range values {
		if t := typeOf(v); !slices.Contains(types, any(t)) {
			types = append(types, t)
		}
	}
	switch len(types) {
	case 0:
	case 1:
		m["type"] = types[0]
	default:
		m["type"] = types
	}
}

func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case float64:
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "string"
}
