// Package memstore keeps what the gateway keeps in process memory: bounded, and
// gone at restart.
//
// [Window] is the log of foreground responses. Such a response has one reader,
// the client that waits for it, so its log is a window that slides: what the
// reader took is forgotten, and a writer that is a full window ahead waits. That
// is how a slow client slows its upstream down instead of filling memory.
package memstore

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// WindowOptions configures [NewWindow]. The zero value is usable.
type WindowOptions struct {
	// Bytes is the size of a response's window. Zero means 256 KiB. A single
	// entry may be larger: it then has the window to itself. The first and the last
	// entries, which repeat the request, are taken in however large they are.
	Bytes int
	// Stall is how long a writer waits for room. Zero means 30 s.
	Stall time.Duration
	// Heartbeat is how long a reader waits for an entry before it gets an empty
	// batch. Zero means 15 s.
	Heartbeat time.Duration
}

const (
	// smallBuffer is what a stream may hold while it is idle.
	smallBuffer = 2 << 10
	// patience is how many batches in a row may leave most of a large buffer
	// unused before it is let go: a busy stream should not make it anew each time.
	patience = 16
)

// A Window is a [store.Log] in memory for responses with one reader.
type Window struct {
	bytes     int
	stall     time.Duration
	heartbeat time.Duration

	stalls atomic.Int64

	mu   sync.RWMutex
	logs map[key]*windowLog // guarded by mu
}

type key struct{ owner, id string }

var _ store.Log = (*Window)(nil)

// NewWindow returns an empty log. It does no I/O.
func NewWindow(opts *WindowOptions) *Window {
	var o WindowOptions
	if opts != nil {
		o = *opts
	}
	return &Window{
		bytes:     cmp.Or(o.Bytes, 256<<10),
		stall:     cmp.Or(o.Stall, 30*time.Second),
		heartbeat: cmp.Or(o.Heartbeat, 15*time.Second),
		logs:      map[key]*windowLog{},
	}
}

// windowLog is the window of one response. The writer fills the pending batch;
// the reader swaps it for the one it has finished with.
type windowLog struct {
	more chan struct{} // cap 1: pending is not empty
	room chan struct{} // cap 1: the reader took something

	mu      sync.Mutex
	epoch   int64
	next    int64 // sequence number of the next entry
	taken   int64 // sequence number of the first entry that is still here
	pending batch
	reading int // bytes in the reader's hands
	ended   bool
}

// batch is a run of entries whose data lies in one buffer.
type batch struct {
	entries []store.Entry
	buf     []byte
	roomy   int // how often in a row most of buf was not needed
}

// add copies e into the batch. Data of earlier entries stays valid if buf moves:
// they keep the old array.
func (b *batch) add(e store.Entry) {
	start := len(b.buf)
	b.buf = append(b.buf, e.Data...)
	e.Data = b.buf[start:len(b.buf):len(b.buf)]
	b.entries = append(b.entries, e)
}

// reset empties the batch and keeps its buffers, unless they have been too large
// for some time.
func (b *batch) reset() {
	if cap(b.buf) <= smallBuffer || len(b.buf) >= cap(b.buf)/4 {
		b.roomy = 0
	} else if b.roomy++; b.roomy == patience {
		*b = batch{}
		return
	}
	clear(b.entries)
	b.entries, b.buf = b.entries[:0], b.buf[:0]
}

// shrink lets go of a large buffer of an empty batch.
func (b *batch) shrink() {
	if cap(b.buf) > smallBuffer && len(b.entries) == 0 {
		*b = batch{}
	}
}

func (w *Window) find(owner, id string) *windowLog {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.logs[key{owner, id}]
}

// Len is how many logs there are.
func (w *Window) Len() int {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return len(w.logs)
}

// Stalls is how often a writer had to wait for its reader.
func (w *Window) Stalls() int64 { return w.stalls.Load() }

