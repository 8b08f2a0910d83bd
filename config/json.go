package config

import (
	"encoding/json/jsontext"
	"fmt"
	"reflect"
	"strconv"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

var jsonType = reflect.TypeFor[jsontext.Value]()

// maxJSONDepth is how deep a value may be nested that becomes a member of a
// request.
const maxJSONDepth = 64

// json decodes any value into its JSON, with references in text resolved. What it
// returns is valid; null stands for what was refused, which is reported.
func (d *decoder) json(path string, n ast.Node) jsontext.Value {
	before := len(d.problems)
	value := jsontext.Value(d.appendJSON(nil, path, n, 0))
	switch {
	case len(d.problems) > before:
		return jsontext.Value("null")
	case !value.IsValid():
		d.addf(path, "cannot be written as JSON; is there text in it that is not UTF-8?")
		return jsontext.Value("null")
	}
	return value
}

// appendJSON appends the JSON of n to b. What it appends for something that it
// reports does not matter.
func (d *decoder) appendJSON(b []byte, path string, n ast.Node, depth int) []byte {
	if isNothing(n) {
		return append(b, "null"...)
	}
	if d.refuseAnchor(path, n) {
		return b
	}
	if depth > maxJSONDepth {
		d.addf(path, "is nested deeper than %d levels; write it flatter", maxJSONDepth)
		return b
	}
	switch v := n.(type) {
	case *ast.BoolNode:
		return strconv.AppendBool(b, v.Value)
	case *ast.IntegerNode:
		return appendNumber(b, v.GetToken().Value, v.Value)
	case *ast.FloatNode:
		return appendNumber(b, v.GetToken().Value, v.Value)
	case *ast.InfinityNode, *ast.NanNode:
		d.addf(path, "JSON has no such number; write a finite one")
		return b
	case *ast.SequenceNode:
		return d.appendArray(b, path, v, depth)
	case ast.MapNode:
		return d.appendObject(b, path, n, depth)
	case *ast.StringNode:
		// The YAML library takes some numbers for text, such as 1e3.
		if v.Token.Type == token.StringType && jsontext.Value(v.Value).Kind() == '0' && jsontext.Value(v.Value).IsValid() {
			return append(b, v.Value...)
		}
	}
	text, _ := d.text(path, n)
	return appendText(b, text)
}

func (d *decoder) appendArray(b []byte, path string, n *ast.SequenceNode, depth int) []byte {
	b = append(b, '[')
	for i, value := range n.Values {
		if i > 0 {
			b = append(b, ',')
		}
		b = d.appendJSON(b, fmt.Sprintf("%s[%d]", path, i), value, depth+1)
	}
	return append(b, ']')
}

func (d *decoder) appendObject(b []byte, path string, n ast.Node, depth int) []byte {
	b = append(b, '{')
	first := true
	for key, value := range d.entries(path, n) {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendText(b, key), ':')
		b = d.appendJSON(b, join(path, key), value, depth+1)
	}
	return append(b, '}')
}

// appendNumber appends a number as it is written if JSON writes it so too, because
// 1.0 is not 1 to every reader; otherwise, as 0x10, by its value.
func appendNumber(b []byte, written string, value any) []byte {
	if jsontext.Value(written).IsValid() {
		return append(b, written...)
	}
	return fmt.Append(b, value)
}

// appendText appends a JSON string. Text that is not UTF-8 is left as it is, for
// the check of the whole value to find.
func appendText(b []byte, s string) []byte {
	quoted, err := jsontext.AppendQuote(b, s)
	if err != nil {
		return append(b, s...)
	}
	return quoted
}
