package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// An Error is everything that is wrong with a configuration, in the order of the
// file.
type Error struct {
	// Name is the file's, empty if the configuration was no file.
	Name     string
	Problems []Problem
}

// Error puts each problem on a line of its own, in the form that editors know:
// file:line:column: what.
func (e *Error) Error() string {
	var b strings.Builder
	for i, p := range e.Problems {
		if i > 0 {
			b.WriteByte('\n')
		}
		if e.Name != "" {
			b.WriteString(e.Name + ":")
			if p.Line == 0 {
				b.WriteByte(' ')
			}
		}
		b.WriteString(p.String())
	}
	return b.String()
}

// A Problem is one thing that is wrong, and what to do about it.
type Problem struct {
	// Path is the place in the configuration, such as upstreams.local.url; empty
	// if it is the file as a whole.
	Path string
	// Line and Column are the place in the file, from 1; 0 if there is none.
	Line, Column int
	// Text never quotes a secret.
	Text string
}

// String returns "line:column: path: text", without what is not known.
func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "%d:%d: ", p.Line, p.Column)
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	return b.String() + p.Text
}

// problems collects what is wrong.
type problems []Problem

func (p *problems) addf(path, format string, args ...any) {
	*p = append(*p, Problem{Path: path, Text: fmt.Sprintf(format, args...)})
}

// err returns the problems as an error, sorted by place, or nil if there are
// none.
func (p problems) err(name string) error {
	if len(p) == 0 {
		return nil
	}
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return &Error{Name: name, Problems: p}
}

// join appends a key to a path: .key if it is a plain word, ["key"] otherwise,
// because model names have dots and colons in them.
func join(path, key string) string {
	switch {
	case !isWord(key):
		return fmt.Sprintf("%s[%q]", path, key)
	case path == "":
		return key
	}
	return path + "." + key
}

func isWord(s string) bool {
	for _, r := range s {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-') {
			return false
		}
	}
	return s != ""
}
