package route

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// An Attempt is one try of a turn, or of a request that is relayed, for an
// [Observer]. When it starts, only Model, Upstream, Target and Number are known.
type Attempt struct {
	Model    string // as the client named it
	Upstream string
	Target   string        // as the upstream names the model
	Number   int           // from 0
	Began    bool          // the answer had begun when it ended
	Err      error         // nil if it ended well
	Duration time.Duration // to the first event, or to the failure before it
}

// An Observer is told of attempts, on the goroutine that makes them.
type Observer interface {
	// AttemptStarted returns the context in which the upstream is called.
	AttemptStarted(ctx context.Context, a *Attempt) context.Context
	// AttemptEnded gets the context that AttemptStarted returned.
	AttemptEnded(ctx context.Context, a *Attempt)
}

// watched is an attempt that an observer, if there is one, is told of.
type watched struct {
	r     *Router
	ctx   context.Context
	began time.Time
	a     Attempt
}

// watch begins an attempt. Its ctx is that of the upstream's call.
func (r *Router) watch(ctx context.Context, a Attempt) *watched {
	if r.observer != nil {
		ctx = r.observer.AttemptStarted(ctx, &a)
	}
	return &watched{r, ctx, r.now(), a}
}

// ended tells how the attempt went: that its answer began, or why not.
func (w *watched) ended(began bool, err error) {
	if w.r.observer == nil {
		return
	}
	w.a.Began, w.a.Err, w.a.Duration = began, err, w.r.now().Sub(w.began)
	w.r.observer.AttemptEnded(w.ctx, &w.a)
}

// attempts tries a turn on one target after another until one begins to answer.
// It belongs to the goroutine that ranges over the stream.
type attempts struct {
	r     *Router
	pool  *pool
	name  string // the model as the client named it
	star  string
	turn  upstream.Turn
	tries tries

	// The try that is under way.
	target  *target
	stream  *upstream.Stream
	verdict func(error)
	end     func()
	watch   *watched

	mu      sync.Mutex // guards what shut, perhaps on another goroutine, needs
	closed  bool
	release func()       // gives back the place of the try
	close   func() error // closes its stream
}

// errSkipped: the target was busy or was left alone, so nothing was tried.
var errSkipped = errors.New("route: target skipped")

// tries is the one loop over targets, for turns and for what is relayed.
type tries struct {
	budget *budget
	left   []candidate
	made   int
	last   error // why the last try failed
}

// next tries one target after another until one succeeds or fails in a way that no
// other would do better at. It fails with the last failure when none is left, and
// may be called again when what succeeded has failed after all.
func (t *tries) next(try func(c candidate) (again bool, err error)) error {
	for len(t.left) > 0 {
		c := t.left[0]
		t.left = t.left[1:]
		if t.made > 0 && !t.budget.spend() {
			break
		}
		again, err := try(c)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errSkipped):
			continue
		case !again:
			return err
		}
		t.last = err
	}
	if t.last == nil {
		t.last = responses.Errorf(responses.CodeOverloaded, "Every upstream of this model is busy; try again shortly.")
	}
	return t.last
}

// next opens the turn on the next target that accepts it.
func (a *attempts) next(ctx context.Context) error {
	return a.tries.next(func(c candidate) (bool, error) { return a.try(ctx, c) })
}

// try opens the turn on one target. again reports whether another may do better.
func (a *attempts) try(ctx context.Context, c candidate) (again bool, err error) {
	verdict, end, err := c.enter()
	if err != nil {
		return true, errSkipped
	}
	var once sync.Once
	a.target, a.end = c.target, end
	a.verdict = func(err error) { once.Do(func() { verdict(err) }) }
	req := *a.turn.Request
	req.Model = c.modelFor(a.name, a.star)
	turn := a.turn
	turn.Request, turn.Attempt = &req, a.tries.made
	a.watch = a.r.watch(ctx, Attempt{Model: a.name, Upstream: c.Upstream, Target: req.Model, Number: a.tries.made})
	a.tries.made++
	s, err := c.driver.Open(a.watch.ctx, &turn)
	if err != nil {
		return a.failed(ctx, err), a.target.public(err)
	}
	a.stream = s
	return false, a.hold(s)
}

// hold makes the try that was opened the one that shut closes.
func (a *attempts) hold(s *upstream.Stream) error {
	verdict, end := a.verdict, a.end
	a.mu.Lock()
	defer a.mu.Unlock()
	a.close = s.Close
	a.release = func() {
		verdict(errNoVerdict) // no effect if there was one
		end()
	}
	if a.closed { // the turn was given up while it was being opened
		a.release()
		return errors.Join(context.Canceled, s.Close())
	}
	return nil
}

// failed notes that the try failed before its answer began, and reports whether
// another target may do better.
func (a *attempts) failed(ctx context.Context, err error) (again bool) {
	again, outcome := a.target.blame(err)
	if ctx.Err() != nil {
		again, outcome = false, errNoVerdict // it was given up
	}
	a.verdict(outcome)
	a.end()
	a.watch.ended(false, err)
	return again
}

// events yields the events of the first try whose answer begins. A failure before
// the first event moves on to the next target; s then tells of that one.
func (a *attempts) events(ctx context.Context, s *upstream.Stream) iter.Seq2[responses.Event, error] {
	return func(yield func(responses.Event, error) bool) {
		for {
			began, again := a.relay(ctx, yield)
			if began || !again {
				return
			}
			if err := a.next(ctx); err != nil {
				yield(responses.Event{}, err)
				return
			}
			a.describe(s)
		}
	}
}

// relay yields the events of the current try. It returns again if the try failed
// before it began and another target may be tried.
func (a *attempts) relay(ctx context.Context, yield func(responses.Event, error) bool) (began, again bool) {
	defer a.end() // after the stream was closed: until then the target has it
	defer func() { _ = a.stream.Close() }()
	for ev, err := range a.stream.Events {
		switch {
		case err != nil && !began:
			if again = a.failed(ctx, err) && len(a.tries.left) > 0; !again {
				yield(ev, a.target.public(err))
			}
			a.tries.last = a.target.public(err)
			return false, again
		case err != nil:
			if _, outcome := a.target.blame(err); outcome != errNoVerdict && ctx.Err() == nil {
				a.target.ended(err)
			}
			yield(ev, a.target.public(err))
			return true, false
		case !began:
			began = true
			a.verdict(nil)
			a.watch.ended(true, nil)
		}
		if ev.Type == responses.EventTurnEnd {
			a.target.ended(nil)
		}
		if !yield(ev, nil) {
			break
		}
	}
	return true, false
}

// describe puts into s what is known of the try.
func (a *attempts) describe(s *upstream.Stream) {
	s.Upstream, s.Losses, s.Header = a.target.Upstream, a.stream.Losses, a.stream.Header
}

// shut closes the stream of the try that is under way, and of any that follows.
func (a *attempts) shut() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.release() // also for a stream that nobody ranged over
	return a.close()
}

// budget bounds retries to a share of the requests, so that failing over does not
// double the load on upstreams that are already in trouble.
type budget struct {
	mu     sync.Mutex
	tokens float64
}

const (
	budgetMax   = 100 // retries that may come at once
	budgetShare = 0.2 // retries per request in the long run
)

func (b *budget) earn() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens = min(b.tokens+budgetShare, budgetMax)
}

func (b *budget) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
