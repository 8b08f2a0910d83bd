package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/upstream"
)

// A Run is one response being made.
type Run struct {
	info   RunInfo
	engine *Engine
	job    *Job
	memory *memory
	cancel context.CancelCauseFunc
	ready  chan struct{} // closed when head or end is known
	ahead  chan struct{} // closed when much was said before that
	done   chan struct{} // closed when the run has ended

	// Written before ready is closed, read after.
	head    Head
	refusal *responses.Error
	// Written before done is closed, read after.
	end RunEnd

	// The rest belongs to the run's goroutine.
	started time.Time
	shard   uint16
	resp    *responses.Response
	fold    responses.Fold
	ids     map[string]bool // ids of items that came before, and of this response
	renamed map[int]string  // output index → our id, for items whose id was taken
	base    int             // output index of the turn's first item
	hosting *hosting        // nil if calls are only passed on
	created bool            // the store has it, as a step
	// showsSealed: the client gets the sealed form of reasoning.
	showsSealed bool
	seq         int64
	accepted    bool
	early       int       // bytes of item events before that
	committed   time.Time // when the first item event was appended
	scratch     []byte
	entry       [1]store.Entry
}

// Head is what the upstream that accepted the run said before its answer.
type Head struct {
	// Upstream is the name of the upstream.
	Upstream string
	// Losses are what it will not honour.
	Losses []responses.Loss
}

func newRun(e *Engine, job *Job, m *memory) *Run {
	now := e.opts.Now()
	id := responses.NewID(responses.PrefixResponse, m.shard, now)
	resp := responses.NewResponse(job.Request, id, now)
	resp.Store, resp.Tools = m.keep, withoutSecrets(resp.Tools)
	if m.conversation != "" {
		resp.Conversation = &responses.ConversationRef{ID: m.conversation}
	}
	return &Run{
		info:    RunInfo{ID: id, Owner: job.Owner, Model: job.Request.Model, Stream: job.Request.WantsStream()},
		engine:  e,
		job:     job,
		memory:  m,
		ready:   make(chan struct{}),
		ahead:   make(chan struct{}),
		done:    make(chan struct{}),
		started: now,
		shard:   m.shard,
		resp:    resp,
		ids:     m.taken(),

		showsSealed: e.showsSealed(job.Request),
	}
}

// ID is the id of the response.
func (r *Run) ID() string { return r.info.ID }

// Ready is closed when an upstream has accepted the run, or when it has failed
// before: from then on a reader knows what to answer.
func (r *Run) Ready() <-chan struct{} { return r.ready }

// Ahead is closed when the run has said so much before Ready that it would wait for
// a reader: one that waits for Ready must begin to read.
func (r *Run) Ahead() <-chan struct{} { return r.ahead }

// Head returns what is known of the answer. It may be called once Ready is
// closed.
func (r *Run) Head() Head { return r.head }

// Refusal returns why the run failed before any upstream accepted it, nil if one
// did. It may be called once Ready is closed.
func (r *Run) Refusal() *responses.Error { return r.refusal }

// Done is closed when the run has ended and its terminal event is in the log.
func (r *Run) Done() <-chan struct{} { return r.done }

// End returns how the run ended. It may be called once Done is closed.
func (r *Run) End() RunEnd { return r.end }

// Cancel ends the run with the given cause, one of the errors of this package.
// It does not wait, and has no effect on a run that has ended.
func (r *Run) Cancel(cause error) { r.cancel(cause) }

// Forget drops the log of a foreground run that has ended.
func (r *Run) Forget() {
	_ = r.engine.log.Drop(context.Background(), r.info.Owner, r.info.ID) // best effort: the log is bounded in any case
}

// begin writes the events with which every response begins.
func (r *Run) begin(ctx context.Context) error {
	for _, typ := range []responses.EventType{responses.EventCreated, responses.EventInProgress} {
		if err := r.append(ctx, responses.Event{Type: typ, Response: r.resp}); err != nil {
			return err
		}
	}
	return nil
}

// execute runs the response to its end. It is the run's goroutine.
func (r *Run) execute(ctx context.Context) {
	defer r.engine.leave(r)
	defer r.cancel(nil)
	if t := r.engine.opts.TotalTime; t > 0 {
		stop := time.AfterFunc(t, func() { r.cancel(ErrTotalTime) })
		defer stop.Stop()
	}
	end, err := r.loop(ctx)
	if err == nil {
		err = r.render(ctx, end)
	}
	r.finish(ctx, end, err)
	r.engine.opts.Observer.RunEnded(&r.info, &r.end)
}

