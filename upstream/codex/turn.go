package codex

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/antiphon-dev/antiphon/internal/stdiorpc"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// deleteTime is how long a process may take to delete a thread. One that takes
// longer is replaced.
const deleteTime = 10 * time.Second

// A turn is one model call: a thread that is begun, given the past, run, and
// deleted.
type turn struct {
	d      *driver
	ctx    context.Context
	cancel context.CancelCauseFunc
	enc    *encoded
	dec    *decoder
	losses []responses.Loss
	once   sync.Once // release

	// Known as far as the turn has got.
	placed bool
	seat   *seat
	worker *worker
	thread string
	mail   *mailbox
	unhook func() bool // from the driver's end

	pending []responses.Event // to be yielded
	err     error             // to be yielded after them
}

func newTurn(d *driver, ctx context.Context, t *upstream.Turn, enc *encoded) *turn {
	shard, _ := responses.Shard(t.RunID)
	dec := newDecoder(responses.NewComposer(shard, time.Now), enc.box)
	dec.degrade = d.opts.Degrade
	run := &turn{d: d, enc: enc, dec: dec, losses: enc.losses}
	run.ctx, run.cancel = context.WithCancelCause(ctx)
	run.unhook = context.AfterFunc(d.closing, func() { run.cancel(upstream.ErrClosed) })
	return run
}

// open runs the turn up to its first event.
func (t *turn) open() error {
	if err := t.begin(); err != nil {
		if t.ctx.Err() != nil {
			return context.Cause(t.ctx)
		}
		return err
	}
	// From here on whoever ends the context ends the model call.
	context.AfterFunc(t.ctx, t.release)
	t.fill()
	if len(t.pending) == 0 && t.err != nil {
		return t.err
	}
	return nil
}

// begin finds a process, and has it begin the turn.
func (t *turn) begin() (err error) {
	if err := t.d.acquire(t.ctx); err != nil {
		return err
	}
	t.placed = true
	t.seat = t.d.seat()
	t.seat.turns.Add(1)
	if t.worker, err = t.seat.worker(t.ctx); err != nil {
		return err
	}
	t.verbosity()
	if err := t.startThread(); err != nil {
		return unsent(err)
	}
	t.mail = t.worker.subscribe(t.thread)
	conn := t.worker.conn
	if err := conn.Call(t.ctx, methodInject, &inject{t.thread, t.enc.items}, nil); err != nil {
		return unsent(err)
	}
	start := t.enc.turn
	start.ThreadID = t.thread
	if err := conn.Call(t.ctx, methodTurnStart, &start, nil); err != nil {
		return failed(err)
	}
	return nil
}

// verbosity reports a wish that Codex passes on only for models that it knows.
func (t *turn) verbosity() {
	if t.enc.start.Config != nil && !t.worker.catalog.chatty[t.enc.start.Model] {
		t.losses = append(t.losses, responses.Loss{Param: "text.verbosity", Reason: "The Codex app-server does not tell this model how much to say."})
	}
}

// startThread begins a thread. A caller who leaves meanwhile would leave it
// behind, so the answer is waited for without them.
func (t *turn) startThread() error {
	var started threadStarted
	err := t.worker.conn.Call(context.WithoutCancel(t.ctx), methodThreadStart, &t.enc.start, &started)
	t.thread = started.Thread.ID
	return err
}

// unsent is the failure of a call before the model was called.
func unsent(err error) error {
	var refused *stdiorpc.Error
	if errors.As(err, &refused) {
		return failed(err)
	}
	return responses.UpstreamErrorf(responses.CodeUpstream, "The Codex process ended before the turn began.").WithCause(upstream.Unsent(err))
}

// failed is the failure of a call. What the app-server refuses it has not run.
func failed(err error) error {
	var refused *stdiorpc.Error
	if errors.As(err, &refused) {
		return responses.UpstreamErrorf(responses.CodeInvalidRequest, "The Codex app-server refused the request: %s", publicMessage(refused.Message)).
			WithCause(upstream.Refused(http.StatusBadRequest))
	}
	return lostProcess(err)
}

// fill waits until there is something to yield.
func (t *turn) fill() {
	for len(t.pending) == 0 && t.err == nil && !t.dec.Ended() {
		mail, err := t.mail.take(t.ctx)
		if err != nil {
			t.err = err
			return
		}
		for _, l := range mail {
			err := t.dec.Push(l.method, l.note)
			t.pending = append(t.pending, t.dec.out.Take()...)
			if err != nil {
				t.err = err
				return
			}
		}
	}
}

// events yields the events of the turn.
func (t *turn) events(yield func(responses.Event, error) bool) {
	for {
		if t.ctx.Err() != nil {
			yield(responses.Event{}, context.Cause(t.ctx))
			return
		}
		pending := t.pending
		t.pending = nil
		for _, ev := range pending {
			if !yield(ev, nil) {
				return
			}
		}
		switch {
		case t.err != nil:
			yield(responses.Event{}, t.err)
			return
		case t.dec.Ended():
			return
		}
		t.fill()
	}
}

// errShut is the cause of a turn that its reader has closed.
var errShut = errors.New("the stream is closed")

// shut implements Close of the stream.
func (t *turn) shut() error {
	t.cancel(errShut)
	t.release()
	return nil
}

// release gives back what the turn holds, as far as it has got.
func (t *turn) release() {
	t.once.Do(func() {
		t.unhook()
		t.cancel(errShut)
		if t.thread == "" || !t.d.spawn(t.deleteThread) {
			t.leave() // a driver that is closed ends its processes, with all threads
		}
	})
}

// deleteThread deletes the thread, which ends a model call that is still under way.
func (t *turn) deleteThread() {
	defer t.leave()
	t.worker.unsubscribe(t.thread)
	ctx, cancel := context.WithTimeoutCause(t.d.closing, deleteTime, errors.New("it did not delete a thread in time"))
	defer cancel()
	err := t.worker.conn.Call(ctx, methodDelete, &deleteThread{t.thread}, nil)
	if err != nil && ctx.Err() != nil && t.d.closing.Err() == nil {
		// Codex sometimes loses its way between a turn that ends by itself and one
		// that is ended. Its other turns are well; the thread ends with the process.
		t.worker.retire("a thread that could not be deleted", 0)
	}
}

func (t *turn) leave() {
	if t.worker != nil {
		t.worker.leave()
	}
	if t.seat != nil {
		t.seat.turns.Add(-1)
	}
	if t.placed {
		<-t.d.places
	}
}
