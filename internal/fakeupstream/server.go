package fakeupstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
)

// What a Server holds on to. Older exchanges are forgotten first.
const (
	// MaxRequestBody is the largest request body read; a longer one is answered
	// with status 413.
	MaxRequestBody = 32 << 20
	// MaxRecorded is how many exchanges [Server.Requests] remembers.
	MaxRecorded = 1024

	maxRecordedBytes = 32 << 20
)

// A Server records requests and answers them. It is safe for concurrent use
// and needs real connections (HTTP/1.1 or HTTP/2) for its faults to mean
// anything: it cuts one by panicking with [http.ErrAbortHandler].
type Server struct {
	answer  func(*Exchange) Reply
	closing chan struct{}
	close   func()

	mu       sync.Mutex    // guards what follows
	recorded []*Exchange   // oldest first
	bytes    int           // request bodies in recorded
	total    int           // exchanges ever recorded
	arrived  chan struct{} // closed and replaced when an exchange is recorded
}

var _ http.Handler = (*Server)(nil)

// NewServer returns a server that answers each request with answer, which is
// called concurrently and must not change the exchange.
func NewServer(answer func(*Exchange) Reply) *Server {
	closing := make(chan struct{})
	return &Server{
		answer:  answer,
		closing: closing,
		close:   sync.OnceFunc(func() { close(closing) }),
		arrived: make(chan struct{}),
	}
}

// ServeHTTP records the request and sends its reply, faults included.
func (s *Server) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, MaxRequestBody))
	if err != nil {
		http.Error(rw, "fakeupstream: read request: "+err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	x := newExchange(r, body)
	defer close(x.done)
	s.record(x)

	// The body has been read to its end, so the connection is now watched and
	// its loss cancels the request's context.
	stop := context.AfterFunc(r.Context(), func() { close(x.gone) })
	w := newWriter(rw, x, r.Context().Done(), s.closing)
	err = w.send(s.answer(x))
	// The answer may notice that the client has left before the context's own
	// function has run; stop then keeps that from running at all.
	if stop() && clientLeft(r.Context(), err) {
		close(x.gone)
	}
	if err != nil {
		// An answer that did not get to its end must not look complete.
		panic(http.ErrAbortHandler)
	}
}

// clientLeft reports whether an answer ended because its client went away.
func clientLeft(ctx context.Context, err error) bool {
	_, broken := errors.AsType[*net.OpError](err)
	return ctx.Err() != nil || broken || errors.Is(err, errGone)
}

// Requests returns the latest recorded exchanges, at most [MaxRecorded], the
// oldest first.
func (s *Server) Requests() []*Exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.recorded)
}

// Await returns exchange n, counted from zero since the server was made, as
// soon as its request has arrived. It fails if ctx ends first or if the
// exchange is already forgotten.
func (s *Server) Await(ctx context.Context, n int) (*Exchange, error) {
	for {
		s.mu.Lock()
		arrived, forgotten, have := s.arrived, s.total-len(s.recorded), s.total
		var x *Exchange
		if n >= forgotten && n < have {
			x = s.recorded[n-forgotten]
		}
		s.mu.Unlock()
		switch {
		case x != nil:
			return x, nil
		case n < forgotten:
			return nil, fmt.Errorf("fakeupstream: exchange %d is forgotten, the oldest kept is %d", n, forgotten)
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return nil, fmt.Errorf("fakeupstream: await exchange %d of %d: %w", n, have, context.Cause(ctx))
		}
	}
}

// Close ends every stall, delay and stream under way by cutting its
// connection, and every later one too. It does not wait and may be repeated.
func (s *Server) Close() { s.close() }

func (s *Server) record(x *Exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recorded = append(s.recorded, x)
	s.bytes += len(x.Body)
	s.total++
	drop := 0
	for len(s.recorded)-drop > MaxRecorded || s.bytes > maxRecordedBytes {
		s.bytes -= len(s.recorded[drop].Body)
		drop++
	}
	s.recorded = slices.Delete(s.recorded, 0, drop)
	close(s.arrived)
	s.arrived = make(chan struct{})
}
