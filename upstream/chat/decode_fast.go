package chat

import (
	"bytes"
	"encoding/json/jsontext"
	"io"
)

// A textReader reads the chunk that streams consist of almost entirely: one that
// adds a piece of text and does nothing else. For anything else it gives up, and
// the chunk is decoded in full; it must never understand a chunk otherwise than
// that would.
//
// It has two ways. It walks the tokens of the chunk, and remembers what stands
// before and after the text. A later chunk that has the same bytes before and
// after, with one string in between, differs in nothing but the text, and most of
// a stream's chunks do.
type textReader struct {
	buf    bytes.Buffer
	dec    jsontext.Decoder
	text   []byte // scratch
	before []byte
	after  []byte
	// from and to are where the walk found the text, with its quotes.
	from, to int64
}

// maxFrame bounds what is remembered around a text.
const maxFrame = 4 << 10

// read returns the text of a chunk that is nothing but text.
func (r *textReader) read(data []byte) (text string, ok bool) {
	if text, ok := r.same(data); ok {
		return text, true
	}
	if text, ok = r.walk(data); ok && len(data) < maxFrame {
		r.before = append(r.before[:0], data[:r.from]...)
		r.after = append(r.after[:0], data[r.to:]...)
	}
	return text, ok
}

// same reads a chunk that is like an earlier one but for the text.
func (r *textReader) same(data []byte) (string, bool) {
	if len(r.before) == 0 || len(data) < len(r.before)+len(r.after) ||
		!bytes.HasPrefix(data, r.before) || !bytes.HasSuffix(data, r.after) {
		return "", false
	}
	return r.unquote(data[len(r.before) : len(data)-len(r.after)])
}

// unquote returns the text of v if it is one string.
func (r *textReader) unquote(v []byte) (string, bool) {
	var err error
	r.text, err = jsontext.AppendUnquote(r.text[:0], v)
	return string(r.text), err == nil
}

// walk reads a chunk by its tokens.
func (r *textReader) walk(data []byte) (text string, ok bool) {
	r.buf = *bytes.NewBuffer(data)
	r.dec.Reset(&r.buf, wireOptions)
	found := false
	walked := r.object(func(name []byte) bool {
		switch string(name) {
		case `"choices"`:
			if found {
				return false // twice
			}
			found = true
			text, ok = r.choices()
			return ok
		case `"usage"`, `"error"`:
			return r.null()
		default:
			return r.dec.SkipValue() == nil
		}
	})
	if !walked || !found {
		return "", false
	}
	_, err := r.dec.ReadToken()
	return text, err == io.EOF
}

// object walks the members of an object. Each name is given as it is quoted on
// the wire; member reads its value, or returns false to give up.
func (r *textReader) object(member func(name []byte) bool) bool {
	if tok, err := r.dec.ReadToken(); err != nil || tok.Kind() != '{' {
		return false
	}
	for r.dec.PeekKind() == '"' {
		name, err := r.dec.ReadValue()
		if err != nil || bytes.IndexByte(name, '\\') >= 0 {
			return false // a name can be spelt with escapes too
		}
		if !member(name) {
			return false
		}
	}
	tok, err := r.dec.ReadToken()
	return err == nil && tok.Kind() == '}'
}

// choices reads a list of the one choice that was asked for.
func (r *textReader) choices() (text string, ok bool) {
	if tok, err := r.dec.ReadToken(); err != nil || tok.Kind() != '[' {
		return "", false
	}
	found := false
	walked := r.object(func(name []byte) bool {
		switch string(name) {
		case `"delta"`:
			if found {
				return false
			}
			found = true
			text, ok = r.delta()
			return ok
		case `"index"`:
			v, err := r.dec.ReadValue()
			return err == nil && string(v) == "0"
		case `"finish_reason"`, `"logprobs"`, `"message"`:
			return r.null()
		default:
			return r.dec.SkipValue() == nil
		}
	})
	if !walked || !found {
		return "", false
	}
	tok, err := r.dec.ReadToken()
	return text, err == nil && tok.Kind() == ']'
}

// delta reads what was said, if that is one piece of text.
func (r *textReader) delta() (text string, ok bool) {
	found := false
	walked := r.object(func(name []byte) bool {
		switch string(name) {
		case `"content"`:
			if found {
				return false
			}
			found = true
			text, ok = r.string()
			return ok
		case `"reasoning_content"`, `"reasoning"`, `"refusal"`, `"annotations"`, `"tool_calls"`, `"function_call"`:
			return r.null()
		default:
			return r.dec.SkipValue() == nil
		}
	})
	return text, walked && found
}

// string reads a string and notes where it is.
func (r *textReader) string() (string, bool) {
	v, err := r.dec.ReadValue()
	if err != nil || v.Kind() != '"' {
		return "", false
	}
	r.to = r.dec.InputOffset()
	r.from = r.to - int64(len(v))
	return r.unquote(v)
}

// null reads a value that must be null for the chunk to be plain text.
func (r *textReader) null() bool {
	tok, err := r.dec.ReadToken()
	return err == nil && tok.Kind() == 'n'
}
