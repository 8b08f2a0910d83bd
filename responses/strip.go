package responses

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxStripped is how many things are named that were stripped. The rest is
	// counted.
	maxStripped = 64
	// maxStrippedName is the longest name of one.
	maxStrippedName = 128
)

// Strip returns the request without what the published API does not have: members
// at every depth that the structs of this package describe, and items, parts and
// tools of other kinds. It says what that was, at most 64 things and how many more
// there were. r must be as [DecodeRequest] returned it, and is changed; a request
// that has nothing to strip is returned as it came, byte for byte.
func (r *Request) Strip() (*Request, []Loss, error) {
	var s stripper
	s.value("", reflect.ValueOf(r))
	s.toolChoice(r)
	if len(s.found) == 0 {
		return r, nil, nil
	}
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, nil, err
	}
	// By way of JSON, so that whoever reads the struct and whoever splices its bytes
	// see the same. It was not too large before, and spelling out defaults does not
	// make it so.
	clean, err := DecodeRequest(raw, &Limits{Bytes: math.MaxInt})
	return clean, s.Losses(), err
}

// Strip takes out of the request what the published API does not have, and says what
// that was, as [Request.Strip] does.
func (r *ConversationRequest) Strip() []Loss {
	var s stripper
	s.value("", reflect.ValueOf(r))
	return s.Losses()
}

// HasParam reports whether param, as errors name it, begins with a member of
// requests.
func HasParam(param string) bool {
	name, _, _ := strings.Cut(param, ".")
	name, _, _ = strings.Cut(name, "[")
	return name != "" && requestNames[foldCase(name)] == name
}

// Stripped notes what was stripped, of which names may be anybody's invention: each
// once and shortened, at most 64, and how many more there were. The zero value is
// empty.
type Stripped struct {
	found []Loss
	more  int // found beyond those that are named
}

// Note names something once, however often it comes.
func (s *Stripped) Note(at, reason string) {
	l := Loss{Param: shorten(at, maxStrippedName), Reason: reason}
	switch {
	case slices.Contains(s.found, l):
	case len(s.found) == maxStripped:
		s.more++
	default:
		s.found = append(s.found, l)
	}
}

// Losses are what was noted, with what was only counted; nil if nothing was.
func (s *Stripped) Losses() []Loss {
	if s.more == 0 {
		return s.found
	}
	return append(s.found, Loss{Param: "…", Reason: fmt.Sprintf("and %d more", s.more)})
}

// A stripper takes out of wire structs what the published API does not have.
type stripper struct {
	Stripped
	looking bool // it only looks: what it is given belongs to somebody else
}

const unknownMember = "unknown member"

func unknownKind(what, word string) string {
	return fmt.Sprintf("unknown %s type %s", what, shorten(word, maxStrippedName))
}

// value strips what v holds. Whatever it points to can be set.
func (s *stripper) value(at string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			s.value(at, v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			s.list(at, v)
		}
	case reflect.Struct:
		s.structure(at, v)
	}
}

// list strips the elements of a list, and takes out those of unknown kinds.
func (s *stripper) list(at string, v reflect.Value) {
	kept := 0
	for i := range v.Len() {
		place := at + "[" + strconv.Itoa(i) + "]"
		if reason := strangeness(v.Index(i).Interface()); reason != "" {
			s.Note(place, reason)
			continue
		}
		s.value(place, v.Index(i))
		if !s.looking && kept != i {
			v.Index(kept).Set(v.Index(i))
		}
		kept++
	}
	if !s.looking && kept < v.Len() {
		v.SetLen(kept)
	}
}

