package chat

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
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
	ctx    context.Context // of the request; reads of body fail once it is done
	cancel context.CancelCauseFunc
	resp   *http.Response
	body   io.Reader
	dec    *decoder

	patience *time.Timer // cancels with errEnough
}

// errEnough is the cause with which reading ends when the server has finished
// and has had its time for last words.
var errEnough = errors.New("the answer is whole")

// frames yields the events of an event stream.
func (s *stream) frames(yield func(responses.Event, error) bool) {
	defer s.stopWaiting()
	for frame, err := range sse.Read(s.body, nil) {
		switch {
		case err != nil && s.dec.finished() && s.wanted():
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
		return upstream.Redacted(frameError(frame.Data), s.resp)
	}
	if err := s.dec.Push(frame.Data); err != nil {
		return upstream.Redacted(err, s.resp)
	}
	return nil
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
	err = s.push(sse.Event{Data: body})
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

// wanted reports whether nobody but us has ended the reading.
func (s *stream) wanted() bool {
	cause := context.Cause(s.ctx)
	return cause == nil || cause == errEnough
}

// drain reads to the end of the body.
func (s *stream) drain() {
	s.wait(afterDone)
	io.Copy(io.Discard, s.body) // an error means that the connection is lost, as it would be without this
}

// wait gives the server d to say more.
func (s *stream) wait(d time.Duration) {
	if s.patience == nil {
		s.patience = time.AfterFunc(d, func() { s.cancel(errEnough) })
		return
	}
	s.patience.Reset(d)
}

func (s *stream) stopWaiting() {
	if s.patience != nil {
		s.patience.Stop()
	}
}
