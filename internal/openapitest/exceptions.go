package openapitest

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

//go:embed exceptions.txt
var exceptionsText string

// A violation is one place of a document that departs from the schema.
type violation struct {
	at      []string // tokens of a JSON pointer; for a missing member, its own place
	keyword string   // of JSON Schema
	value   any      // what is there
	message string
}

func (v violation) Error() string { return v.message }

// violations returns the innermost errors under err about the document doc.
func violations(err *jsonschema.ValidationError, doc any) []violation {
	if missing, ok := err.ErrorKind.(*kind.Required); ok {
		var out []violation
		for _, name := range missing.Missing {
			at := append(slices.Clone(err.InstanceLocation), name)
			out = append(out, violation{at, "required", nil, fmt.Sprintf("at '/%s': missing", strings.Join(at, "/"))})
		}
		return out
	}
	path := err.ErrorKind.KeywordPath()
	keyword := ""
	if len(path) > 0 {
		keyword = path[0]
	}
	// The branches of a oneOf that is left are guesses at what was meant.
	if len(err.Causes) == 0 || keyword == "oneOf" {
		return []violation{{err.InstanceLocation, keyword, valueAt(doc, err.InstanceLocation), err.Error()}}
	}
	var out []violation
	for _, cause := range err.Causes {
		out = append(out, violations(cause, doc)...)
	}
	return out
}

func valueAt(doc any, at []string) any {
	for _, token := range at {
		switch v := doc.(type) {
		case map[string]any:
			doc = v[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			doc = v[i]
		}
	}
	return doc
}

// An exception is one line of exceptions.txt.
type exception struct {
	line     string
	anchored bool     // at must match from the start, not only at the end
	at       []string // "*" matches any one token
	keyword  string
	value    string // "*" matches any value
	used     atomic.Bool
}

// parseExceptions reads lines of four fields: a JSON pointer, the keyword that
// is broken, the value that may stand there, and the reason. A pointer without
// its leading slash matches at any depth.
func parseExceptions(text string) ([]*exception, error) {
	var list []*exception
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 4 {
			return nil, fmt.Errorf("exceptions.txt: %q has no reason", strings.TrimSpace(line))
		}
		pointer, anchored := strings.CutPrefix(fields[0], "/")
		list = append(list, &exception{
			line:     strings.TrimSpace(line),
			anchored: anchored,
			at:       strings.Split(pointer, "/"),
			keyword:  fields[1],
			value:    fields[2],
		})
	}
	return list, nil
}

func (e *exception) matches(v violation) bool {
	skip := len(v.at) - len(e.at)
	if skip < 0 || e.anchored && skip > 0 || e.keyword != v.keyword {
		return false
	}
	for i, token := range e.at {
		if token != "*" && token != v.at[skip+i] {
			return false
		}
	}
	return e.value == "*" || e.value == v.value
}

// excepted reports whether an exception allows v, and remembers which.
func (c *Checker) excepted(v violation) bool {
	for _, e := range c.exceptions {
		if e.matches(v) {
			e.used.Store(true)
			return true
		}
	}
	return false
}
