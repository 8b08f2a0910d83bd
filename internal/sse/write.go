package sse

import (
	"io"
	"slices"
	"strings"
	"sync"
)

// BatchBytes is the most that [Writer] collects before it writes, unless a
// single frame is larger. With the framing of a chunk it fits the 4 KiB buffer
// that net/http keeps for a connection, so that a batch is one system call.
const BatchBytes = 3584

// AppendFrame appends the frame of one event to dst and returns the extended
// slice. An empty event omits the event line. Data with line breaks (CR, LF or
// CRLF) becomes several data lines, which [Read] joins by LF; line breaks in
// event cannot be framed and are left out. Nothing that is passed in can
// therefore end the frame or add a field to it.
func AppendFrame(dst []byte, event string, data []byte) []byte {
	const framing = len("event: \ndata: \n\n")
	dst = slices.Grow(dst, framing+len(event)+len(data))
	if event != "" {
		dst = append(dst, "event: "...)
		dst = appendUnbroken(dst, event)
		dst = append(dst, '\n')
	}
	dst = appendLines(dst, "data: ", data)
	return append(dst, '\n')
}

// appendUnbroken appends s without its line breaks.
func appendUnbroken(dst []byte, s string) []byte {
	for {
		i := strings.IndexAny(s, "\r\n")
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(dst, s[:i]...)
		s = s[i+1:]
	}
}

// appendLines appends every line of text, at least one, after prefix.
func appendLines(dst []byte, prefix string, text []byte) []byte {
	for {
		dst = append(dst, prefix...)
		i := indexLineEnd(text)
		if i < 0 {
			dst = append(dst, text...)
			return append(dst, '\n')
		}
		dst = append(dst, text[:i]...)
		dst = append(dst, '\n')
		if text[i] == '\r' && i+1 < len(text) && text[i+1] == '\n' {
			i++
		}
		text = text[i+1:]
	}
}

// Writer writes frames to a stream and flushes after every write. A frame is
// never split over two writes, so a comment, or the end of the stream, never
// falls inside one. [Writer.Add] collects frames that are ready at the same
// time into one write; every other method sends at once, what was added before
// included.
//
// The first error of the stream sticks: it is returned from then on and nothing
// more is written. A Writer is for one goroutine. Make it with [NewWriter].
type Writer struct {
	dst   io.Writer
	flush func() error
	buf   []byte  // whole frames that have not been written; nil if there are none
	lent  *[]byte // where buf's memory came from, nil if it is its own
	err   error
}

// batches lends the memory of a batch for as long as there are frames in it:
// most streams are idle most of the time.
var batches = sync.Pool{New: func() any {
	b := make([]byte, 0, startBuffer)
	return &b
}}

// NewWriter returns a Writer to dst. It calls flush after each write to dst;
// the Flush method of a [net/http.ResponseController] will do, and nil means
// that dst needs no flushing. The Writer never closes dst.
func NewWriter(dst io.Writer, flush func() error) *Writer {
	if flush == nil {
		flush = func() error { return nil }
	}
	return &Writer{dst: dst, flush: flush}
}

// Add puts a frame, as made by [AppendFrame], into the current batch. Batches
// are written when they reach [BatchBytes]; the rest waits for [Writer.Flush].
// Neither event nor data is kept.
func (w *Writer) Add(event string, data []byte) error {
	if w.err != nil {
		return w.err
	}
	batched := len(w.buf)
	w.buf = AppendFrame(w.batch(), event, data)
	return w.limitBatch(batched)
}

// Flush writes what was added and not yet written. It does nothing if there is
// nothing to write.
func (w *Writer) Flush() error {
	if w.err == nil && len(w.buf) > 0 {
		w.send(len(w.buf))
	}
	return w.err
}

// WriteFrame adds a frame and sends it at once.
func (w *Writer) WriteFrame(event string, data []byte) error {
	if err := w.Add(event, data); err != nil {
		return err
	}
	return w.Flush()
}

// Comment sends a comment, which readers ignore, to keep an idle connection
// alive. It is followed by a blank line, for readers that split a stream at
// those before they look at lines.
func (w *Writer) Comment(text string) error {
	if w.err != nil {
		return w.err
	}
	batched := len(w.buf)
	w.buf = appendLines(w.batch(), ": ", []byte(text))
	w.buf = append(w.buf, '\n')
	if err := w.limitBatch(batched); err != nil {
		return err
	}
	return w.Flush()
}

// Done sends the frame "data: [DONE]" that marks the end of a stream.
func (w *Writer) Done() error { return w.WriteFrame("", []byte("[DONE]")) }

// batch returns the current batch, with memory for a whole one if it has none.
func (w *Writer) batch() []byte {
	if w.buf == nil {
		w.lent = batches.Get().(*[]byte)
		w.buf = (*w.lent)[:0]
	}
	return w.buf
}

// release gives the memory of an empty batch back. What a huge frame needed is
// left to the garbage collector.
func (w *Writer) release() {
	if cap(w.buf) <= keptBuffer {
		*w.lent = w.buf[:0]
		batches.Put(w.lent)
	}
	w.buf, w.lent = nil, nil
}

// limitBatch keeps the batch within its limit after a frame was appended behind
// the first batched bytes: these are written alone if the whole is too large,
// and the frame too if it fills a batch by itself.
func (w *Writer) limitBatch(batched int) error {
	if batched > 0 && len(w.buf) > BatchBytes {
		w.send(batched)
	}
	if w.err == nil && len(w.buf) >= BatchBytes {
		w.send(len(w.buf))
	}
	return w.err
}

// send writes and flushes the first n bytes of the batch.
func (w *Writer) send(n int) {
	written, err := w.dst.Write(w.buf[:n])
	if err == nil && written < n {
		err = io.ErrShortWrite
	}
	if err == nil {
		err = w.flush()
	}
	w.err = err
	rest := w.buf[n:]
	if err != nil || len(rest) == 0 {
		w.release()
		return
	}
	w.buf = w.buf[:copy(w.buf, rest)]
}
