package responses

import (
	"bytes"
	"encoding/json/jsontext"
	"errors"
	"io"
)

// Limits bound what a client may send. The zero value means the defaults.
type Limits struct {
	Bytes int // of the body; 0 means 64 MiB
	Depth int // of nested arrays and objects; 0 means 256
	Items int // of input; 0 means 100,000
	Tools int // 0 means 1,024
}

const (
	defaultMaxBytes = 64 << 20
	defaultMaxDepth = 256
	defaultMaxItems = 100_000
	defaultMaxTools = 1024
)

func (l *Limits) withDefaults() Limits {
	var d Limits
	if l != nil {
		d = *l
	}
	setDefault := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	setDefault(&d.Bytes, defaultMaxBytes)
	setDefault(&d.Depth, defaultMaxDepth)
	setDefault(&d.Items, defaultMaxItems)
	setDefault(&d.Tools, defaultMaxTools)
	return d
}

// DecodeRequest is the only way in for a client's request. It refuses what is
// not strict JSON (duplicate names, invalid UTF-8, too deep, too large, members
// that differ from a known one only by case) and what is out of type or range;
// the error is an *[Error] that names the field. Unknown members and unknown
// kinds of items and tools are kept (R6). The request keeps body in Raw.
func DecodeRequest(body []byte, limits *Limits) (*Request, error) {
	lim := limits.withDefaults()
	if len(body) > lim.Bytes {
		return nil, InvalidParam(CodeTooLarge, "", "The request body is larger than %d bytes.", lim.Bytes)
	}
	if err := scan(body, lim.Depth); err != nil {
		return nil, err
	}
	r := new(Request)
	if err := decode(body, r); err != nil {
		return nil, err
	}
	r.Raw = body
	if r.Conversation.Kind() == 'n' {
		r.Conversation = nil // null means absent, also where the value is kept as it came
	}
	if err := r.validate(lim); err != nil {
		return nil, err
	}
	return r, nil
}

// scan checks that body is one strict JSON object no deeper than maxDepth. It
// runs before the struct decoder so that depth is bounded before anything
// recurses, and so that a syntax error is reported with its place.
func scan(body []byte, maxDepth int) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body))
	if k := dec.PeekKind(); k != '{' && k != 0 {
		return InvalidParam(CodeInvalidJSON, "", "The request body must be a JSON object, not %s.", kindName(k))
	}
	for {
		tok, err := dec.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			if dec.InputOffset() == 0 || len(bytes.TrimSpace(body)) == 0 {
				return InvalidParam(CodeInvalidJSON, "", "The request body is empty; send a JSON object.")
			}
			return nil
		case err != nil:
			return fieldError(err)
		}
		if (tok.Kind() == '{' || tok.Kind() == '[') && dec.StackDepth() > maxDepth {
			return InvalidParam(CodeInvalidJSON, outermost(dec.StackPointer()), "Nested deeper than %d levels.", maxDepth)
		}
	}
}

// outermost is the first name of a pointer: an error about a value that is
// thousands of levels deep has a name of readable length.
func outermost(p jsontext.Pointer) string {
	for tok := range p.Tokens() {
		return tok
	}
	return ""
}

// DecodeItem decodes an item that was encoded before, such as one from a store.
func DecodeItem(data []byte) (Item, error) {
	var it Item
	if err := decode(data, &it); err != nil {
		return nil, err
	}
	return it, nil
}