// Append implements [store.Log].
func (w *Window) Append(ctx context.Context, owner, id string, epoch, first int64, entries []store.Entry) (bool, error) {
	l := w.find(owner, id)
	if l == nil {
		if first != 0 {
			return false, store.ErrNotFound
		}
		l = &windowLog{more: make(chan struct{}, 1), room: make(chan struct{}, 1), epoch: epoch}
		w.mu.Lock()
		w.logs[key{owner, id}] = l
		w.mu.Unlock()
	}
	for i, e := range entries {
		if e.Seq != first+int64(i) {
			return false, fmt.Errorf("%w: entry %d is numbered %d", store.ErrGap, first+int64(i), e.Seq)
		}
		if err := l.append(ctx, epoch, e, w); err != nil {
			return false, err
		}
	}
	return false, nil
}

// append adds one entry when there is room.
func (l *windowLog) append(ctx context.Context, epoch int64, e store.Entry, w *Window) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !waitsForNobody(e.Type) && !l.fits(e, w.bytes) {
		if err := l.wait(ctx, e, w); err != nil {
			return err
		}
	}
	switch {
	case epoch < l.epoch:
		return store.ErrFenced
	case e.Seq != l.next || l.ended:
		return fmt.Errorf("%w: entry %d comes after %d", store.ErrGap, e.Seq, l.next-1)
	}
	l.epoch, l.next, l.ended = epoch, l.next+1, e.Type.Terminal()
	l.pending.add(e)
	signal(l.more)
	return nil
}

// waitsForNobody reports whether an entry is taken in whatever the window holds: the
// first ones, because the reader comes only when an upstream has accepted the
// response, and the last ones, because the writer has nothing to do but to leave.
// They repeat the request, so they are bounded as it is.
func waitsForNobody(t responses.EventType) bool {
	switch t {
	case responses.EventCreated, responses.EventQueued, responses.EventInProgress, responses.EventError:
		return true
	}
	return t.Terminal()
}

// fits reports whether e has room: an empty window takes an entry of any size.
func (l *windowLog) fits(e store.Entry, window int) bool {
	held := len(l.pending.buf) + l.reading
	return held == 0 || held+len(e.Data) <= window
}

// wait waits for room, without holding the lock meanwhile.
func (l *windowLog) wait(ctx context.Context, e store.Entry, w *Window) error {
	w.stalls.Add(1)
	stall := time.NewTimer(w.stall)
	defer stall.Stop()
	for !l.fits(e, w.bytes) {
		l.mu.Unlock()
		var err error
		select {
		case <-l.room:
		case <-stall.C:
			err = store.ErrStalled
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		l.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Follow implements [store.Log]. A response has one reader: what it took is not
// there for another, which gets ErrPurged.
func (w *Window) Follow(ctx context.Context, owner, id string, after int64) iter.Seq2[[]store.Entry, error] {
	return func(yield func([]store.Entry, error) bool) {
		l := w.find(owner, id)
		if l == nil {
			yield(nil, store.ErrNotFound)
			return
		}
		if err := l.seek(after); err != nil {
			yield(nil, err)
			return
		}
		heartbeat := time.NewTimer(w.heartbeat)
		defer heartbeat.Stop()
		var b batch
		for {
			l.release(&b)
			heartbeat.Reset(w.heartbeat)
			select {
			case <-l.more:
				if l.take(&b); len(b.entries) == 0 {
					continue
				}
			case <-heartbeat.C:
				l.idle(&b) // and yield an empty batch
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			}
			if !yield(b.entries, nil) || len(b.entries) > 0 && b.entries[len(b.entries)-1].Type.Terminal() {
				return
			}
		}
	}
}

// seek prepares reading from the entry after after.
func (l *windowLog) seek(after int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if after+1 != l.taken {
		return store.ErrPurged
	}
	return nil
}

// take swaps the reader's empty batch for what is pending.
func (l *windowLog) take(b *batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending, *b = *b, l.pending
	l.reading = len(b.buf)
	l.taken += int64(len(b.entries))
}

// idle lets go of large buffers: nothing has come for a while.
func (l *windowLog) idle(b *batch) {
	b.shrink()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending.shrink()
}

// release makes room for what the reader has finished with.
func (l *windowLog) release(b *batch) {
	b.reset()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reading = 0
	signal(l.room)
}

// Drop implements [store.Log].
func (w *Window) Drop(_ context.Context, owner, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.logs, key{owner, id})
	return nil
}
