package native

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// head is what the decoder looks at in every event before it decides what to do
// with it.
type head struct {
	Type         responses.EventType `json:"type"`
	OutputIndex  index               `json:"output_index"`
	ContentIndex index               `json:"content_index"`
	SummaryIndex index               `json:"summary_index"`
	Response     jsontext.Value      `json:"response"`
}

// index is a number that may be missing.
type index struct {
	at    int64
	given bool
}

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (i *index) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*i = index{given: dec.PeekKind() != 'n'}
	return json.UnmarshalDecode(dec, &i.at)
}

// eventKeepalive only says that the connection is alive.
const eventKeepalive responses.EventType = "keepalive"

// otherNames are what the specification calls the events of raw reasoning, and
// what the first party and every client call them.
var otherNames = map[responses.EventType]responses.EventType{
	"response.reasoning.delta": responses.EventReasoningDelta,
	"response.reasoning.done":  responses.EventReasoningDone,
}

// A textKind is a kind of text that is streamed, with the events that do it.
type textKind struct {
	item  string // the type of item that it is found in
	part  string // the type of part that holds it
	index string // the member that counts the parts; "" if the item itself holds it
	text  string // the member of the done event that holds the text

	partAdded, delta, done, partDone responses.EventType
}

var (
	outputText = &textKind{
		responses.TypeMessage, responses.TypeOutputText, "content_index", "text",
		responses.EventPartAdded, responses.EventTextDelta, responses.EventTextDone, responses.EventPartDone,
	}
	refusalText = &textKind{
		responses.TypeMessage, responses.TypeRefusal, "content_index", "refusal",
		responses.EventPartAdded, responses.EventRefusalDelta, responses.EventRefusalDone, responses.EventPartDone,
	}
	reasoningText = &textKind{
		responses.TypeReasoning, responses.TypeReasoningText, "content_index", "text",
		responses.EventPartAdded, responses.EventReasoningDelta, responses.EventReasoningDone, responses.EventPartDone,
	}
	summaryText = &textKind{
		responses.TypeReasoning, responses.TypeSummaryText, "summary_index", "text",
		responses.EventSummaryPartAdded, responses.EventSummaryDelta, responses.EventSummaryDone, responses.EventSummaryPartDone,
	}
	arguments = &textKind{
		item: responses.TypeFunctionCall, text: "arguments",
		delta: responses.EventArgumentsDelta, done: responses.EventArgumentsDone,
	}
	customInput = &textKind{
		item: responses.TypeCustomToolCall, text: "input",
		delta: responses.EventCustomInputDelta, done: responses.EventCustomInputDone,
	}
)

// own reports whether the item itself holds the text.
func (k *textKind) own() bool { return k.index == "" }

// deltaKinds and doneKinds find the kind of text that an event carries.
var deltaKinds, doneKinds = kindsByEvent()

func kindsByEvent() (deltas, dones map[responses.EventType]*textKind) {
	deltas, dones = map[responses.EventType]*textKind{}, map[responses.EventType]*textKind{}
	for _, k := range []*textKind{outputText, refusalText, reasoningText, summaryText, arguments, customInput} {
		deltas[k.delta], dones[k.done] = k, k
	}
	return deltas, dones
}

// partKind returns the kind of a part that an event announces. A part of a type
// that we do not know is a kind without text.
func partKind(ev responses.EventType, part responses.Part) *textKind {
	for _, k := range []*textKind{outputText, refusalText, reasoningText, summaryText} {
		if k.part == part.Type() && (k.partAdded == ev || k.partDone == ev) {
			return k
		}
	}
	k := &textKind{responses.TypeMessage, part.Type(), "content_index", "", responses.EventPartAdded, "", "", responses.EventPartDone}
	if ev == responses.EventSummaryPartAdded || ev == responses.EventSummaryPartDone {
		k.item, k.index, k.partAdded, k.partDone = responses.TypeReasoning, "summary_index", responses.EventSummaryPartAdded, responses.EventSummaryPartDone
	}
	return k
}

// newPart returns a part of the kind with the given text.
func (k *textKind) newPart(text string) responses.Part {
	switch k {
	case refusalText:
		return &responses.Refusal{Refusal: text}
	case summaryText:
		return &responses.SummaryText{Text: text}
	case reasoningText:
		return &responses.ReasoningText{Text: text}
	default:
		return &responses.OutputText{Text: text}
	}
}

// withText returns part, which is of the kind, with another text.
func (k *textKind) withText(part responses.Part, text string) responses.Part {
	if o, ok := part.(*responses.OutputText); ok {
		c := *o
		c.Text = text
		return &c
	}
	return k.newPart(text)
}

