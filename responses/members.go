package responses

import (
	"bytes"
	"encoding/json/jsontext"
	"iter"
	"slices"
)

// A Member is a name and its value in a JSON object.
type Member struct {
	Name  string
	Value jsontext.Value // nil removes the member, in [SetMembers]
	// Optional members are replaced where they stand but never added.
	Optional bool
}

// Members yields the members of an object in order. It stops at the first thing
// that is not JSON; callers pass values that a decoder has accepted. The values
// alias obj.
func Members(obj jsontext.Value) iter.Seq2[string, jsontext.Value] {
	return func(yield func(string, jsontext.Value) bool) {
		dec := jsontext.NewDecoder(bytes.NewBuffer(obj))
		if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
			return
		}
		for dec.PeekKind() == '"' {
			tok, err := dec.ReadToken()
			if err != nil {
				return
			}
			name := tok.String()
			val, err := dec.ReadValue()
			if err != nil || !yield(name, val) {
				return
			}
		}
	}
}

// member returns the value of one member of obj, nil if it has none.
func member(obj jsontext.Value, name string) jsontext.Value {
	for n, v := range Members(obj) {
		if n == name {
			return v
		}
	}
	return nil
}

// stringMember returns a member that is a string, else "".
func stringMember(obj jsontext.Value, name string) string { return stringOf(member(obj, name)) }

// stringOf returns v if it is a string, else "".
func stringOf(v jsontext.Value) string {
	if v.Kind() != '"' {
		return ""
	}
	s, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return ""
	}
	return string(s)
}

// SetMembers returns a copy of the JSON object obj in which the given members
// have the given values: replaced in place where they stand, else added at the
// end, removed where the value is nil. Every other byte is kept.
func SetMembers(obj jsontext.Value, set ...Member) (jsontext.Value, error) {
	out := make([]byte, 0, len(obj)+64)
	out = append(out, '{')
	done := make([]bool, len(set))
	put := func(name string, v jsontext.Value) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, quote(name)...)
		out = append(out, ':')
		out = append(out, v...)
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(obj))
	if tok, err := dec.ReadToken(); err != nil {
		return nil, err
	} else if tok.Kind() != '{' {
		return nil, InvalidParam(CodeInvalidType, "", "Must be an object, not %s.", kindName(tok.Kind()))
	}
	for dec.PeekKind() == '"' {
		tok, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		name := tok.String()
		val, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(set, func(m Member) bool { return m.Name == name }); i >= 0 {
			done[i] = true
			val = set[i].Value
		}
		if val != nil {
			put(name, val)
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	for i, m := range set {
		if !done[i] && m.Value != nil && !m.Optional {
			put(m.Name, m.Value)
		}
	}
	return append(out, '}'), nil
}

// quote returns s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func quote(s string) jsontext.Value {
	b, _ := jsontext.AppendQuote(nil, s) // the error only reports invalid UTF-8
	return b
}
