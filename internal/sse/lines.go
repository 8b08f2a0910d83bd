package sse

import (
	"bytes"
	"io"
)

const (
	// idleBuffer is what a reader begins with: some events of usual size.
	idleBuffer = 1 << 10

	// startBuffer is what it reads into once events come faster than they are
	// read, and what a writer collects.
	startBuffer = 4 << 10

	// keptBuffer is the largest buffer that is kept although it is mostly
	// empty. Keeping it spares streams of middling events an allocation each.
	keptBuffer = 16 << 10

	// maxEmptyReads is how often in a row a source may return nothing at all.
	maxEmptyReads = 100

	// scanWindow is how far the search for one kind of line end runs ahead of
	// the search for the other; see indexLineEnd.
	scanWindow = 1 << 10
)

// lineReader cuts a stream into lines and holds the data of the event that is
// being read. Both live in one buffer, whose parts are, in this order:
//
//	held     data of the current event
//	         bytes of lines that have been interpreted, free for reuse
//	unread   buf[start:end]
//	         room to read into
//
// An event with one data line, which is the usual one, is thereby handed out
// without having been copied.
type lineReader struct {
	src io.Reader
	max int // limit of held data and one line together

	buf        []byte
	start, end int
	scanned    int    // how many unread bytes are known to contain no line end
	held       []byte // part of buf before start; nil if the event has no data field yet
	busy       bool   // the last read filled the buffer: there is more to be had at once
	skipLF     bool   // the last line ended in CR: a LF that follows belongs to it
	err        error  // what src ended with
}

// next returns the next line without its end. The line is valid until the next
// call of next. A line cut off by the end of the source is not returned.
func (l *lineReader) next() ([]byte, error) {
	for {
		if l.skipLF && l.start < l.end {
			// CRLF is one line end, but its line was not kept waiting for the
			// LF, which may arrive only with the next event.
			l.skipLF = false
			if l.buf[l.start] == '\n' {
				l.start++
			}
		}
		unread := l.buf[l.start:l.end]
		if i := indexLineEnd(unread[l.scanned:]); i >= 0 {
			return l.take(l.scanned + i)
		}
		l.scanned = len(unread)
		if err := l.fill(); err != nil {
			return nil, err
		}
	}
}

// take consumes n unread bytes and the line end that follows them.
func (l *lineReader) take(n int) ([]byte, error) {
	if len(l.held)+n > l.max {
		return nil, ErrLineTooLong
	}
	line := l.buf[l.start : l.start+n]
	l.skipLF = l.buf[l.start+n] == '\r'
	l.start += n + 1
	l.scanned = 0
	return line, nil
}

// hold adds value, a part of the line returned last, to the held data. Values
// are joined by a line feed. This happens in place: value comes from behind a
// field name, so the place it moves to ends before the unread bytes begin.
func (l *lineReader) hold(value []byte) {
	if l.held == nil {
		l.held = value
		return
	}
	l.held = append(l.held, '\n')
	l.held = append(l.held, value...)
}

// release gives up the held data.
func (l *lineReader) release() { l.held = nil }

// fill reads more bytes. It is called only when there is no whole line unread,
// and returns nil only if there are new bytes.
func (l *lineReader) fill() error {
	// Before anything else, so that the outcome does not depend on whether the
	// source ended together with its last bytes or after them.
	if len(l.held)+l.end-l.start > l.max {
		return ErrLineTooLong
	}
	if l.err != nil {
		return l.err
	}
	l.makeRoom()
	for range maxEmptyReads {
		n, err := l.src.Read(l.buf[l.end:])
		l.end += n
		l.busy = l.end == len(l.buf)
		l.err = err
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

// makeRoom moves the held data and the unread bytes to the front of the buffer,
// into another buffer if this one is full or far too large. There is room for
// at least one byte afterwards.
//
// Each byte is moved a bounded number of times on average: the buffer grows by
// doubling, shrinks only after most of it was consumed, and within one buffer
// nothing moves unless a line was consumed since the last time.
func (l *lineReader) makeRoom() {
	need := len(l.held) + l.end - l.start
	buf := l.buf
	if size := l.bufferSize(need); size != len(buf) {
		buf = make([]byte, size)
	}
	n := copy(buf, l.held)
	if l.held != nil {
		l.held = buf[:n]
	}
	m := copy(buf[n:], l.buf[l.start:l.end])
	l.buf, l.start, l.end = buf, n, n+m
}

// bufferSize returns how large the buffer should be when need bytes of it are
// in use: more than need, and at most one byte more than the limit, for the
// line end, unless the limit is smaller than the buffer to start with.
func (l *lineReader) bufferSize(need int) int {
	size := len(l.buf)
	switch {
	case size == 0:
		return idleBuffer
	case size < startBuffer && l.busy && startBuffer <= l.max:
		return startBuffer
	case need == size && 2*size >= l.max:
		return l.max + 1
	case need == size:
		return 2 * size
	case size > keptBuffer && need < size/4:
		return max(idleBuffer, 2*need)
	}
	return size
}

// indexLineEnd returns the index of the first CR or LF in b, or -1. It searches
// in windows: looking for the LF in all of b would make many short lines that
// end in CR cost the square of their number.
func indexLineEnd(b []byte) int {
	for offset := 0; offset < len(b); offset += scanWindow {
		window := b[offset:min(offset+scanWindow, len(b))]
		lf := bytes.IndexByte(window, '\n')
		if lf >= 0 {
			window = window[:lf]
		}
		if cr := bytes.IndexByte(window, '\r'); cr >= 0 {
			return offset + cr
		}
		if lf >= 0 {
			return offset + lf
		}
	}
	return -1
}
