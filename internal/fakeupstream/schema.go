package fakeupstream

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"slices"
	"strconv"
	"strings"
)

// Schemas come from clients. A recursive one is followed to fullDepth, then cut
// short as far as it allows; one that recurses or explodes without end gets
// nulls.
const (
	fullDepth        = 8
	maxInstanceDepth = 32
	maxInstanceBytes = 1 << 20
	maxInstanceItems = 16
)

// propertyChoice says which properties an instance has.
type propertyChoice bool

const (
	requiredProperties propertyChoice = false
	allProperties      propertyChoice = true
)

// schema is what the generator understands of JSON Schema; the rest is ignored.
type schema struct {
	Ref        string           `json:"$ref"`
	Type       jsontext.Value   `json:"type"`
	Const      jsontext.Value   `json:"const"`
	Enum       []jsontext.Value `json:"enum"`
	AnyOf      []jsontext.Value `json:"anyOf"`
	OneOf      []jsontext.Value `json:"oneOf"`
	AllOf      []jsontext.Value `json:"allOf"`
	Properties jsontext.Value   `json:"properties"`
	Required   []string         `json:"required"`
	Items      jsontext.Value   `json:"items"`
	MinItems   int              `json:"minItems"`
	MinLength  int              `json:"minLength"`
	Minimum    *float64         `json:"minimum"`
	Maximum    *float64         `json:"maximum"`
}

// generator writes one instance of the schema root.
type generator struct {
	root  jsontext.Value
	word  string // for strings
	which propertyChoice
}

// instance returns a minimal instance of the schema, compact and in the order
// of its properties: strings are word, numbers 1, booleans true, arrays have
// one element, enums give their first value. Without a schema it is {}; a
// schema that makes no sense gives nulls.
func instance(root jsontext.Value, word string, which propertyChoice) []byte {
	if len(root) == 0 || root.Kind() == 'n' {
		return []byte("{}")
	}
	g := generator{root: root, word: word, which: which}
	return g.append(nil, root, 0)
}

func (g *generator) append(dst []byte, raw jsontext.Value, depth int) []byte {
	var s schema
	tooMuch := depth > maxInstanceDepth || len(dst) > maxInstanceBytes
	if tooMuch || raw.Kind() != '{' || json.Unmarshal(raw, &s) != nil {
		return append(dst, "null"...)
	}
	if next := g.delegate(&s); next != nil {
		return g.append(dst, next, depth+1)
	}
	switch {
	case s.Const != nil:
		return append(dst, compact(s.Const)...)
	case len(s.Enum) > 0:
		return append(dst, compact(s.Enum[0])...)
	}
	switch s.kind() {
	case "object":
		return g.appendObject(dst, &s, depth)
	case "array":
		return g.appendArray(dst, &s, depth)
	case "number", "integer":
		return strconv.AppendFloat(dst, s.number(), 'f', -1, 64)
	case "boolean":
		return append(dst, "true"...)
	case "null":
		return append(dst, "null"...)
	default:
		return g.appendString(dst, &s)
	}
}

// delegate returns the schema that s stands for, if it is only a pointer to
// another one or a choice: the first one then.
func (g *generator) delegate(s *schema) jsontext.Value {
	if path, local := strings.CutPrefix(s.Ref, "#"); local {
		return lookUp(g.root, path)
	}
	for _, choices := range [][]jsontext.Value{s.AnyOf, s.OneOf, s.AllOf} {
		if len(choices) > 0 {
			return choices[0]
		}
	}
	return nil
}

func (g *generator) appendObject(dst []byte, s *schema, depth int) []byte {
	dst = append(dst, '{')
	empty := true
	for name, property := range members(s.Properties) {
		optional := !slices.Contains(s.Required, name)
		if optional && (g.which == requiredProperties || depth > fullDepth) {
			continue
		}
		if !empty {
			dst = append(dst, ',')
		}
		empty = false
		dst, _ = jsontext.AppendQuote(dst, name)
		dst = append(dst, ':')
		dst = g.append(dst, property, depth+1)
	}
	return append(dst, '}')
}

func (g *generator) appendArray(dst []byte, s *schema, depth int) []byte {
	dst = append(dst, '[')
	items := s.Items
	if items == nil {
		items = jsontext.Value(`{}`)
	}
	n := max(s.MinItems, 1)
	if depth > fullDepth {
		n = s.MinItems
	}
	for i := range min(n, maxInstanceItems) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = g.append(dst, items, depth+1)
	}
	return append(dst, ']')
}

func (g *generator) appendString(dst []byte, s *schema) []byte {
	word := g.word
	if missing := min(s.MinLength, maxInstanceBytes) - len(word); missing > 0 {
		word += strings.Repeat("x", missing)
	}
	dst, _ = jsontext.AppendQuote(dst, word)
	return dst
}

// kind returns the type: the first that is not null where there are several,
// and a guess where there is none.
func (s *schema) kind() string {
	var one string
	if json.Unmarshal(s.Type, &one) == nil {
		return one
	}
	var several []string
	if json.Unmarshal(s.Type, &several) == nil {
		for _, kind := range several {
			if kind != "null" {
				return kind
			}
		}
	}
	switch {
	case s.Properties != nil:
		return "object"
	case s.Items != nil:
		return "array"
	}
	return "string"
}

func (s *schema) number() float64 {
	n := 1.0
	if s.Minimum != nil {
		n = max(n, *s.Minimum)
	}
	if s.Maximum != nil {
		n = min(n, *s.Maximum)
	}
	return n
}

// lookUp returns the value at a JSON pointer, or null.
func lookUp(value jsontext.Value, pointer string) jsontext.Value {
	for token := range jsontext.Pointer(pointer).Tokens() {
		var found jsontext.Value
		for name, member := range members(value) {
			if name == token {
				found = member
			}
		}
		value = found
	}
	if value == nil {
		return jsontext.Value("null")
	}
	return value
}

// members yields the members of an object in its order, and nothing for
// anything else.
func members(object jsontext.Value) func(yield func(string, jsontext.Value) bool) {
	return func(yield func(string, jsontext.Value) bool) {
		if object.Kind() != '{' {
			return
		}
		d := jsontext.NewDecoder(bytes.NewReader(object))
		_, err := d.ReadToken()
		for err == nil && d.PeekKind() == '"' {
			var name jsontext.Token
			if name, err = d.ReadToken(); err != nil {
				return
			}
			key := name.String()
			var value jsontext.Value
			if value, err = d.ReadValue(); err != nil || !yield(key, value.Clone()) {
				return
			}
		}
	}
}

func compact(v jsontext.Value) jsontext.Value {
	v = v.Clone()
	if v.Compact() != nil {
		return jsontext.Value("null")
	}
	return v
}