// strangeness says why an element is of no published kind, "" if it is of one.
func strangeness(v any) string {
	switch v := v.(type) {
	case *UnknownItem:
		if _, ok := publishedItems[v.Name]; !ok {
			return unknownKind("item", v.Name)
		}
	case *UnknownPart:
		if _, ok := publishedParts[v.Name]; !ok {
			return unknownKind("part", v.Name)
		}
	case *UnknownTool:
		if _, ok := publishedTools[v.Name]; !ok {
			return unknownKind("tool", v.Name)
		}
	case ToolRef:
		if !knownTool(v.Type) {
			return unknownKind("tool", v.Type)
		}
	case jsontext.Value: // of the lists that the structs have, only annotations are values
		if word := stringMember(v, "type"); publishedAnnotations[word] == nil {
			return unknownKind("annotation", word)
		}
	}
	return ""
}

func knownTool(word string) bool { return newTool(word) != nil || publishedTools[word] != nil }

// structure strips a wire struct.
func (s *stripper) structure(at string, v reflect.Value) {
	info := structInfoOf(v.Type())
	if info.extra >= 0 {
		extra := v.Field(info.extra)
		known := func(name string) bool {
			return info.folded[foldCase(name)] == name || slices.Contains(published(v), name)
		}
		if rest := s.members(at, extra.Bytes(), known); !s.looking {
			extra.SetBytes(rest)
		}
	}
	if o, ok := v.Addr().Interface().(*OutputText); ok {
		s.annotations(under(at, "annotations"), o)
	}
	for _, f := range info.nested {
		s.value(under(at, f.name), v.Field(f.index))
	}
}

// under is the place of a member. The fields without a name of their own are those
// of values that are lists on the wire.
func under(at, name string) string {
	if at == "" || name == "" {
		return at + name
	}
	return at + "." + name
}

// published are the members of v that its struct does not name.
func published(v reflect.Value) []string {
	switch v := v.Addr().Interface().(type) {
	case *UnknownItem:
		return publishedItems[v.Name]
	case *UnknownPart:
		return publishedParts[v.Name]
	case *UnknownTool:
		return publishedTools[v.Name]
	}
	return publishedMembers[v.Type()]
}

// members returns an object without the members that are not known.
func (s *stripper) members(at string, object jsontext.Value, known func(name string) bool) jsontext.Value {
	var rest []byte
	gone := false
	for name, v := range Members(object) {
		if !known(name) {
			s.Note(under(at, name), unknownMember)
			gone = true
			continue
		}
		rest = append(append(append(append(rest, ','), quote(name)...), ':'), v...)
	}
	switch {
	case !gone:
		return object
	case rest == nil:
		return nil
	}
	rest[0] = '{'
	return append(rest, '}')
}

// annotations strips the annotations of a text, which are kept as they came.
func (s *stripper) annotations(at string, o *OutputText) {
	for i, a := range o.Annotations {
		members := publishedAnnotations[stringMember(a, "type")]
		if members == nil {
			continue // list takes it out
		}
		rest := s.members(at+"["+strconv.Itoa(i)+"]", a, func(name string) bool { return name == "type" || slices.Contains(members, name) })
		if !s.looking {
			o.Annotations[i] = rest
		}
	}
}

// toolChoice brings the choice of a stripped request in line with the tools that
// are left: what was a limit stays one (R45).
func (s *stripper) toolChoice(r *Request) {
	c := r.ToolChoice
	if c == nil {
		return
	}
	switch {
	case c.Type == TypeAllowedTools:
		if member(c.Raw, "tools") != nil && len(c.Tools) == 0 {
			r.ToolChoice = &ToolChoice{Mode: ToolChoiceNone}
			return
		}
		c.Raw = nil // it has the tools as they came
	case c.Type == TypeFunction || c.Type == TypeCustom:
	case c.Type != "" && !knownTool(c.Type):
		s.Note("tool_choice", unknownKind("tool", c.Type))
		r.ToolChoice = nil
	case c.Mode == ToolChoiceRequired && len(r.Tools) == 0 && !r.bringsTools():
		s.Note("tool_choice", "no tool is left")
		r.ToolChoice = nil
	}
}
