package engine

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"sync"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/upstream"
)

// An Opener opens the turns of runs: the router, which finds an upstream for the
// turn's model. It is the driver contract without the end of life; it names the
// upstream that answered in the stream, and returns once no other one will be
// tried.
type Opener interface {
	Open(ctx context.Context, t *upstream.Turn) (*upstream.Stream, error)
}

// Options configures [New]. The zero value is usable.
type Options struct {
	// TotalTime bounds a run. Zero means 1 h, negative means no bound.
	TotalTime time.Duration
	// Store remembers responses. Nil means that nothing is remembered: what needs
	// it is refused by name.
	Store store.Store
	// Retention is how long Store keeps responses. Zero means
	// [store.DefaultRetention].
	Retention time.Duration
	// ContextDepth is over how many records a context may be spread before it is
	// gathered in one. Zero means 1,000.
	ContextDepth int
	// ContextBytes bounds what a request may go on from. Zero means 64 MiB.
	ContextBytes int
	// Observer is told what runs do. Nil means nobody.
	Observer Observer
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

// An Engine runs responses. It is safe for concurrent use.
type Engine struct {
	log   store.Log
	opts  Options
	tools ToolObserver

	mu      sync.Mutex
	running map[*Run]struct{} // guarded by mu
	stopped bool              // guarded by mu
	idle    sync.WaitGroup    // one for each run

	executing chan struct{} // holds one for each call of a tool that runs
}

// New returns an engine that writes to log. It does no I/O and starts nothing.
func New(log store.Log, opts *Options) *Engine {
	e := &Engine{log: log, running: map[*Run]struct{}{}, executing: make(chan struct{}, maxExecuting)}
	if opts != nil {
		e.opts = *opts
	}
	if e.opts.TotalTime == 0 {
		e.opts.TotalTime = time.Hour
	}
	e.opts.Retention = cmp.Or(e.opts.Retention, store.DefaultRetention)
	e.opts.ContextDepth = cmp.Or(e.opts.ContextDepth, 1000)
	e.opts.ContextBytes = cmp.Or(e.opts.ContextBytes, 64<<20)
	if e.opts.Observer == nil {
		e.opts.Observer = NopObserver{}
	}
	if e.tools, _ = e.opts.Observer.(ToolObserver); e.tools == nil {
		e.tools = nobody{}
	}
	if e.opts.Now == nil {
		e.opts.Now = time.Now
	}
	return e
}

// A Job is what to run.
type Job struct {
	Owner   string
	Request *responses.Request
	// Header holds the client's headers that may be forwarded.
	Header http.Header
	// Opener opens the turns.
	Opener Opener
	// Output is how the response says that tools are to be called.
	Output OutputMode
	// Tools is what the gateway runs itself. Nil means nothing.
	Tools *Toolkit
}

// Start begins a run. When it returns without an error the response exists: its
// log has its first events. ctx bounds only Start itself; the run ends on its
// own terms. The caller of a foreground run cancels it when its client leaves,
// and calls [Run.Forget] when nobody reads it any more.
func (e *Engine) Start(ctx context.Context, job *Job) (*Run, error) {
	req, err := withoutRendered(job.Request)
	if err != nil {
		return nil, err
	}
	m, err := e.recall(ctx, job.Owner, req)
	if err != nil {
		return nil, err
	}
	r := newRun(e, job, m)
	runCtx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	r.cancel = cancel
	if !e.enter(r) {
		cancel(nil)
		return nil, ErrDrain
	}
	e.opts.Observer.RunStarted(&r.info)
	if err := r.begin(ctx); err != nil {
		cancel(nil)
		e.leave(r)
		return nil, err
	}
	go r.execute(runCtx)
	return r, nil
}

// Follow yields the entries of a response; see [store.Log].
func (e *Engine) Follow(ctx context.Context, owner, id string, after int64) iter.Seq2[[]store.Entry, error] {
	return e.log.Follow(ctx, owner, id, after)
}

// Running is how many runs there are.
func (e *Engine) Running() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.running)
}

func (e *Engine) enter(r *Run) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return false
	}
	e.running[r] = struct{}{}
	e.idle.Add(1)
	return true
}

func (e *Engine) leave(r *Run) {
	e.mu.Lock()
	delete(e.running, r)
	e.mu.Unlock()
	close(r.done)
	e.idle.Done()
}

// Stop refuses new runs and waits for those that are running. When ctx ends it
// cancels them and waits for their last event. It is idempotent.
func (e *Engine) Stop(ctx context.Context) error {
	e.mu.Lock()
	e.stopped = true
	e.mu.Unlock()
	finished := make(chan struct{})
	go func() {
		e.idle.Wait()
		close(finished)
	}()
	select {
	case <-finished:
		return nil
	case <-ctx.Done():
	}
	e.mu.Lock()
	for r := range e.running {
		r.Cancel(ErrDrain)
	}
	e.mu.Unlock()
	<-finished
	return ctx.Err()
}
