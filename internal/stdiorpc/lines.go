package stdiorpc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// lineReader cuts what a peer writes into lines of bounded length.
type lineReader struct {
	r    *bufio.Reader
	most int
	buf  []byte // of a line that is longer than the reader's buffer
}

func newLineReader(r io.Reader, most int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 64<<10), most: most}
}

// next returns the next line without its end, valid until the call after. A line
// that the peer did not finish is an error, not a line: it may be half a message.
func (l *lineReader) next() ([]byte, error) {
	l.buf = l.buf[:0]
	for {
		piece, err := l.r.ReadSlice('\n')
		if len(l.buf)+len(piece) > l.most+1 {
			return nil, fmt.Errorf("a line is longer than %d bytes", l.most)
		}
		switch {
		case err == nil && len(l.buf) == 0:
			return trimEnd(piece), nil
		case err == nil:
			l.buf = append(l.buf, piece...)
			return trimEnd(l.buf), nil
		case errors.Is(err, bufio.ErrBufferFull):
			l.buf = append(l.buf, piece...)
		case errors.Is(err, io.EOF) && len(l.buf)+len(piece) > 0:
			return nil, fmt.Errorf("the output ends in the middle of a line: %w", io.ErrUnexpectedEOF)
		default:
			return nil, err
		}
	}
}

// release lets go of the memory of a line that was much longer than most.
func (l *lineReader) release() {
	if cap(l.buf) > 1<<20 {
		l.buf = nil
	}
}

func trimEnd(line []byte) []byte {
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}
