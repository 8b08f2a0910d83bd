package responses

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// kind is the "type" member of a wire object. It takes no room and always
// encodes as the type word of T, so that a literal cannot get it wrong. It
// accepts any word when decoding: the union has already chosen T by it.
type kind[T interface{ Type() string }] struct{}

func (kind[T]) MarshalJSONTo(enc *jsontext.Encoder) error {
	var t T // Type answers on a nil pointer too
	return enc.WriteToken(jsontext.String(t.Type()))
}

func (*kind[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error { return dec.SkipValue() }

// decodeOptions teach the decoder our unions. Unmarshalers reach nested values
// through the decoder's own options, never through this variable.
var decodeOptions = json.JoinOptions(json.WithUnmarshalers(json.JoinUnmarshalers(
	json.UnmarshalFromFunc(func(dec *jsontext.Decoder, out *Item) error {
		return decodeUnion(dec, out, newItemOf, func(typ string, raw jsontext.Value) Item {
			return &UnknownItem{Name: typ, ID: stringMember(raw, "id"), Raw: raw}
		})
	}),
	json.UnmarshalFromFunc(func(dec *jsontext.Decoder, out *Part) error {
		return decodeUnion(dec, out, ofType(newPart), func(typ string, raw jsontext.Value) Part {
			return &UnknownPart{Name: typ, Raw: raw}
		})
	}),
	json.UnmarshalFromFunc(func(dec *jsontext.Decoder, out *Tool) error {
		return decodeUnion(dec, out, ofType(newTool), func(typ string, raw jsontext.Value) Tool {
			return &UnknownTool{Name: typ, Raw: raw}
		})
	}),
)))

// decodeUnion decodes an object into the struct that its type member names, or
// keeps it whole.
func decodeUnion[T any](dec *jsontext.Decoder, out *T, known, unknown func(string, jsontext.Value) T) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	if raw.Kind() != '{' {
		return &pointerError{dec.StackPointer(), InvalidParam(CodeInvalidType, "", "Must be an object, not %s.", kindName(raw.Kind()))}
	}
	word := member(raw, "type")
	if k := word.Kind(); k != '"' && k != 'n' && k != 0 {
		return &pointerError{dec.StackPointer().AppendToken("type"), InvalidParam(CodeInvalidType, "", "Must be a string, not %s.", kindName(k))}
	}
	typ := stringOf(word)
	v := known(typ, raw)
	if reflect.ValueOf(&v).Elem().IsNil() {
		*out = unknown(typ, raw.Clone())
		return nil
	}
	if err := json.Unmarshal(raw, v, dec.Options()); err != nil {
		return underPointer(dec.StackPointer(), err)
	}
	*out = v
	return nil
}

// ofType is the choice of a union that looks at nothing but the type.
func ofType[T any](known func(typ string) T) func(string, jsontext.Value) T {
	return func(typ string, _ jsontext.Value) T { return known(typ) }
}

// newItemOf is newItem for an object that may leave out its type, as messages may,
// and references, which have an id and nothing else.
func newItemOf(typ string, raw jsontext.Value) Item {
	if typ == "" && isReference(raw) {
		return new(ItemReference)
	}
	return newItem(typ)
}

func isReference(raw jsontext.Value) bool {
	hasID := false
	for name := range Members(raw) {
		if name != "id" && name != "type" {
			return false
		}
		hasID = hasID || name == "id"
	}
	return hasID
}

// pointerError is an error at a place in a document. It survives being wrapped
// by the decoder, which would otherwise report the place of the outermost union.
type pointerError struct {
	at  jsontext.Pointer
	err error
}

func (e *pointerError) Error() string { return string(e.at) + ": " + e.err.Error() }
func (e *pointerError) Unwrap() error { return e.err }

// underPointer places err, whose own place is relative, under at.
func underPointer(at jsontext.Pointer, err error) error {
	if p, ok := errors.AsType[*pointerError](err); ok {
		return &pointerError{at + p.at, p.err}
	}
	return &pointerError{at + pointerOf(err), err}
}

// decodeAt decodes the value of a member of the object that dec has just read.
func decodeAt(dec *jsontext.Decoder, name string, raw jsontext.Value, out any) error {
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, out, dec.Options()); err != nil {
		return underPointer(dec.StackPointer().AppendToken(name), err)
	}
	return nil
}

// pointerOf is the place that the json packages report in err.
func pointerOf(err error) jsontext.Pointer {
	if s, ok := errors.AsType[*json.SemanticError](err); ok {
		return s.JSONPointer
	}
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return s.JSONPointer
	}
	return ""
}

// decode decodes data into v with our unions and rules. Errors are *Error and
// name the field.
func decode(data []byte, v any) error {
	if err := json.Unmarshal(data, v, decodeOptions); err != nil {
		return fieldError(err)
	}
	if m := checkNames(reflect.ValueOf(v)); m != nil {
		return InvalidParam(CodeInvalidJSON, m.at, "Unknown member %q: did you mean %q? Names are case-sensitive.", m.name, m.known)
	}
	return nil
}

