package mcptool

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var (
	errBusy   = errors.New("too many tool servers are in use; try again later")
	errClosed = errors.New("the gateway is closing its tool servers")
)

// A pool keeps sessions, by owner and server.
type pool struct {
	opts *Options

	mu       sync.Mutex
	sessions map[string]*session // guarded by mu
	closed   bool                // guarded by mu
	closing  sync.WaitGroup      // sessions that are being closed
}

// A session is the conversation with a server on behalf of an owner.
type session struct {
	key string

	// Guarded by the pool's mu.
	uses int
	idle *time.Timer // ends it; nil while it is in use
	lost bool        // it is not in the pool any more

	// Guarded by mu, which is held while the server is reached.
	mu     sync.Mutex
	conn   *link // nil until it is needed
	tools  []*mcp.Tool
	listed time.Time

	stale atomic.Bool // the server said that its tools have changed
}

// A link is the connection of a session, and what goes with it.
type link struct {
	*mcp.ClientSession
	gone <-chan struct{} // closed when the command has ended; nil if there is none
	done func()          // releases the rest
}

// dead reports whether it is known that there is nobody at the other end.
func (l *link) dead() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

func (l *link) close() {
	_ = l.ClientSession.Close() // how a server leaves is its own matter
	if l.done != nil {
		l.done()
	}
}

func newPool(opts *Options) *pool { return &pool{opts: opts, sessions: map[string]*session{}} }

// take returns the session of a key, which may not be connected yet. The caller
// gives it back with put.
func (p *pool) take(key string) (*session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	s := p.sessions[key]
	if s == nil {
		if len(p.sessions) >= p.opts.MaxSessions && !p.evict() {
			return nil, errBusy
		}
		s = &session{key: key}
		p.sessions[key] = s
	}
	s.uses++
	if s.idle != nil {
		s.idle.Stop()
		s.idle = nil
	}
	return s, nil
}

// evict makes room by ending a session that nobody uses. mu is held.
func (p *pool) evict() bool {
	for _, s := range p.sessions {
		if s.uses == 0 {
			p.remove(s)
			return true
		}
	}
	return false
}

// put gives a session back. One that was lost is ended when its last user is done.
func (p *pool) put(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.uses--
	switch {
	case s.uses > 0:
	case s.lost || p.closed:
		p.remove(s)
	default:
		s.idle = time.AfterFunc(p.opts.IdleTime, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if s.uses == 0 && !s.lost {
				p.remove(s)
			}
		})
	}
}

// lose takes a session out of the pool, because it is broken: the next who wants
// it gets another.
func (p *pool) lose(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.lost = true
	if p.sessions[s.key] == s {
		delete(p.sessions, s.key)
	}
}

// remove ends a session that nobody uses. mu is held.
func (p *pool) remove(s *session) {
	if p.sessions[s.key] == s {
		delete(p.sessions, s.key)
	}
	s.lost = true
	if s.idle != nil {
		s.idle.Stop()
		s.idle = nil
	}
	p.closing.Go(s.close)
}

func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.close()
		s.conn = nil
	}
}

// close ends all sessions, and waits for them. Calls that are running fail.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	for _, s := range p.sessions {
		if s.uses == 0 {
			p.remove(s)
			continue
		}
		p.closing.Go(s.hangUp)
	}
	p.mu.Unlock()
	p.closing.Wait()
}

// hangUp closes the connection under those who use it.
func (s *session) hangUp() {
	s.mu.Lock()
	conn := s.conn
	s.mu.Unlock()
	if conn != nil {
		conn.close()
	}
}

// connected returns the connection of a session, making it if there is none, or
// one that ended while nobody looked.
func (s *session) connected(ctx context.Context, connect func(context.Context) (*link, error)) (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil && s.conn.dead() {
		s.conn.close()
		s.conn, s.listed = nil, time.Time{}
	}
	if s.conn == nil {
		conn, err := connect(ctx)
		if err != nil {
			return nil, err
		}
		s.conn = conn
	}
	return s.conn, nil
}
