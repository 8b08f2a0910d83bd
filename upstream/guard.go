package upstream

import (
	"context"
	"errors"
	"iter"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
)

// Limits bound a turn. Zero means the default, negative means no bound.
type Limits struct {
	// FirstEvent is how long the upstream may take to its first event, from the
	// moment the turn is opened. Default 120 s.
	FirstEvent time.Duration
	// Idle is how long it may be silent between two events. Default 300 s.
	Idle time.Duration
	// Bytes is how much text one turn may produce. Default 64 MiB.
	Bytes int
}

func (l Limits) withDefaults() Limits {
	if l.FirstEvent == 0 {
		l.FirstEvent = 120 * time.Second
	}
	if l.Idle == 0 {
		l.Idle = 300 * time.Second
	}
	if l.Bytes == 0 {
		l.Bytes = 64 << 20
	}
	return l
}

// The causes with which the guard ends a turn that is too slow.
var (
	ErrFirstEvent = responses.UpstreamErrorf(responses.CodeTimeout, "The upstream did not begin to answer in time.")
	ErrIdle       = responses.UpstreamErrorf(responses.CodeTimeout, "The upstream stopped sending in the middle of its answer.")
)

// ErrGrammar is the cause of the error of a turn whose upstream broke its own
// protocol: events out of order or in contradiction, or frames that are none.
var ErrGrammar = errors.New("upstream: it broke its protocol")

// Guard returns a driver that holds d to the contract: time to the first event,
// silence between events, size, grammar, and that a stream does not just stop.
// Nothing that a driver or its upstream does can get past it as a success.
func Guard(d Driver, limits Limits) Driver { return &guard{d, limits.withDefaults()} }

type guard struct {
	Driver
	limits Limits
}

// Open implements [Driver].
func (g *guard) Open(ctx context.Context, t *Turn) (*Stream, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := newWatch(g.limits, cancel)
	s, err := g.Driver.Open(ctx, t)
	if err != nil {
		w.stop()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		cancel(nil)
		return nil, err
	}
	closeStream := sync.OnceValue(func() error {
		w.stop()
		cancel(nil)
		return s.Close()
	})
	guarded := *s
	guarded.Events, guarded.Close = g.check(ctx, s.Events, w), closeStream
	return &guarded, nil
}

// Models implements [ModelLister].
func (g *guard) Models(ctx context.Context) ([]Model, error) { return listModels(ctx, g.Driver) }

// check yields events as long as they are legal, timely and not too many.
func (g *guard) check(ctx context.Context, events iter.Seq2[responses.Event, error], w *watch) iter.Seq2[responses.Event, error] {
	return func(yield func(responses.Event, error) bool) {
		grammar := responses.NewTurnGrammar()
		size := 0
		for ev, err := range events {
			w.handOver()
			if err == nil {
				size += len(ev.Text) + len(ev.Raw)
				err = g.legal(grammar, &ev, size)
			} else if ctx.Err() != nil {
				err = context.Cause(ctx) // say why, not how the read failed
			}
			if !yield(ev, err) || err != nil || grammar.Ended() {
				return
			}
			w.resume()
		}
		err := context.Cause(ctx)
		if err == nil {
			err = responses.UpstreamErrorf(responses.CodeUpstream, "The upstream's answer ended without saying that it was done.")
		}
		yield(responses.Event{}, err)
	}
}

func (g *guard) legal(grammar *responses.Grammar, ev *responses.Event, size int) error {
	if g.limits.Bytes > 0 && size > g.limits.Bytes {
		return responses.UpstreamErrorf(responses.CodeUpstream, "The upstream's answer is larger than %d bytes.", g.limits.Bytes)
	}
	if err := grammar.Check(ev); err != nil {
		return responses.UpstreamErrorf(responses.CodeUpstream, "The upstream's events are out of order: %s: %s.", ev.Type, err).WithCause(ErrGrammar)
	}
	return nil
}

// watch cancels a turn whose upstream is silent for too long. An event only
// notes the time; the timer looks at the note when it fires, because resetting a
// timer for every token would cost more than the token.
type watch struct {
	start  time.Time
	idle   time.Duration
	cancel context.CancelCauseFunc
	timer  *time.Timer

	begun  atomic.Bool  // the reader has seen the first event
	asked  atomic.Int64 // when it asked for the next one, from start
	taking atomic.Bool  // the reader has the event: the upstream is not to blame
}

func newWatch(l Limits, cancel context.CancelCauseFunc) *watch {
	w := &watch{start: time.Now(), idle: l.Idle, cancel: cancel}
	// Armed only once the field is set, because expire reads it.
	w.timer = time.AfterFunc(math.MaxInt64, w.expire)
	w.arm(l.FirstEvent)
	return w
}

// arm lets the timer fire after d, or never if there is no bound.
func (w *watch) arm(d time.Duration) {
	if d < 0 {
		w.timer.Stop()
		return
	}
	w.timer.Reset(d)
}

// handOver notes that an event came and goes to the reader.
func (w *watch) handOver() { w.taking.Store(true) }

// resume notes that the reader wants the next event.
func (w *watch) resume() {
	w.asked.Store(int64(time.Since(w.start)))
	w.taking.Store(false)
	if !w.begun.Load() {
		w.begun.Store(true)
		w.arm(w.idle)
	}
}

// restart begins the time to the first event anew, if there was none.
func (w *watch) restart(first time.Duration) {
	if !w.begun.Load() {
		w.arm(first)
	}
}

func (w *watch) stop() { w.timer.Stop() }

// expire runs when the timer fires.
func (w *watch) expire() {
	switch begun := w.begun.Load(); {
	case w.taking.Load() && begun:
		w.arm(w.idle)
	case w.taking.Load():
		// The first event came in time; resume will arm the timer.
	case !begun:
		w.cancel(ErrFirstEvent)
	default:
		silent := time.Since(w.start) - time.Duration(w.asked.Load())
		if silent < w.idle {
			w.arm(w.idle - silent)
			return
		}
		w.cancel(ErrIdle)
	}
}
