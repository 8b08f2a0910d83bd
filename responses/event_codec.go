package responses

import (
	"bytes"
	"cmp"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"strconv"
)

// AppendEvent appends the wire form of ev, one line of JSON, to dst. An event
// that came from an upstream keeps its own members; only the ones that the
// gateway owns are spliced in. It fails only for an event that no decoder or
// constructor makes.
func AppendEvent(dst []byte, ev *Event) ([]byte, error) {
	if ev.Raw != nil {
		return appendSpliced(dst, ev)
	}
	dst = append(dst, `{"type":"`...)
	dst = append(dst, ev.Type...) // without Raw it is one of ours, which need no escapes
	dst = append(dst, `","sequence_number":`...)
	dst = strconv.AppendInt(dst, ev.Seq, 10)
	var err error
	switch sh := shapes[ev.Type]; sh.class {
	case classLifecycle:
		dst, err = appendValue(dst, `,"response":`, ev.Response)
	case classError:
		dst, err = appendError(dst, ev.Err)
	case classItemAdded, classItemDone:
		dst = appendInt(dst, `,"output_index":`, ev.OutputIndex)
		dst, err = appendValue(dst, `,"item":`, ev.Item)
	default:
		dst, err = appendItemEvent(dst, sh, ev)
	}
	return append(dst, '}'), err
}

// appendItemEvent writes the members of an event that is about a part of an
// item. It is the path of every delta, so it goes without reflection.
func appendItemEvent(dst []byte, sh shape, ev *Event) (_ []byte, err error) {
	dst = append(dst, `,"item_id":`...)
	dst, _ = jsontext.AppendQuote(dst, ev.ItemID)
	dst = appendInt(dst, `,"output_index":`, ev.OutputIndex)
	if sh.index != "" {
		dst = append(dst, `,"`...)
		dst = append(dst, sh.index...)
		dst = appendInt(dst, `":`, ev.Index)
	}
	if sh.class == classPartAdded || sh.class == classPartDone {
		return appendValue(dst, `,"part":`, ev.Part)
	}
	if sh.text != "" {
		dst = append(dst, `,"`...)
		dst = append(dst, sh.text...)
		dst = append(dst, `":`...)
		dst, _ = jsontext.AppendQuote(dst, ev.Text) // the error only reports invalid UTF-8, which becomes U+FFFD
	}
	if sh.logprobs {
		if len(ev.Logprobs) == 0 {
			return append(dst, `,"logprobs":[]`...), nil
		}
		return appendValue(dst, `,"logprobs":`, ev.Logprobs)
	}
	return dst, nil
}

// appendError writes an error nested, as the specification has it, and flat, as
// the first party's published schema has it: each is what some client reads.
func appendError(dst []byte, e *ErrorBody) ([]byte, error) {
	dst, err := appendValue(dst, `,"code":`, e.Code)
	if err == nil {
		dst, err = appendValue(dst, `,"message":`, e.Message)
	}
	if err == nil {
		dst, err = appendValue(dst, `,"param":`, e.Param)
	}
	if err == nil {
		dst, err = appendValue(dst, `,"error":`, e)
	}
	return dst, err
}

func appendInt(dst []byte, name string, n int) []byte {
	return strconv.AppendInt(append(dst, name...), int64(n), 10)
}

func appendValue(dst []byte, name string, v any) ([]byte, error) {
	w := appender(append(dst, name...))
	err := json.MarshalWrite(&w, v)
	return w, err
}

// appender is a buffer that an encoder writes to: a large payload is not copied
// once more.
type appender []byte

func (a *appender) Write(p []byte) (int, error) {
	*a = append(*a, p...)
	return len(p), nil
}

// appendSpliced writes an upstream's event with our numbers and ids in it.
func appendSpliced(dst []byte, ev *Event) ([]byte, error) {
	set := []Member{
		{Name: "sequence_number", Value: strconv.AppendInt(nil, ev.Seq, 10)},
		{Name: "output_index", Value: strconv.AppendInt(nil, int64(ev.OutputIndex), 10), Optional: true},
	}
	if ev.ItemID != "" {
		set = append(set, Member{Name: "item_id", Value: quote(ev.ItemID), Optional: true})
	}
	if ev.Item != nil {
		item, err := json.Marshal(ev.Item)
		if err != nil {
			return dst, err
		}
		set = append(set, Member{Name: "item", Value: item})
	}
	b, err := SetMembers(ev.Raw, set...)
	if err == nil && bytes.ContainsAny(b, "\r\n") {
		err = b.Compact() // an event is one line, whatever the upstream made of it
	}
	return append(dst, b...), err
}

