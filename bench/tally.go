package main

import "bytes"

// linePrefix is how much of a line a tally looks at.
const linePrefix = 64

// A tally counts the frames of an event stream that is written to it. It is
// cheap, because the client must not be what is measured, and holds the
// beginning of one line only, because lines may be very long.
type tally struct {
	frames int    // data lines but [DONE]
	deltas int    // events of type response.output_text.delta
	last   string // type of the last event that is no such delta
	done   bool   // [DONE] was seen

	begun []byte // the beginning of a line whose end has not come
}

var (
	eventField = []byte("event: ")
	dataField  = []byte("data: ")
	doneLine   = []byte("data: [DONE]")
	deltaLine  = []byte("event: response.output_text.delta")
)

// Write implements io.Writer; it never fails.
func (t *tally) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			t.begun = append(t.begun, p[:min(len(p), linePrefix-len(t.begun))]...)
			return n, nil
		}
		line := p[:i]
		if len(t.begun) > 0 {
			line = append(t.begun, line[:min(i, linePrefix-len(t.begun))]...)
			t.begun = t.begun[:0]
		}
		t.line(line)
		p = p[i+1:]
	}
}

func (t *tally) line(line []byte) {
	switch {
	case len(line) == 0:
	case bytes.Equal(line, deltaLine):
		t.deltas++
	case bytes.Equal(line, doneLine):
		t.done = true
	case bytes.HasPrefix(line, dataField):
		t.frames++
	case bytes.HasPrefix(line, eventField):
		t.last = string(line[len(eventField):])
	}
}
