package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// A decoder fills a [Config] from the file's syntax tree. The YAML library could
// do that too, but it stops at the first mistake.
type decoder struct {
	refs     references
	places   map[string]place // where each path is written
	problems problems
	broken   bool // there is nothing to validate
}

type place struct{ line, column int }

// shortForm is a value that may be written as a single word instead of a
// mapping.
type shortForm interface{ setShort(string) }

func (d *decoder) decode(root ast.Node, c *Config) {
	d.value("", root, reflect.ValueOf(c).Elem())
	for name, m := range c.Models {
		if len(m.Targets) > 0 && (m.Upstream != "" || m.Model != "") {
			d.addf(join(join("models", name), "targets"), "upstream or model is also there; write them as a target, or remove the targets")
		}
	}
}

// value decodes n, which is at path, into v.
func (d *decoder) value(path string, n ast.Node, v reflect.Value) {
	if v.Type() == jsonType {
		v.SetBytes(d.json(path, n))
		return
	}
	if isNothing(n) || d.refuseAnchor(path, n) {
		return
	}
	switch {
	case v.Type() == durationType:
		d.duration(path, n, v)
	case v.Kind() == reflect.Pointer: // nil is a default that is not zero
		elem := reflect.New(v.Type().Elem())
		d.value(path, n, elem.Elem())
		v.Set(elem)
	case v.Kind() == reflect.Bool:
		d.boolean(path, n, v)
	case v.Kind() == reflect.String:
		if s, ok := d.text(path, n); ok {
			v.SetString(s)
		}
	case v.Kind() == reflect.Map:
		d.mapOf(path, n, v)
	case v.Kind() == reflect.Slice:
		d.listOf(path, n, v)
	default:
		d.structure(path, n, v)
	}
}

// isNothing reports that a key has no value: the default stays.
func isNothing(n ast.Node) bool {
	_, null := n.(*ast.NullNode)
	return n == nil || null
}

// refuseAnchor reports what would make one value appear in several places.
func (d *decoder) refuseAnchor(path string, n ast.Node) bool {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		d.addf(path, "YAML anchors, aliases and tags are not supported; write the value out")
		return true
	}
	return false
}

// structure decodes a mapping whose keys we define.
func (d *decoder) structure(path string, n ast.Node, v reflect.Value) {
	fillDefaults(v)
	if short, ok := v.Addr().Interface().(shortForm); ok {
		if _, isText := n.(ast.ScalarNode); isText {
			if s, ok := d.text(path, n); ok {
				short.setShort(s)
			}
			return
		}
	}
	fields := fieldsOf(v.Type())
	for key, value := range d.entries(path, n) {
		f, ok := fields[key]
		if !ok {
			d.addf(join(path, key), "%s", unknownKey(key, fields))
			continue
		}
		at, field := join(path, key), v.FieldByIndex(f.Index)
		if least, ok := f.Tag.Lookup("min"); ok {
			d.integer(at, value, field, least)
			continue
		}
		d.value(at, value, field)
	}
}

// mapOf decodes a mapping whose keys are the user's.
func (d *decoder) mapOf(path string, n ast.Node, v reflect.Value) {
	m := reflect.MakeMap(v.Type())
	for key, value := range d.entries(path, n) {
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(join(path, key), value, elem)
		m.SetMapIndex(reflect.ValueOf(key), elem)
	}
	v.Set(m)
}

// listOf decodes a sequence.
func (d *decoder) listOf(path string, n ast.Node, v reflect.Value) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.addf(path, "must be a list, not %s", kind(n))
		return
	}
	list := reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values))
	for i, value := range seq.Values {
		at := fmt.Sprintf("%s[%d]", path, i)
		if tok := value.GetToken(); tok != nil {
			d.places[at] = place{tok.Position.Line, tok.Position.Column}
		}
		d.value(at, value, list.Index(i))
	}
	v.Set(list)
}

// entries yields the keys and values of a mapping and notes where they are.
func (d *decoder) entries(path string, n ast.Node) func(yield func(string, ast.Node) bool) {
	return func(yield func(string, ast.Node) bool) {
		m, ok := n.(ast.MapNode)
		if !ok {
			d.addf(path, "must be a mapping of keys to values, not %s", kind(n))
			return
		}
		for it := m.MapRange(); it.Next(); {
			key := it.Key().GetToken()
			at := join(path, key.Value)
			d.places[at] = place{key.Position.Line, key.Position.Column}
			if it.Key().IsMergeKey() {
				d.addf(at, "YAML merge keys are not supported; write the values out")
				continue
			}
			if !yield(key.Value, it.Value()) {
				return
			}
		}
	}
}

// addf adds a problem with the place of its path.
func (d *decoder) addf(path, format string, args ...any) {
	var p problems
	p.addf(path, format, args...)
	p[0].Line, p[0].Column = d.placeOf(path)
	d.problems = append(d.problems, p...)
}

// placeOf returns where a path is in the file, or what contains it if it is not
// written there.
func (d *decoder) placeOf(path string) (line, column int) {
	for ; path != ""; path = parent(path) {
		if at, ok := d.places[path]; ok {
			return at.line, at.column
		}
	}
	return 0, 0
}

// addInvalid adds the problems of what was decoded, without those that only
// follow from a problem that is already known: something is missing because its
// key is misspelt, or has no valid value because none could be read.
func (d *decoder) addInvalid(list problems) {
	at, below := map[string]bool{}, map[string]bool{}
	for _, p := range d.problems {
		at[p.Path], below[parent(p.Path)] = true, true
	}
	for _, p := range list {
		_, written := d.places[p.Path]
		if up := parent(p.Path); at[p.Path] || !written && (at[up] || below[up]) {
			continue
		}
		p.Line, p.Column = d.placeOf(p.Path)
		d.problems = append(d.problems, p)
	}
}

// parent cuts the last key off a path that join made.
func parent(path string) string {
	switch {
	case strings.HasSuffix(path, `"]`):
		return path[:max(0, strings.LastIndex(path, `["`))]
	case strings.HasSuffix(path, "]"):
		return path[:max(0, strings.LastIndexByte(path, '['))]
	}
	return path[:max(0, strings.LastIndexByte(path, '.'))]
}

// fieldsOf returns the fields of a struct by their key in the file.
func fieldsOf(t reflect.Type) map[string]reflect.StructField {
	fields := map[string]reflect.StructField{}
	for f := range t.Fields() {
		fields[f.Tag.Get("yaml")] = f
	}
	return fields
}

// kind names what a node is to somebody who writes YAML.
func kind(n ast.Node) string {
	switch n.(type) {
	case *ast.SequenceNode:
		return "a list"
	case ast.MapNode:
		return "a mapping"
	case *ast.BoolNode:
		return "true or false"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	}
	return "text"
}

// unknownKey says why a key is refused and what was perhaps meant.
func unknownKey(key string, fields map[string]reflect.StructField) string {
	known := slices.Sorted(maps.Keys(fields))
	for _, k := range known {
		if similar(key, k) {
			return fmt.Sprintf("unknown key; did you mean %s?", k)
		}
	}
	return "unknown key; here may be " + strings.Join(known, ", ")
}