// wireEvent holds the members that any event we act on may have.
type wireEvent struct {
	Type           EventType      `json:"type"`
	SequenceNumber int64          `json:"sequence_number"`
	OutputIndex    int            `json:"output_index"`
	ItemID         string         `json:"item_id"`
	ContentIndex   int            `json:"content_index"`
	SummaryIndex   int            `json:"summary_index"`
	Delta          jsontext.Value `json:"delta"`
	Text           jsontext.Value `json:"text"`
	Refusal        jsontext.Value `json:"refusal"`
	Arguments      jsontext.Value `json:"arguments"`
	Input          jsontext.Value `json:"input"`
	Logprobs       jsontext.Value `json:"logprobs"`
	Item           jsontext.Value `json:"item"`
	Part           jsontext.Value `json:"part"`
	Response       jsontext.Value `json:"response"`
	Error          jsontext.Value `json:"error"`
	Code           jsontext.Value `json:"code"`
	Message        jsontext.Value `json:"message"`
	Param          jsontext.Value `json:"param"`
}

// DecodeEvent decodes an event from the wire. The event keeps data in Raw, so
// data must not be changed afterwards. Events of unknown type have only the
// fields that every event may have. The error is an *[Error] that names the
// member.
func DecodeEvent(data []byte) (Event, error) {
	var w wireEvent
	if err := decode(data, &w); err != nil {
		return Event{}, err
	}
	if w.Type == "" {
		return Event{}, InvalidParam(CodeMissing, "type", "An event needs a type.")
	}
	ev := Event{Type: w.Type, Seq: w.SequenceNumber, OutputIndex: w.OutputIndex, ItemID: w.ItemID, Raw: data}
	for _, index := range []struct {
		name string
		n    int
	}{{"output_index", w.OutputIndex}, {"content_index", w.ContentIndex}, {"summary_index", w.SummaryIndex}} {
		if index.n < 0 {
			return Event{}, InvalidParam(CodeInvalidValue, index.name, "An index is negative.")
		}
	}
	return ev, w.payload(&ev)
}

// payload decodes the members that belong to the event's type.
func (w *wireEvent) payload(ev *Event) error {
	sh := shapes[w.Type]
	ev.Index = w.ContentIndex
	if sh.index == "summary_index" {
		ev.Index = w.SummaryIndex
	}
	var err error
	switch sh.class {
	case classLifecycle:
		err = decodeMember("response", w.Response, &ev.Response)
	case classError:
		ev.Err = w.errorBody()
	case classItemAdded, classItemDone:
		err = decodeMember("item", w.Item, &ev.Item)
	case classPartAdded, classPartDone:
		err = decodeMember("part", w.Part, &ev.Part)
	case classDelta, classTextDone:
		if err = decodeMember(sh.text, w.text(sh.text), &ev.Text); err == nil && sh.logprobs && w.Logprobs != nil {
			err = decodeMember("logprobs", w.Logprobs, &ev.Logprobs)
		}
	}
	return err
}

func (w *wireEvent) text(name string) jsontext.Value {
	switch name {
	case "delta":
		return w.Delta
	case "text":
		return w.Text
	case "refusal":
		return w.Refusal
	case "arguments":
		return w.Arguments
	default:
		return w.Input
	}
}

// errorBody reads an error event in its nested or its flat form. What has an
// unexpected type is left out: the rest may still say what went wrong.
func (w *wireEvent) errorBody() *ErrorBody {
	return &ErrorBody{
		Type:    stringMember(w.Error, "type"),
		Code:    Code(cmp.Or(stringMember(w.Error, "code"), stringOf(w.Code))),
		Message: cmp.Or(stringMember(w.Error, "message"), stringOf(w.Message), stringOf(w.Error)),
		Param:   nonEmpty(cmp.Or(stringMember(w.Error, "param"), stringOf(w.Param))),
	}
}

// decodeMember decodes a payload that its event cannot be without.
func decodeMember(name string, raw jsontext.Value, out any) error {
	if raw == nil || raw.Kind() == 'n' {
		return InvalidParam(CodeMissing, name, "The event has no %s.", name)
	}
	if err := json.Unmarshal(raw, out, decodeOptions); err != nil {
		return fieldError(underPointer(jsontext.Pointer("").AppendToken(name), err))
	}
	return nil
}

// EventResponse returns the response object inside an encoded lifecycle event,
// as it stands there.
func EventResponse(data []byte) (jsontext.Value, error) {
	v := member(data, "response")
	if v == nil {
		return nil, Errorf(CodeServer, "The event has no response.")
	}
	return v, nil
}
