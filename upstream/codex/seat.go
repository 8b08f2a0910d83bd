package codex

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

const (
	// After a process could not be started, the next try waits: first this long,
	// then twice as long each time, at most that long.
	firstBackOff = 500 * time.Millisecond
	mostBackOff  = 30 * time.Second
)

// A seat is a credential and the process that works with it. At most one takes new
// turns; others may be finishing theirs.
type seat struct {
	d          *driver
	credential credential
	turns      atomic.Int64 // that run on it

	mu        sync.Mutex    // guards what follows
	current   *worker       // takes new turns; nil if there is none
	starting  chan struct{} // closed when the start that is under way has ended; nil if there is none
	failures  int           // failed starts in a row
	lastErr   error         // of the last failed start
	notBefore time.Time     // of the next start
}

// worker returns a process for one more turn, starting one if there is none. The
// caller gives the turn back with [worker.leave].
func (s *seat) worker(ctx context.Context) (*worker, error) {
	for {
		w, started, err := s.look()
		if w != nil || err != nil {
			return w, err
		}
		select {
		case <-started:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// look returns the process, or a channel that is closed when there may be one.
func (s *seat) look() (*worker, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.current != nil && s.current.enter():
		return s.current, nil, nil
	case s.starting != nil:
		return nil, s.starting, nil
	}
	s.current = nil
	if wait := time.Until(s.notBefore); wait > 0 {
		return nil, nil, s.down(wait)
	}
	if !s.d.spawn(s.start) {
		return nil, nil, upstream.ErrClosed
	}
	s.starting = make(chan struct{})
	return nil, s.starting, nil
}

// down is the failure of a turn while Codex cannot be started.
func (s *seat) down(wait time.Duration) error {
	e := responses.UpstreamErrorf(responses.CodeOverloaded, "Codex could not be started; the next try is soon.").WithCause(upstream.Unsent(s.lastErr))
	e.RetryAfter = max(wait.Round(time.Second), time.Second)
	return e
}

// start starts a process and sees it to its end. It is a goroutine of the driver.
func (s *seat) start() {
	w, err := startWorker(s.d, s.credential)
	s.mu.Lock()
	close(s.starting)
	s.starting = nil
	if err != nil {
		s.failed(err)
		s.mu.Unlock()
		return
	}
	s.current = w
	s.mu.Unlock()
	w.watch()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == w {
		s.current = nil
	}
	if w.useless() {
		s.failed(w.conn.Err())
	} else {
		s.failures = 0
	}
}

// failed notes a start that came to nothing. The caller holds s.mu.
func (s *seat) failed(err error) {
	wait := min(firstBackOff<<min(s.failures, 16), mostBackOff)
	s.failures++
	s.lastErr, s.notBefore = err, time.Now().Add(wait)
	if s.d.closing.Err() == nil {
		s.d.opts.Logger.Error("the Codex app-server could not be started", "error", err, "next_try_in", wait)
	}
}
