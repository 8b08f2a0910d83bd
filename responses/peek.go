package responses

import (
	"bytes"
	"cmp"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"io"
	"reflect"
)

// A Head is what can be known of a request without decoding it.
type Head struct {
	Model  string
	Stream bool
	// Remembers is true if the request needs somebody to remember responses: it
	// does not say store: false, or it goes on from an earlier response.
	Remembers bool
	// PromptCacheKey is the client's, "" if there is none.
	PromptCacheKey string
	// Tools are the request's tools as they came, nil if there are none; see
	// [DecodeTools].
	Tools jsontext.Value
	// Limited is true if the request names the tools that may be called in a way
	// that not every server knows: at the top level.
	Limited bool

	keeps  bool // it does not say store: false
	goesOn bool // it refers to what somebody must remember, or runs in the background
}

// PeekRequest reads the head of a request that may be passed on as it is. It is as
// strict about JSON as [DecodeRequest], so that whoever gets the bytes reads the
// same in them: no duplicate names, no names that differ from a known one only by
// case, valid UTF-8, bounded depth. It does not look at what the members hold,
// except for those of the head, and costs a fraction of decoding.
func PeekRequest(body []byte, limits *Limits) (*Head, error) {
	h := &Head{keeps: true}
	if err := peek(body, limits, h.take); err != nil {
		return nil, err
	}
	h.Remembers = h.keeps || h.goesOn
	return h, nil
}

// DecodeTools decodes the tools of a head.
func DecodeTools(raw jsontext.Value) ([]Tool, error) {
	var tools []Tool
	if raw == nil {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &tools, decodeOptions); err != nil {
		return nil, fieldError(underPointer("/tools", err))
	}
	return tools, nil
}

// PeekModel reads the head of a request of another API that names its model as
// this one does. It is as strict about JSON and about the names of the head.
func PeekModel(body []byte, limits *Limits) (*Head, error) {
	h := new(Head)
	err := peek(body, limits, func(name string, v jsontext.Value) error {
		if known := requestNames[foldCase(name)]; known == "model" || known == "stream" {
			return h.take(name, v)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// peek gives the members of a body to take.
func peek(body []byte, limits *Limits, take func(name string, v jsontext.Value) error) error {
	lim := limits.withDefaults()
	if len(body) > lim.Bytes {
		return InvalidParam(CodeTooLarge, "", "The request body is larger than %d bytes.", lim.Bytes)
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(body))
	if tok, err := dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return scan(body, lim.Depth) // says what is wrong
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return fieldError(err)
		}
		key := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return cmp.Or(scan(body, lim.Depth), error(fieldError(err))) // depth first
		}
		if deeperThan(value, lim.Depth-1) {
			return InvalidParam(CodeInvalidJSON, key, "Nested deeper than %d levels.", lim.Depth)
		}
		if err := take(key, value); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return fieldError(err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return InvalidParam(CodeInvalidJSON, "", "Not valid JSON: something follows the object.")
	}
	return nil
}

// requestNames are the names of a request's members, by what they fold to.
var requestNames = structInfoOf(reflect.TypeFor[Request]()).folded

// take reads a member that belongs to the head.
func (h *Head) take(name string, v jsontext.Value) error {
	if known, ok := requestNames[foldCase(name)]; ok && known != name {
		return InvalidParam(CodeInvalidJSON, name, "Unknown member %q: did you mean %q? Names are case-sensitive.", name, known)
	}
	isTrue, isNull := v.Kind() == 't', v.Kind() == 'n'
	switch name {
	case "model":
		if v.Kind() != '"' && !isNull {
			return InvalidParam(CodeInvalidType, name, "Must be a string, not %s.", kindName(v.Kind()))
		}
		h.Model = stringOf(v)
	case "prompt_cache_key":
		h.PromptCacheKey = stringOf(v)
	case "tools":
		if !isNull {
			h.Tools = v
		}
	case "allowed_tools":
		h.Limited = !isNull
	case "stream":
		if !isTrue && !isNull && v.Kind() != 'f' {
			return InvalidParam(CodeInvalidType, name, "Must be a boolean, not %s.", kindName(v.Kind()))
		}
		h.Stream = isTrue
	case "store":
		h.keeps = v.Kind() != 'f'
	case "previous_response_id", "conversation":
		h.goesOn = h.goesOn || !isNull
	case "background":
		h.goesOn = h.goesOn || isTrue
	case "messages":
		if !isNull {
			return errMessages
		}
	}
	return nil
}

// deeperThan reports whether a valid JSON value is nested deeper than most levels.
// Almost no value has as many brackets at all, which is quickly counted.
func deeperThan(v jsontext.Value, most int) bool {
	if k := v.Kind(); k != '{' && k != '[' || bytes.Count(v, []byte("{"))+bytes.Count(v, []byte("[")) <= most {
		return false
	}
	return depthOf(v) > most
}

// depthOf is how deep a valid JSON value is nested.
func depthOf(v jsontext.Value) (deepest int) {
	depth, inString := 0, false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}