// unreadable bounds how many members of a response object may be unreadable.
const unreadable = 16

// decodeResponse decodes an upstream's response object. The members that only
// echo the request are not worth a failure: one that cannot be read is left out.
func decodeResponse(raw jsontext.Value) (*responses.Response, error) {
	for range unreadable {
		resp, err := responses.DecodeResponse(raw)
		if err == nil {
			return resp, nil
		}
		name, _, _ := strings.Cut(responses.AsError(err).Param, ".")
		name, _, _ = strings.Cut(name, "[")
		switch name {
		case "", "status":
			return nil, err
		case "output":
			if raw, err = encodeOutputArguments(raw, err); err != nil {
				return nil, err
			}
			continue
		}
		if raw, err = responses.SetMembers(raw, responses.Member{Name: name}); err != nil {
			return nil, err
		}
	}
	return nil, responses.InvalidParam(responses.CodeInvalidType, "response", "More than %d members are unreadable.", unreadable)
}

// encodeOutputArguments is encodeArguments for the items of a response's
// output. It returns cause if that was not what made them unreadable.
func encodeOutputArguments(raw jsontext.Value, cause error) (jsontext.Value, error) {
	var resp struct {
		Output []jsontext.Value `json:"output"`
	}
	if err := json.Unmarshal(raw, &resp); err != nil {
		return nil, cause
	}
	changed := false
	for i, item := range resp.Output {
		if fixed, ok := encodeArguments(item, responses.TypeFunctionCall); ok {
			resp.Output[i], changed = fixed, true
		}
	}
	if !changed {
		return nil, cause
	}
	output, err := json.Marshal(resp.Output)
	if err != nil {
		return nil, cause
	}
	return responses.SetMembers(raw, responses.Member{Name: "output", Value: output})
}

// encodeArguments replaces arguments that are an object by a string that holds
// the object, with its keys sorted (R11), if obj is of the type: there are other
// things whose arguments are meant to be an object. It reports whether it did.
func encodeArguments(obj jsontext.Value, typ string) (jsontext.Value, bool) {
	var call struct {
		Type      string         `json:"type"`
		Arguments jsontext.Value `json:"arguments"`
	}
	if json.Unmarshal(obj, &call) != nil || call.Type != typ || call.Arguments.Kind() != '{' {
		return obj, false
	}
	if call.Arguments.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)) != nil {
		return obj, false
	}
	fixed, err := responses.SetMembers(obj, responses.Member{Name: "arguments", Value: quote(string(call.Arguments))})
	return fixed, err == nil
}

// encodeEventArguments is encodeArguments for an event and for the item in it.
func encodeEventArguments(event jsontext.Value) (jsontext.Value, bool) {
	if fixed, ok := encodeArguments(event, string(responses.EventArgumentsDone)); ok {
		return fixed, true
	}
	var ev struct {
		Item jsontext.Value `json:"item"`
	}
	if json.Unmarshal(event, &ev) != nil {
		return event, false
	}
	item, ok := encodeArguments(ev.Item, responses.TypeFunctionCall)
	if !ok {
		return event, false
	}
	fixed, err := responses.SetMembers(event, responses.Member{Name: "item", Value: item})
	return fixed, err == nil
}

// wireError is an error as upstreams spell it. Members that are not what they
// should be are ignored: what matters is that it failed.
type wireError struct {
	Type    jsontext.Value `json:"type"`
	Code    jsontext.Value `json:"code"`
	Message jsontext.Value `json:"message"`
}

// failure reads the error of a failed response, of an error event in its nested
// or its flat form, or of a body that is an error. It returns nil if obj has
// none.
func failure(obj jsontext.Value) *responses.Error {
	var w struct {
		Error jsontext.Value `json:"error"`
	}
	if json.Unmarshal(obj, &w) != nil {
		return nil
	}
	var e wireError
	switch w.Error.Kind() {
	case '{':
		if json.Unmarshal(w.Error, &e) != nil {
			return nil
		}
	case '"':
		e.Message = w.Error
	default:
		if json.Unmarshal(obj, &e) != nil || e.Message == nil && e.Code == nil {
			return nil
		}
		e.Type = nil // in the flat form this is the event's
	}
	return upstream.WireError(0, text(e.Type), text(e.Code), text(e.Message))
}

// text returns v if it is a string, else "".
func text(v jsontext.Value) string {
	if v.Kind() != '"' {
		return ""
	}
	s, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return ""
	}
	return string(s)
}

// quote returns s as a JSON string.
func quote(s string) jsontext.Value {
	v, _ := jsontext.AppendQuote(nil, s) // the error only reports invalid UTF-8, which becomes U+FFFD
	return v
}
