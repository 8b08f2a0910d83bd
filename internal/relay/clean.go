package relay

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"io"

	"github.com/antiphon-dev/antiphon/internal/sse"
	"github.com/antiphon-dev/antiphon/responses"
)

// Request returns the body of a request, which a decoder has found to be an object,
// with published members only, and what was taken out. What a request cannot do
// without is refused by name.
func (a *API) Request(body []byte) (clean []byte, stripped []responses.Loss, err error) {
	var unknown responses.Stripped
	there := map[string]jsontext.Kind{}
	for name, v := range responses.Members(body) {
		if _, known := a.request[name]; known {
			there[name] = v.Kind()
			continue
		}
		unknown.Note(name, "unknown member")
	}
	for name, kind := range a.required {
		switch got := there[name]; {
		case got == 0 || got == 'n':
			return nil, nil, responses.InvalidParam(responses.CodeMissing, name, "Missing %s.", name)
		case kind != 0 && byte(got) != kind:
			return nil, nil, responses.InvalidParam(responses.CodeInvalidType, name, "Must be an array.")
		}
	}
	if stripped = unknown.Losses(); stripped == nil {
		return body, nil, nil
	}
	return a.request.clean(body), stripped, nil
}

// clean returns a valid JSON value with the members that are known only. What it
// keeps it keeps as it came.
func (n names) clean(v jsontext.Value) jsontext.Value {
	switch {
	case n == nil:
		return v
	case v.Kind() == '[':
		return n.cleanList(v)
	case v.Kind() != '{':
		return v
	}
	out := []byte{'{'}
	for name, value := range responses.Members(v) {
		below, known := n[name]
		if !known {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out, _ = jsontext.AppendQuote(out, name) // the error only reports invalid UTF-8
		out = append(append(out, ':'), below.clean(value)...)
	}
	return append(out, '}')
}

func (n names) cleanList(v jsontext.Value) jsontext.Value {
	out := []byte{'['}
	dec := jsontext.NewDecoder(bytes.NewBuffer(v))
	_, _ = dec.ReadToken() // its bracket
	for k := dec.PeekKind(); k != ']' && k != 0; k = dec.PeekKind() {
		value, err := dec.ReadValue()
		if err != nil {
			break // the list is valid
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, n.clean(value)...)
	}
	return append(out, ']')
}

// errUnreadable is an answer that cannot be cleaned, and so is not passed on.
var errUnreadable = responses.UpstreamErrorf(responses.CodeUpstream, "The upstream could not answer this request.")

// Whole returns a whole answer with published members only, and the client's name
// of the model. One that is no such answer, or that is an error although its status
// says success, is an error, which may have the upstream's words.
func (a *API) Whole(body []byte, rename Rename) ([]byte, *Seen, error) {
	seen := new(Seen)
	clean, err := a.cleanAnswer(body, rename, seen)
	return clean, seen, err
}

// cleanAnswer cleans an answer or a frame of one, and notes what it cost.
func (a *API) cleanAnswer(body []byte, rename Rename, seen *Seen) ([]byte, error) {
	var answer struct {
		Error jsontext.Value `json:"error"`
	}
	switch err := json.Unmarshal(body, &answer); {
	case err != nil:
		return nil, errUnreadable.WithCause(err)
	case answer.Error != nil && answer.Error.Kind() != 'n':
		return nil, failed(answer.Error)
	}
	seen.cost(body)
	clean := a.answer.clean(body)
	if renamed, ok := rename.Object(clean); ok {
		clean = renamed
	}
	return clean, nil
}

// failed is what an upstream said of its failure, inside a success, in its words.
func failed(said jsontext.Value) error {
	const most = 200
	return responses.UpstreamErrorf(responses.CodeUpstream, "The upstream says %q.", said[:min(len(said), most)])
}

// Stream copies an event stream frame by frame as [API.Whole] does an answer. A
// frame that cannot be passed on ends it: the client gets our words for it.
func (a *API) Stream(dst io.Writer, flush func() error, src io.Reader, rename Rename) (*Seen, error) {
	seen, out := new(Seen), sse.NewWriter(dst, flush)
	for frame, err := range sse.Read(src, nil) {
		if err != nil {
			return seen, err
		}
		seen.Frames++
		if string(frame.Data) == "[DONE]" {
			return seen, out.Done()
		}
		clean, err := a.cleanAnswer(frame.Data, rename, seen)
		if err != nil {
			body, _ := json.Marshal(map[string]*responses.ErrorBody{"error": errUnreadable.Body()}) // it is strings
			_ = out.WriteFrame("", body)                                                            // the client may be gone
			return seen, err
		}
		if err := out.WriteFrame("", clean); err != nil {
			return seen, err
		}
	}
	return seen, nil
}