// turn runs one model call and appends its events. A panic in a driver is a
// failure of this run only.
func (r *Run) turn(ctx context.Context, t *upstream.Turn) (end *responses.TurnEnd, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	t.Owner, t.RunID, t.Header = r.info.Owner, r.info.ID, r.job.Header
	stream, err := r.job.Opener.Open(ctx, t)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	r.base = r.fold.Len()
	if !stream.Tentative {
		r.accept(stream)
	}
	take := r.item
	if r.hosting != nil {
		take = r.take
	}
	for ev, err := range stream.Events {
		if err != nil {
			return nil, err
		}
		r.accept(stream)
		if ev.Type == responses.EventTurnEnd {
			r.noteLosses(stream, t.Round)
			return ev.End, nil
		}
		if err := take(ctx, ev); err != nil {
			return nil, err
		}
	}
	return nil, responses.UpstreamErrorf(responses.CodeUpstream, "The upstream's answer ended without saying that it was done.")
}

// accept publishes what is known before the first event, for the first turn. What
// later ones will not honour is told at the end.
func (r *Run) accept(s *upstream.Stream) {
	if r.accepted {
		return
	}
	r.head = Head{Upstream: s.Upstream, Losses: append(s.Losses, r.ownLosses()...)}
	r.engine.opts.Observer.RunAccepted(&r.info, s.Upstream, r.head.Losses)
	r.accepted = true
	close(r.ready)
}

// noteLosses notes what the upstream of a later round will not honour.
func (r *Run) noteLosses(s *upstream.Stream, round int) {
	if round == 0 {
		return
	}
	for _, l := range s.Losses {
		if !slices.Contains(r.head.Losses, l) {
			r.hosting.lose(l.Param, l.Reason)
		}
	}
}

// ownLosses are what the gateway itself does not honour.
func (r *Run) ownLosses() []responses.Loss {
	if s := r.job.Request.Store; r.engine.opts.Store == nil && s != nil && *s {
		return []responses.Loss{{Param: "store", Reason: "this gateway keeps no responses"}}
	}
	return nil
}

// item appends an event of the turn with the run's numbers and ids.
func (r *Run) item(ctx context.Context, ev responses.Event) error {
	ev.OutputIndex += r.base
	return r.emit(ctx, ev)
}

// emit appends an event that has its place in the output.
func (r *Run) emit(ctx context.Context, ev responses.Event) error {
	r.keepIDsUnique(&ev)
	if r.committed.IsZero() {
		r.committed = r.engine.opts.Now()
		r.engine.opts.Observer.RunCommitted(&r.info, r.committed.Sub(r.started))
	}
	return r.append(ctx, ev)
}

// maxAhead is how much is said before an upstream has accepted, in bytes, while the
// reader still waits to hear whether one does: less than any log holds.
const maxAhead = 32 << 10

// noteAhead counts what is said before an upstream has accepted.
func (r *Run) noteAhead(size int) {
	if r.accepted || r.early > maxAhead {
		return
	}
	if r.early += size; r.early > maxAhead {
		close(r.ahead)
	}
}

// keepIDsUnique gives an item another id if its own stands for an earlier item
// of this response: some upstreams reuse ids from turn to turn.
func (r *Run) keepIDsUnique(ev *responses.Event) {
	if ev.Type == responses.EventItemAdded {
		id := ev.Item.ItemID()
		if r.ids[id] {
			if r.renamed == nil {
				r.renamed = map[int]string{}
			}
			id = responses.NewID(responses.ItemPrefix(ev.Item.Type()), r.shard, r.engine.opts.Now())
			r.renamed[ev.OutputIndex] = id
		}
		r.ids[id] = true
	}
	if id, ok := r.renamed[ev.OutputIndex]; ok {
		ev.ItemID = id
		if ev.Item != nil {
			ev.Item = responses.WithItemID(ev.Item, id)
		}
	}
}

