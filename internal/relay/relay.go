// Package relay is the byte path: it passes an upstream's answer on to a client as
// it came, and only looks at it. Bytes change in one case, where the client knows
// the model by another name than the upstream.
//
// A stream is passed on by whole frames, as many at once as have come, so that a
// client never sees half of one, and nothing is encoded anew. It is looked at once:
// what ends a frame, and what type of event is in it (frames.go, seen.go). Only the
// terminal event is decoded.
package relay

import (
	"bytes"
	"io"

	"github.com/antiphon-dev/antiphon/responses"
)

// Options say how to look at an answer.
type Options struct {
	Rename
	// Foreign answers are of another API than Responses: their events have no
	// types, no order and no terminal one.
	Foreign bool
	// Notice, if not nil, is told of each event that is no delta, before it passes.
	// The data is valid until it returns.
	Notice func(t responses.EventType, data []byte)
}

// Stream copies an event stream from src to dst, calling flush after each write.
// It returns what it saw, and the error that ended it: nil at the end of src. A
// frame longer than [sse.DefaultMaxLine] is an error.
func Stream(dst io.Writer, flush func() error, src io.Reader, opts Options) (*Seen, error) {
	seen := &Seen{foreign: opts.Foreign, notice: opts.Notice}
	buf := newBuffer()
	defer buf.release()
	var at splitter
	for {
		if err := buf.makeRoom(); err != nil {
			return seen, err
		}
		n, err := src.Read(buf.b[buf.held:])
		whole := at.split(buf.took(n), seen)
		if err == io.EOF {
			whole = buf.held // what is left is all there will be
		}
		if whole > 0 {
			if err := pass(dst, flush, buf.b[:whole], opts.Rename); err != nil {
				return seen, err
			}
			at.drop(whole)
			buf.drop(whole)
		}
		switch {
		case err == io.EOF:
			seen.ended()
			return seen, nil
		case err != nil:
			return seen, err
		}
	}
}

// pass writes whole frames.
func pass(dst io.Writer, flush func() error, frames []byte, rename Rename) error {
	if rename.needed() && bytes.Contains(frames, []byte(`"model"`)) {
		frames = rename.frames(frames)
	}
	if _, err := dst.Write(frames); err != nil {
		return err
	}
	return flush()
}

// Whole notes what a whole answer says, and gives the model the client's name.
func Whole(body []byte, rename Rename) ([]byte, *Seen) {
	seen := new(Seen)
	seen.whole(body)
	if renamed, ok := rename.Object(body); ok {
		body = renamed
	}
	return body, seen
}
