package relay

import (
	"sync"

	"github.com/antiphon-dev/antiphon/internal/sse"
)

const (
	// smallBuffer is what a stream holds while it waits: most streams wait most of
	// the time.
	smallBuffer = 4 << 10
	// largeBuffer is what it holds while the upstream is ahead of it, so that more
	// goes into each write.
	largeBuffer = 32 << 10
)

// The buffers that are free.
var (
	smallBuffers = sync.Pool{New: func() any { return new([smallBuffer]byte) }}
	largeBuffers = sync.Pool{New: func() any { return new([largeBuffer]byte) }}
)

// A buffer holds what was read and not passed on yet: less than a frame, after
// each round. It is as large as it needs to be now.
type buffer struct {
	b    []byte
	held int
}

func newBuffer() *buffer { return &buffer{b: smallBuffers.Get().(*[smallBuffer]byte)[:]} }

// release gives the buffer back. Nothing of it may be used afterwards.
func (b *buffer) release() {
	switch len(b.b) {
	case smallBuffer:
		smallBuffers.Put((*[smallBuffer]byte)(b.b))
	case largeBuffer:
		largeBuffers.Put((*[largeBuffer]byte)(b.b))
	}
	b.b = nil
}

// makeRoom makes sure that something can be read. It fails if a frame is too long.
func (b *buffer) makeRoom() error {
	switch {
	case b.held < len(b.b):
	case len(b.b) < largeBuffer:
		b.move(largeBuffers.Get().(*[largeBuffer]byte)[:])
	case len(b.b) > sse.DefaultMaxLine:
		return sse.ErrLineTooLong
	default:
		b.move(make([]byte, 2*len(b.b)))
	}
	return nil
}

// took notes that n bytes were read, and returns all that is held.
func (b *buffer) took(n int) []byte {
	b.held += n
	return b.b[:b.held]
}

// drop forgets the first n bytes, which were passed on. A round that filled a
// small buffer is followed by one with a large buffer, one that would have fitted
// into a small one by one with that, and a frame that needed more by neither.
func (b *buffer) drop(n int) {
	filled := b.held
	b.held = copy(b.b, b.b[n:b.held])
	switch {
	case len(b.b) > largeBuffer && b.held <= largeBuffer, filled == len(b.b) && len(b.b) == smallBuffer:
		b.move(largeBuffers.Get().(*[largeBuffer]byte)[:])
	case filled < smallBuffer && len(b.b) > smallBuffer:
		b.move(smallBuffers.Get().(*[smallBuffer]byte)[:])
	}
}

// move goes on with another buffer, into which what is held must fit.
func (b *buffer) move(to []byte) {
	copy(to, b.b[:b.held])
	b.release()
	b.b = to
}
