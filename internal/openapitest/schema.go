package openapitest

import (
	"maps"
	"slices"
	"strings"
)

// explicit rewrites an OpenAPI document so that a validator of plain JSON Schema
// reports the one place that is wrong. Three constructs would otherwise report
// every branch that might have been meant:
//
//   - oneOf over objects that a "type" member tells apart: the member chooses
//     the branch, declared as a discriminator or not.
//   - anyOf of something and null: null chooses.
//   - oneOf and anyOf of a single branch: it is the one.
func explicit(v, doc any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = explicit(e, doc)
		}
		return out
	case map[string]any:
		if branches := discriminated(v, doc); branches != nil {
			return chooseByType(branches)
		}
		if other, ok := nullable(v); ok {
			return map[string]any{"if": map[string]any{"type": "null"}, "else": explicit(other, doc)}
		}
		out := make(map[string]any, len(v))
		for name, e := range v {
			if list, ok := e.([]any); ok && len(list) == 1 && (name == "oneOf" || name == "anyOf") {
				name = "allOf"
			}
			out[name] = explicit(e, doc)
		}
		return out
	}
	return v
}

// discriminated returns the branches of a oneOf by the type word of each, nil if
// v is not such a oneOf.
func discriminated(v map[string]any, doc any) map[string]any {
	oneOf, _ := v["oneOf"].([]any)
	branches := map[string]any{}
	for _, branch := range oneOf {
		word, ok := typeWord(branch, doc)
		if !ok {
			return nil
		}
		branches[word] = branch
	}
	if len(branches) == 0 {
		return nil
	}
	return branches
}

// typeWord is the one value that a referenced schema allows for "type".
func typeWord(branch, doc any) (string, bool) {
	ref, _ := lookup(branch, "$ref").(string)
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return "", false
	}
	enum, _ := lookup(doc, append(strings.Split(path, "/"), "properties", "type", "enum")...).([]any)
	if len(enum) != 1 {
		return "", false
	}
	word, ok := enum[0].(string)
	return word, ok
}

func chooseByType(branches map[string]any) map[string]any {
	words := slices.Sorted(maps.Keys(branches))
	var known, choices []any
	for _, word := range words {
		known = append(known, word)
		choices = append(choices, map[string]any{
			"if":   map[string]any{"properties": map[string]any{"type": map[string]any{"const": word}}},
			"then": branches[word],
		})
	}
	return map[string]any{
		"type":       "object",
		"required":   []any{"type"},
		"properties": map[string]any{"type": map[string]any{"enum": known}},
		"allOf":      choices,
	}
}

// nullable returns the other branch of an anyOf that has two, one being null.
func nullable(v map[string]any) (any, bool) {
	anyOf, _ := v["anyOf"].([]any)
	if len(anyOf) != 2 || lookup(anyOf[1], "type") != "null" {
		return nil, false
	}
	return anyOf[0], true
}

// lookup follows names through objects; nil where there is nothing.
func lookup(v any, path ...string) any {
	for _, name := range path {
		obj, _ := v.(map[string]any)
		v = obj[name]
	}
	return v
}
