// Package relay is the byte path: it passes an upstream's answer on to a client as
// it came, and only looks at it. Bytes change in one case, where the client knows
// the model by another name than the upstream.
//
// A stream is passed on by whole frames, as many at once as have come, so that a
// client never sees half of one, and nothing is encoded anew.
package relay

import (
	"bytes"
	"encoding/json/v2"
	"io"
	"slices"

	"github.com/antiphon-dev/antiphon/internal/sse"
	"github.com/antiphon-dev/antiphon/responses"
)

// Seen is what was noticed of an answer on its way.
type Seen struct {
	// Last is the terminal event of a stream, "" if there was none.
	Last responses.EventType
	// Usage is what the answer says that it cost, nil if it does not.
	Usage *responses.Usage
	// Frames counts the frames of a stream.
	Frames int64
}

// A Rename is the model's name for the upstream and for the client. The zero value,
// and equal names, change nothing.
type Rename struct{ From, To string }

func (r Rename) needed() bool { return r.From != r.To }

// bufferSize is what is read at once. It is as much as net/http hands over.
const bufferSize = 4 << 10

// Stream copies an event stream from src to dst, calling flush after each write.
// It returns what it saw, and the error that ended it: nil at the end of src. A
// frame longer than [sse.DefaultMaxLine] is an error.
func Stream(dst io.Writer, flush func() error, src io.Reader, rename Rename) (*Seen, error) {
	seen := new(Seen)
	buf := make([]byte, bufferSize)
	held := 0 // bytes of a frame that is not whole yet
	for {
		if held == len(buf) {
			if len(buf) > sse.DefaultMaxLine {
				return seen, sse.ErrLineTooLong
			}
			buf = append(buf, make([]byte, len(buf))...)
		}
		n, err := src.Read(buf[held:])
		searched := max(0, held-len(ends[1])+1) // an end may lie across two reads
		held += n
		whole := frameEnd(buf[:held], searched)
		if err == io.EOF {
			whole = held // what is left is all there will be
		}
		if whole > 0 {
			if err := pass(dst, flush, seen, buf[:whole], rename); err != nil {
				return seen, err
			}
			held = copy(buf, buf[whole:held])
			if held == 0 && len(buf) > 16*bufferSize {
				buf = make([]byte, bufferSize)
			}
		}
		switch {
		case err == io.EOF:
			return seen, nil
		case err != nil:
			return seen, err
		}
	}
}

// ends are the blank lines that end a frame.
var ends = [][]byte{[]byte("\n\n"), []byte("\r\n\r\n"), []byte("\r\r")}

// frameEnd is where the last whole frame of b ends, 0 if there is none. Before
// from there is no end.
func frameEnd(b []byte, from int) int {
	last := 0
	for i, end := range ends {
		if i > 0 && bytes.IndexByte(b[from:], '\r') < 0 {
			break // most streams have none, and looking for it from behind is slow
		}
		if i := bytes.LastIndex(b[from:], end); i >= 0 {
			last = max(last, from+i+len(end))
		}
	}
	return last
}

// pass writes whole frames and looks at them.
func pass(dst io.Writer, flush func() error, seen *Seen, frames []byte, rename Rename) error {
	seen.look(frames)
	if rename.needed() && bytes.Contains(frames, []byte(`"model"`)) {
		frames = rename.frames(frames)
	}
	if _, err := dst.Write(frames); err != nil {
		return err
	}
	return flush()
}

// terminal are the names of the events that end a response.
var terminal = [][]byte{[]byte(responses.EventCompleted), []byte(responses.EventIncomplete), []byte(responses.EventFailed)}

// mayEnd reports whether b names an event that ends a response.
func mayEnd(b []byte) bool {
	return slices.ContainsFunc(terminal, func(name []byte) bool { return bytes.Contains(b, name) })
}

// look notes what the frames say. Only those that name a terminal event are
// decoded.
func (s *Seen) look(frames []byte) {
	s.Frames += int64(bytes.Count(frames, ends[0]))
	if !mayEnd(frames) {
		return
	}
	for frame, err := range sse.Read(bytes.NewReader(frames), nil) {
		if err != nil {
			return
		}
		if mayEnd(frame.Data) {
			s.end(frame.Data)
		}
	}
}

// end notes a terminal event, if data is one.
func (s *Seen) end(data []byte) {
	var ev struct {
		Type     responses.EventType `json:"type"`
		Response struct {
			Usage *responses.Usage `json:"usage"`
		} `json:"response"`
	}
	if json.Unmarshal(data, &ev) == nil && ev.Type.Terminal() {
		s.Last, s.Usage = ev.Type, ev.Response.Usage
	}
}

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

// Whole notes what a whole answer says, and gives the model the client's name.
func Whole(body []byte, rename Rename) ([]byte, *Seen) {
	seen := new(Seen)
	var answer struct {
		Status responses.Status `json:"status"`
		Usage  *responses.Usage `json:"usage"`
	}
	if json.Unmarshal(body, &answer) == nil {
		seen.Usage = answer.Usage
		seen.Last = map[responses.Status]responses.EventType{
			responses.StatusCompleted:  responses.EventCompleted,
			responses.StatusIncomplete: responses.EventIncomplete,
			responses.StatusFailed:     responses.EventFailed,
		}[answer.Status]
	}
	if renamed, ok := rename.Object(body); ok {
		body = renamed
	}
	return body, seen
}
