package relay

import (
	"bytes"
	"encoding/json/jsontext"
	"strconv"

	"github.com/antiphon-dev/antiphon/internal/sse"
	"github.com/antiphon-dev/antiphon/responses"
)

// A typeReader finds out what type of event is in a frame. Most events are of the
// same type as the one before, and their frames begin with the same bytes. The
// zero value is ready.
type typeReader struct {
	typ    responses.EventType // of the last event
	begin  []byte              // how its frame began, up to the end of the type; empty if it was an unusual one
	lines  int                 // of that frame
	dataAt int
}

// read returns the type of the event in a frame of so many lines, "" if it has
// none, and its data, nil if there is no event in it.
func (r *typeReader) read(frame []byte, lines int) (responses.EventType, []byte) {
	if len(r.begin) > 0 && lines == r.lines && bytes.HasPrefix(frame, r.begin) {
		return r.typ, trimEnds(frame[r.dataAt:])
	}
	typ, dataAt, end := glance(frame, lines)
	if end == 0 {
		r.begin = r.begin[:0]
		return study(frame)
	}
	r.typ, r.begin, r.lines, r.dataAt = responses.EventType(typ), append(r.begin[:0], frame[:end]...), lines, dataAt
	return r.typ, trimEnds(frame[dataAt:])
}

// maxGlance is how far into a frame its type is looked for.
const maxGlance = 256

// glance reads a frame that looks as most do: a line that names the event, if any,
// and one with data that begins with the same type. It returns the type, where the
// data begins and where the type ends: 0 if the frame looks otherwise.
func glance(frame []byte, lines int) (typ []byte, dataAt, end int) {
	rest := frame[:min(len(frame), maxGlance)]
	after, named := bytes.CutPrefix(rest, []byte("event: "))
	if named {
		i := bytes.IndexByte(after, '\n')
		if i < 0 {
			return nil, 0, 0
		}
		typ, rest = bytes.TrimSuffix(after[:i], []byte("\r")), after[i+1:]
		lines--
	}
	rest, ok := bytes.CutPrefix(rest, []byte("data: "))
	if !ok || lines != 1 {
		return nil, 0, 0
	}
	dataAt = min(len(frame), maxGlance) - len(rest)
	if rest, ok = bytes.CutPrefix(rest, []byte(`{"type":`)); !ok {
		return nil, 0, 0
	}
	rest = bytes.TrimPrefix(rest, []byte(" "))
	said, _, ok := bytes.Cut(bytes.TrimPrefix(rest, []byte(`"`)), []byte(`"`))
	if !ok || rest[0] != '"' || bytes.IndexByte(said, '\\') >= 0 || named && !bytes.Equal(said, typ) {
		return nil, 0, 0
	}
	return said, dataAt, min(len(frame), maxGlance) - len(rest) + len(said) + 2
}

// study reads any frame.
func study(frame []byte) (responses.EventType, []byte) {
	if !bytes.Contains(frame, []byte("data")) {
		return "", nil // a comment, which is not worth a reader
	}
	for ev, err := range sse.Read(bytes.NewReader(frame), nil) {
		if err != nil {
			break
		}
		for name, v := range responses.Members(ev.Data) {
			if name == "type" && v.Kind() == '"' {
				typ, _ := jsontext.AppendUnquote(nil, v) // "" if it is broken
				return responses.EventType(typ), ev.Data
			}
		}
		return "", ev.Data
	}
	return "", nil
}

// trimEnds returns b without the line ends that it ends with.
func trimEnds(b []byte) []byte {
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == '\r') {
		b = b[:len(b)-1]
	}
	return b
}

// sequenceNumber reads the number of an event if it is one of the first members,
// before anything nested; it is -1 if it is not there.
func sequenceNumber(data []byte) int64 {
	before, after, ok := bytes.Cut(data[:min(len(data), maxGlance)], []byte(`"sequence_number":`))
	if !ok || bytes.LastIndexByte(before, '{') > 0 || bytes.IndexByte(before, '[') >= 0 {
		return -1
	}
	after = bytes.TrimLeft(after, " ")
	n := 0
	for n < len(after) && '0' <= after[n] && after[n] <= '9' {
		n++
	}
	if n == len(after) { // perhaps more digits follow
		return -1
	}
	seq, err := strconv.ParseInt(string(after[:n]), 10, 64)
	if err != nil {
		return -1
	}
	return seq
}
