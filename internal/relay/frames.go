package relay

import "bytes"

// A splitter finds the ends of frames, looking at every byte once, however a
// stream is cut into reads. The zero value is at its beginning.
type splitter struct {
	line     int  // where the line begins that has no end yet
	searched int  // before this there is no end of it
	feed     int  // where the next LF is, so that it is not looked for at every CR
	returns  bool // the stream has CRs
	lines    int  // of the frame, that are whole
}

// split gives the whole frames of b to seen and returns where the last of them
// ends. What follows that is to be at the beginning of the next b.
func (s *splitter) split(b []byte, seen *Seen) (whole int) {
	if !s.returns {
		s.returns = bytes.IndexByte(b[s.searched:], '\r') >= 0
	}
	s.feed = -1 // b has grown
	for {
		end, blank := s.next(b)
		if end < 0 {
			return whole
		}
		s.line, s.searched = end, end
		if !blank {
			s.lines++
			continue
		}
		seen.frame(b[whole:end], s.lines)
		whole, s.lines = end, 0
	}
}

// drop notes that the first n bytes are gone.
func (s *splitter) drop(n int) {
	s.line, s.searched = max(s.line-n, 0), max(s.searched-n, 0)
}

// next returns where the line ends, and whether there is nothing in it: that ends
// a frame. It is negative as long as that is not known. A line ends with LF, CRLF
// or CR, and a CR may be half of a CRLF.
func (s *splitter) next(b []byte) (end int, blank bool) {
	i := s.lineEnd(b)
	if i < 0 {
		s.searched = len(b)
		return -1, false
	}
	blank, end = i == s.line, i+1
	switch {
	case b[i] == '\n':
	case end < len(b) && b[end] == '\n':
		end++
	case end == len(b) && !(blank && s.line > 0 && b[s.line-1] == '\r'):
		s.searched = i // unless lines end so here, what comes next decides
		return -1, false
	}
	return end, blank
}

// lineEnd is where the first LF or CR is that was not passed yet, -1 if there is
// none.
func (s *splitter) lineEnd(b []byte) int {
	if s.feed < s.searched {
		s.feed = len(b)
		if i := bytes.IndexByte(b[s.searched:], '\n'); i >= 0 {
			s.feed = s.searched + i
		}
	}
	if s.returns {
		if i := bytes.IndexByte(b[s.searched:s.feed], '\r'); i >= 0 {
			return s.searched + i
		}
	}
	if s.feed == len(b) {
		return -1
	}
	return s.feed
}