// fieldError turns a decoder's error into one that names the field and says
// what was expected.
func fieldError(err error) *Error {
	at := pointerOf(err)
	if p, ok := errors.AsType[*pointerError](err); ok {
		at, err = p.at, p.err // the decoder wrapped it in errors about what is around it
	}
	param := Param(at)
	if e, ok := errors.AsType[*Error](err); ok {
		return InvalidParam(e.Code, param, "%s", e.Message)
	}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return InvalidParam(CodeInvalidJSON, param, "The member %q appears twice.", at.LastToken())
	}
	if s, ok := errors.AsType[*json.SemanticError](err); ok {
		want := "of another type"
		if s.GoType != nil {
			want = goTypeName(s.GoType)
		}
		if s.JSONKind != 0 {
			return InvalidParam(CodeInvalidType, param, "Must be %s, not %s.", want, kindName(s.JSONKind))
		}
		return InvalidParam(CodeInvalidType, param, "Must be %s.", want)
	}
	return InvalidParam(CodeInvalidJSON, param, "Not valid JSON: %s.", syntaxReason(err))
}

func syntaxReason(err error) string {
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok && s.Err != nil {
		return strings.TrimPrefix(s.Err.Error(), "jsontext: ") + fmt.Sprintf(" at byte %d", s.ByteOffset)
	}
	return strings.TrimPrefix(err.Error(), "jsontext: ")
}

// Param spells a JSON pointer the way errors name fields: input[2].content.
func Param(p jsontext.Pointer) string {
	var b strings.Builder
	for tok := range p.Tokens() {
		if _, err := strconv.ParseUint(tok, 10, 32); err == nil && b.Len() > 0 {
			b.WriteString("[" + tok + "]")
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(tok)
	}
	return b.String()
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '{', '}':
		return "an object"
	case '[', ']':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "that"
}

func goTypeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return goTypeName(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	case reflect.Int, reflect.Int64, reflect.Int32:
		return "an integer"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "an array"
	case reflect.Map, reflect.Struct, reflect.Interface:
		return "an object"
	}
	return "of another type"
}

// checkNames finds an unknown member of v, at any depth, that differs from a
// known one only by case. A parser behind us might take {"MODEL": …} for the
// model, and then two readers of one request would disagree about it.
func checkNames(v reflect.Value) *misspelling {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return checkNames(v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return nil
		}
		for i := range v.Len() {
			if m := checkNames(v.Index(i)); m != nil {
				return m.under("[" + strconv.Itoa(i) + "]")
			}
		}
	case reflect.Struct:
		return checkStructNames(v)
	}
	return nil
}

func checkStructNames(v reflect.Value) *misspelling {
	info := structInfoOf(v.Type())
	if info.extra >= 0 && v.Field(info.extra).Len() > 0 {
		for name := range Members(v.Field(info.extra).Bytes()) {
			if known, ok := info.folded[foldCase(name)]; ok && name != known {
				return &misspelling{at: name, name: name, known: known}
			}
		}
	}
	for _, f := range info.nested {
		if m := checkNames(v.Field(f.index)); m != nil {
			return m.under(f.name)
		}
	}
	return nil
}

// misspelling is a member whose name is known in another spelling. Its place is
// put together on the way out, because almost always there is none.
type misspelling struct{ at, name, known string }

func (m *misspelling) under(outer string) *misspelling {
	if outer != "" && m.at[0] != '[' {
		outer += "."
	}
	m.at = outer + m.at
	return m
}

// foldCase maps names that differ only by case to one of them, as a parser that
// ignores case does: by Unicode's simple folding, in which ſ is an s.
func foldCase(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, name)
}

// structInfo is what checkNames needs to know of a wire struct. Kinds that encode
// themselves have json tags for it alone.
type structInfo struct {
	extra  int               // index of the ",embed" field, -1 if none
	folded map[string]string // foldCase of a member's name → its right spelling
	nested []nestedField     // fields that may hold wire structs
}

type nestedField struct {
	index int
	name  string
}

var structInfos sync.Map // reflect.Type → *structInfo

func structInfoOf(t reflect.Type) *structInfo {
	if info, ok := structInfos.Load(t); ok {
		return info.(*structInfo)
	}
	info := &structInfo{extra: -1, folded: map[string]string{}}
	for i := range t.NumField() {
		f := t.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() || name == "-":
		case opts == "embed":
			info.extra = i
		default:
			if name != "" {
				info.folded[foldCase(name)] = name
			}
			switch f.Type.Kind() {
			case reflect.Slice, reflect.Struct, reflect.Interface, reflect.Pointer:
				info.nested = append(info.nested, nestedField{i, name})
			}
		}
	}
	structInfos.Store(t, info)
	return info
}
