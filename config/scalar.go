package config

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// text decodes a string, with references resolved.
func (d *decoder) text(path string, n ast.Node) (string, bool) {
	var s string
	switch n := n.(type) {
	case *ast.StringNode:
		s = n.Value
	case *ast.LiteralNode:
		s = n.Value.Value
	default:
		hint := ""
		if _, ok := n.(ast.ScalarNode); ok {
			hint = "; put it in quotes"
		}
		d.addf(path, "must be text, not %s%s", kind(n), hint)
		return "", false
	}
	expanded, err := d.refs.expand(s)
	if err != nil {
		d.addf(path, "%v", err)
		return s, true // something is there: that it is missing would be a second complaint
	}
	return expanded, true
}

// boolean decodes true or false. Text is taken too, because a reference is text.
func (d *decoder) boolean(path string, n ast.Node, v reflect.Value) {
	switch n := n.(type) {
	case *ast.BoolNode:
		v.SetBool(n.Value)
	case *ast.StringNode:
		text, ok := d.text(path, n)
		if !ok {
			return
		}
		if text != "true" && text != "false" {
			d.addf(path, "%q is neither true nor false", text)
		}
		v.SetBool(text == "true")
	default:
		d.addf(path, "must be true or false, not %s", kind(n))
	}
}

func (d *decoder) duration(path string, n ast.Node, v reflect.Value) {
	switch n.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		d.addf(path, "%s has no unit; write %[1]ss for seconds, or use m or h", n.GetToken().Value)
		return
	}
	s, ok := d.text(path, n)
	if !ok {
		return
	}
	t, err := parseDuration(s)
	switch {
	case err != nil:
		d.addf(path, "%q is not a duration; write it like 90s, 5m or 1h", s)
	case t <= 0:
		d.addf(path, "must be longer than zero; leave it out for the default")
	default:
		v.SetInt(int64(t))
	}
}

// parseDuration reads what time.ParseDuration reads, and days: 30d.
func parseDuration(s string) (time.Duration, error) {
	days, ok := strings.CutSuffix(s, "d")
	if !ok {
		return time.ParseDuration(s)
	}
	n, err := strconv.ParseInt(days, 10, 16)
	return time.Duration(n) * 24 * time.Hour, err
}

// integer decodes a whole number that is at least what the field's tag says. Text
// is taken too, because a reference is text. A file cannot say 0 where a program
// says "no limit" with it: there it would read as if nothing were let through.
func (d *decoder) integer(path string, n ast.Node, v reflect.Value, least string) {
	if isNothing(n) || d.refuseAnchor(path, n) {
		return
	}
	var number string
	switch n := n.(type) {
	case *ast.StringNode:
		text, ok := d.text(path, n)
		if !ok {
			return
		}
		number = text
	case *ast.IntegerNode, *ast.FloatNode:
		number = n.GetToken().Value
	default:
		d.addf(path, "must be a whole number, not %s", kind(n))
		return
	}
	i, err := strconv.ParseInt(number, 10, v.Type().Bits())
	smallest, tagErr := strconv.ParseInt(least, 10, 64)
	if tagErr != nil {
		panic(tagErr) // a mistake in this package
	}
	switch {
	case errors.Is(err, strconv.ErrRange):
		d.addf(path, "%s is too large; leave it out for the default", number)
	case err != nil:
		d.addf(path, "%q is not a whole number; write its digits", number)
	case i < smallest:
		d.addf(path, "must be at least %d; leave it out for the default", smallest)
	default:
		v.SetInt(i)
	}
}
