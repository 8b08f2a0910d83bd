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
	for begin, at := 0, 0; begin < len(frames); {
		line, end := cutLine(frames[at:])
		if at += len(line) + len(end); len(line) == 0 || at == len(frames) {
			out = r.frame(out, frames[begin:at])
			begin = at
		}
	}
	return out
}

// frame appends a frame to out. One that is renamed has its data in one line, behind
// the others.
func (r Rename) frame(out, frame []byte) []byte {
	if !bytes.Contains(frame, []byte(`"model"`)) {
		return append(out, frame...)
	}
	var data, dataEnd, others, blank []byte
	for rest := frame; len(rest) > 0; {
		line, end := cutLine(rest)
		rest = rest[len(line)+len(end):]
		d, ok := bytes.CutPrefix(line, []byte("data:"))
		switch {
		case ok:
			data, dataEnd = append(append(data, ' '), d...), end
		case len(line) > 0:
			others = append(append(others, line...), end...)
		default:
			blank = end
		}
	}
	renamed, ok := r.event(bytes.TrimSpace(data))
	if !ok {
		return append(out, frame...)
	}
	for _, part := range [][]byte{others, []byte("data: "), renamed, dataEnd, blank} {
		out = append(out, part...)
	}
	return out
}

// cutLine returns the first line of b, and what ends it: LF, CRLF, CR, or nothing.
func cutLine(b []byte) (line, end []byte) {
	i := bytes.IndexAny(b, "\r\n")
	if i < 0 {
		return b, nil
	}
	if bytes.HasPrefix(b[i:], []byte("\r\n")) {
		return b[:i], b[i : i+2]
	}
	return b[:i], b[i : i+1]
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