// append numbers, encodes, logs and folds an event: the log has it as clients see
// it, the fold whole. It waits for the reader of a full window, but not for ever.
func (r *Run) append(ctx context.Context, ev responses.Event) error {
	ev.Seq = r.seq
	var err error
	if r.scratch, err = responses.AppendEvent(r.scratch[:0], r.asShown(&ev)); err != nil {
		return fmt.Errorf("encode %s: %w", ev.Type, err)
	}
	if ev.Type.ItemEvent() {
		r.noteAhead(len(r.scratch))
	}
	r.entry[0] = store.Entry{Seq: ev.Seq, Type: ev.Type, Data: r.scratch}
	if err := r.appendEntry(ctx); err != nil {
		return err
	}
	r.fold.Add(&ev)
	r.seq++
	if cap(r.scratch) > 16<<10 {
		r.scratch = nil // a rare large event must not cost an idle stream its memory
	}
	return nil
}

func (r *Run) appendEntry(ctx context.Context) error {
	cancelled, err := r.engine.log.Append(ctx, r.info.Owner, r.info.ID, 0, r.seq, r.entry[:])
	switch {
	case errors.Is(err, store.ErrStalled):
		return ErrSlowReader
	case err == nil && cancelled:
		return ErrCancelled
	}
	return err
}

// finish writes the run's one terminal event. The context may have ended; the
// last events are written all the same.
func (r *Run) finish(ctx context.Context, end *responses.TurnEnd, err error) {
	r.end = RunEnd{Duration: r.engine.opts.Now().Sub(r.started)}
	if !r.committed.IsZero() {
		r.end.FirstEvent = r.committed.Sub(r.started)
	}
	last := context.WithoutCancel(ctx)
	if err == nil {
		r.settle(end)
		err = r.persist(last, r.resp)
	}
	if err == nil {
		err = r.append(last, responses.Event{Type: terminalType(end.Status), Response: r.resp})
	}
	if err != nil {
		r.end.Cause, r.end.Err = failure(ctx, err)
		if c, ok := errors.AsType[*upstream.Costly](err); ok {
			r.end.Usage = c.Usage
		}
		r.fail(last, r.end.Err)
	}
	r.end.Events = r.seq
	if !r.accepted {
		r.refusal = r.end.Err
		close(r.ready)
	}
}

func terminalType(s responses.Status) responses.EventType {
	if s == responses.StatusIncomplete {
		return responses.EventIncomplete
	}
	return responses.EventCompleted
}

// settle fills in how the response ended.
func (r *Run) settle(end *responses.TurnEnd) {
	resp := *r.resp
	completed := r.engine.opts.Now().Unix()
	resp.Status, resp.CompletedAt, resp.Output = end.Status, &completed, r.fold.Output()
	r.end.Cause = CauseCompleted
	if end.Status == responses.StatusIncomplete {
		r.end.Cause = CauseIncomplete
		resp.CompletedAt = nil
		resp.IncompleteDetails = &responses.IncompleteDetails{Reason: end.Reason}
	}
	resp.Usage = end.Usage
	r.end.Usage, r.end.Losses, r.end.Stripped = end.Usage, end.Losses, end.Stripped
	if resp.ServiceTier == "auto" {
		resp.ServiceTier = "default"
	}
	adopt(&resp, end.Upstream)
	r.resp = &resp
}

// adopt takes over what an upstream with a response object of its own says about
// the answer and we do not know better.
func adopt(resp, up *responses.Response) {
	if up == nil {
		return
	}
	resp.Extra = up.Extra
	if up.ServiceTier != "" {
		resp.ServiceTier = up.ServiceTier
	}
	if up.Reasoning != nil {
		resp.Reasoning = up.Reasoning
	}
	if up.Temperature != 0 {
		resp.Temperature = up.Temperature
	}
	if up.TopP != 0 {
		resp.TopP = up.TopP
	}
}

// fail writes the error event and the failed response (R14). Failing to write
// them leaves nothing more to try.
func (r *Run) fail(ctx context.Context, e *responses.Error) {
	resp := *r.resp
	resp.Status, resp.Error, resp.CompletedAt, resp.Output = responses.StatusFailed, e.Body(), nil, r.fold.Output()
	resp.IncompleteDetails, resp.Usage = nil, r.end.Usage
	r.persistFailed(ctx, &resp)
	if r.append(ctx, responses.Event{Type: responses.EventError, Err: e.Body()}) != nil {
		return
	}
	_ = r.append(ctx, responses.Event{Type: responses.EventFailed, Response: &resp})
}
