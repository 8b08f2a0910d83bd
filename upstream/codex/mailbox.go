package codex

import (
	"context"
	"sync"

	"github.com/antiphon-dev/antiphon/responses"
)

// maxMail bounds, in bytes, what waits for the reader of one turn. The pipe of the
// process is shared, so a slow reader cannot hold the others.
const maxMail = 16 << 20

// errSlow ends a turn whose reader falls too far behind.
var errSlow = responses.Errorf(responses.CodeServer, "The answer came faster than it was read.")

// A letter is a notification for a turn.
type letter struct {
	method string
	note   *note
	size   int
}

// A mailbox holds the notifications about one thread until its turn reads them.
type mailbox struct {
	ready chan struct{} // of capacity 1: there may be something new

	mu    sync.Mutex // guards what follows
	mail  []letter
	bytes int
	err   error // why there will be no more
}

func newMailbox() *mailbox { return &mailbox{ready: make(chan struct{}, 1)} }

// put adds a letter. It does not block.
func (m *mailbox) put(l letter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.err != nil:
		return
	case m.bytes+l.size > maxMail:
		m.err = errSlow
	default:
		m.mail = append(m.mail, l)
		m.bytes += l.size
	}
	m.wake()
}

// fail says that there will be no more. What is there can still be taken.
func (m *mailbox) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.err = err
	}
	m.wake()
}

func (m *mailbox) wake() {
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// take returns what has come, in order, and waits if nothing has. It fails with the
// cause of ctx, or with why there will be no more.
func (m *mailbox) take(ctx context.Context) ([]letter, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		m.mu.Lock()
		mail, err := m.mail, m.err
		m.mail, m.bytes = nil, 0
		m.mu.Unlock()
		if len(mail) > 0 {
			return mail, nil
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-m.ready:
		case <-ctx.Done():
		}
	}
}
