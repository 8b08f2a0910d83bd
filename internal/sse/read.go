package sse

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"math"
	"slices"
	"time"
)

// DefaultMaxLine is the limit of [ReadOptions.MaxLine] when none is set. It is
// large because an image travels base64-encoded in one line.
const DefaultMaxLine = 32 << 20

// ErrLineTooLong is yielded by [Read] when a line, together with the data its
// event has already collected, exceeds [ReadOptions.MaxLine].
var ErrLineTooLong = errors.New("sse: line too long")

// Event is one dispatched event.
type Event struct {
	// Type is the value of the event field. It is empty if there was none:
	// the standard's default, "message", is left to the reader of the type,
	// so that a relayed event does not gain a field it never had.
	Type string

	// Data is the values of the data fields joined by line feeds. It is never
	// nil, and it points into the reader's buffer: it is valid only until the
	// next iteration.
	Data []byte

	// ID is the stream's last event ID. As the standard has it, it stays set
	// for the events that follow until another id field changes it.
	ID string

	// Retry is the reconnection time the stream asked for most recently, zero
	// if it never did.
	Retry time.Duration
}

// ReadOptions configures [Read]. The zero value is usable.
type ReadOptions struct {
	// MaxLine is the largest number of bytes in a line, its end not counted,
	// plus the data collected from earlier lines of the same event; so it
	// bounds the data of an event too. A stream holds little more than this
	// at any time, and beyond it only the last type and the last ID, each of
	// which was a line. Zero or less means [DefaultMaxLine].
	MaxLine int
}

// maxLine returns the limit in force. It accepts nil options.
func (o *ReadOptions) maxLine() int {
	if o == nil || o.MaxLine <= 0 {
		return DefaultMaxLine
	}
	return o.MaxLine
}

// Read yields the events of r, each as soon as the line end that completes it
// has been read. Nil options mean the defaults.
//
// An error is yielded at most once and is last, with a zero event:
// [ErrLineTooLong], or the error from r as it is. The end of r is not an error,
// and as the standard demands an event without its final blank line is dropped
// there; a caller that must tell a complete stream from a cut one looks for the
// last event of its protocol.
//
// The sequence is for one goroutine and can be used once. It reads ahead of the
// events it yields and never closes r. Its buffer starts at 4 KiB, doubles as
// needed up to the limit and becomes small again once a large event has passed.
func Read(r io.Reader, opts *ReadOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		d := decoder{lines: lineReader{src: r, max: opts.maxLine()}}
		for {
			event, err := d.next()
			if err == io.EOF {
				return
			}
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

// decoder interprets the lines of one stream. Its fields are the standard's
// buffers; the data buffer is [lineReader.held].
type decoder struct {
	lines lineReader

	eventType string
	lastID    string
	retry     time.Duration

	lastType string // see internType
	begun    bool   // the first line, which may carry a byte order mark, has been read
}

// next returns the next event that is to be dispatched.
func (d *decoder) next() (Event, error) {
	d.reset()
	for {
		line, err := d.lines.next()
		if err != nil {
			return Event{}, err
		}
		if !d.begun {
			d.begun = true
			line = bytes.TrimPrefix(line, []byte("\uFEFF"))
		}
		if len(line) > 0 {
			d.field(line)
			continue
		}
		if data := d.lines.held; data != nil {
			// Clipped, so that appending to it cannot reach unread bytes.
			return Event{Type: d.eventType, Data: slices.Clip(data), ID: d.lastID, Retry: d.retry}, nil
		}
		// Without a data field there is nothing to dispatch.
		d.reset()
	}
}

// reset empties what belongs to one event. The ID and the reconnection time
// belong to the stream.
func (d *decoder) reset() {
	d.lines.release()
	d.eventType = ""
}

// field interprets a line that is not blank. A comment begins with a colon,
// which makes it a field without a name, ignored like any unknown one.
func (d *decoder) field(line []byte) {
	name, value := line, line[len(line):]
	if i := bytes.IndexByte(line, ':'); i >= 0 {
		name, value = line[:i], bytes.TrimPrefix(line[i+1:], []byte(" "))
	}
	switch string(name) {
	case "data":
		d.lines.hold(value)
	case "event":
		d.eventType = d.internType(value)
	case "id":
		if bytes.IndexByte(value, 0) < 0 && string(value) != d.lastID {
			d.lastID = string(value)
		}
	case "retry":
		if retry, ok := parseRetry(value); ok {
			d.retry = retry
		}
	}
}

// internType returns value as a string, without allocating if it is the type
// that was seen last: long streams are runs of deltas of one type.
func (d *decoder) internType(value []byte) string {
	if string(value) != d.lastType {
		d.lastType = string(value)
	}
	return d.lastType
}

// parseRetry reads a whole number of milliseconds. It reports false unless
// value consists of ASCII digits only; a number that does not fit a duration
// becomes the longest whole number of milliseconds that does.
func parseRetry(value []byte) (time.Duration, bool) {
	const limit = math.MaxInt64 / int64(time.Millisecond)
	var ms int64
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		if ms <= limit {
			ms = ms*10 + int64(c-'0')
		}
	}
	return time.Duration(min(ms, limit)) * time.Millisecond, len(value) > 0
}
