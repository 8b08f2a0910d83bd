package relay

import (
	"bytes"
	"encoding/json/v2"

	"github.com/antiphon-dev/antiphon/responses"
)

// A Rename is the model's name for the upstream and for the client. The zero value,
// and equal names, change nothing.
type Rename struct{ From, To string }

func (r Rename) needed() bool { return r.From != r.To }

// frames gives the model the client's name in the response objects of frames.
func (r Rename) frames(frames []byte) []byte {
	out := make([]byte, 0, len(frames)+64)
	for line := range bytes.Lines(frames) {
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			out = append(out, line...)
			continue
		}
		text := bytes.TrimRight(data, "\r\n")
		renamed, ok := r.event(bytes.TrimSpace(text))
		if !ok {
			out = append(out, line...)
			continue
		}
		out = append(append(append(out, "data: "...), renamed...), data[len(text):]...)
	}
	return out
}

// event renames the model of an event: its own, or that of the response in it.
func (r Rename) event(data []byte) ([]byte, bool) {
	for name, v := range responses.Members(data) {
		switch name {
		case "model":
			return r.Object(data)
		case "response":
			renamed, ok := r.Object(v)
			if !ok {
				return nil, false
			}
			out, err := responses.SetMembers(data, responses.Member{Name: "response", Value: renamed})
			return out, err == nil
		}
	}
	return nil, false
}

// Object renames the model of a response object. It returns false if there is
// nothing to rename.
func (r Rename) Object(object []byte) ([]byte, bool) {
	if !r.needed() {
		return nil, false
	}
	quoted, err := json.Marshal(r.To)
	if err != nil {
		return nil, false
	}
	out, err := responses.SetMembers(object, responses.Member{Name: "model", Value: quoted, Optional: true})
	return out, err == nil
}
