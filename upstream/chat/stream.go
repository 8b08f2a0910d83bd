package chat

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/antiphon-dev/antiphon/internal/sse"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

const (
	// maxWhole bounds an answer that is not a stream.
	maxWhole = 64 << 20
	// afterFinish is how long a server that has given the finish reason may take
	// to say the usage and end the stream. Some do neither.
	afterFinish = 10 * time.Second
	// afterDone is how long a server may take to end a stream after [DONE]. One
	// that is read to its end leaves a connection that can be used again.
	afterDone = 50 * time.Millisecond
)

// doneMark is the data of the last frame.
var doneMark = []byte("[DONE]")

// stream is an answer that is being read. Its methods frames and whole are the
// two forms of upstream.Stream.Events.
type stream struct {
	ctx  context.Context
	body io.ReadCloser
	dec  *decoder

	patience *time.Timer // closes the body of a server that has nothing more to say
}

// frames yields the events of an event stream.
func (s *stream) frames(yield func(responses.Event, error) bool) {
	defer s.stopWaiting()
	for frame, err := range sse.Read(s.body, nil) {
		switch {
		case err != nil && s.dec.finished() && s.ctx.Err() == nil:
			// The answer was whole; only the end of the stream was lost.
			s.end(yield)
			return
		case err != nil:
			yield(responses.Event{}, upstream.ReadFailure(s.ctx, err))
			return
		case bytes.Equal(bytes.TrimSpace(frame.Data), doneMark):
			s.end(yield)
			s.drain()
			return
		}
		s.stopWaiting() // the reader's time is not the server's
		err = s.push(frame)
		if !s.hand(yield) {
			return
		}
		if err != nil {
			yield(responses.Event{}, err)
			return
		}
		if s.dec.finished() {
			s.wait(afterFinish)
		}
	}
	s.end(yield)
}

// push decodes one frame.
func (s *stream) push(frame sse.Event) error {
	if frame.Type == "error" {
		return frameError(frame.Data)
	}
	return s.dec.Push(frame.Data)
}

// whole yields the events of an answer that is one JSON object.
func (s *stream) whole(yield func(responses.Event, error) bool) {
	body, err := io.ReadAll(io.LimitReader(s.body, maxWhole+1))
	switch {
	case err != nil:
		yield(responses.Event{}, upstream.ReadFailure(s.ctx, err))
		return
	case len(body) > maxWhole:
		yield(responses.Event{}, responses.UpstreamErrorf(responses.CodeUpstream, "The upstream's answer is larger than %d bytes.", maxWhole))
		return
	}
	err = s.dec.Push(body)
	if !s.hand(yield) {
		return
	}
	if err != nil {
		yield(responses.Event{}, err)
		return
	}
	s.end(yield)
}

// hand yields what the decoder has made and reports whether more is wanted.
func (s *stream) hand(yield func(responses.Event, error) bool) bool {
	for _, ev := range s.dec.out.Take() {
		if !yield(ev, nil) {
			return false
		}
	}
	return true
}

// end yields the end of the turn.
func (s *stream) end(yield func(responses.Event, error) bool) {
	if err := s.dec.End(); err != nil {
		yield(responses.Event{}, err)
		return
	}
	s.hand(yield)
}

// drain reads to the end of the body.
func (s *stream) drain() {
	s.wait(afterDone)
	io.Copy(io.Discard, s.body) // an error means that the connection is lost, as it would be without this
}

// wait gives the server d to send its next byte.
func (s *stream) wait(d time.Duration) {
	if s.patience == nil {
		s.patience = time.AfterFunc(d, func() { s.body.Close() })
		return
	}
	s.patience.Reset(d)
}

func (s *stream) stopWaiting() {
	if s.patience != nil {
		s.patience.Stop()
	}
}
