package engine

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/tool"
)

var (
	errOpenTime = errors.New("the tools could not be opened in time")
	errTooMany  = errors.New("too many tools are running; try again later")
	errNoObject = errors.New("the arguments are not a JSON object")
	errCutOff   = errors.New("it was not run: the model was cut off")
)

// graceTime is how long a call whose time is over may take to notice.
const graceTime = time.Second

// outcome is what came of a call.
type outcome struct {
	result *tool.Result
	err    error
	took   time.Duration
}

// runCalls runs the calls of the turn that are ours, some at once, and shows what
// came of them in the order in which they were made.
func (r *Run) runCalls(ctx context.Context) error {
	var calls []*slot
	for _, s := range r.hosting.order {
		if s.kind == slotHosted {
			calls = append(calls, s)
		}
	}
	return r.runAll(ctx, calls)
}

func (r *Run) runAll(ctx context.Context, calls []*slot) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait() // first: what runs ends with the context
	defer cancel()
	room := make(chan struct{}, r.hosting.limits.Parallel)
	outcomes := make([]chan outcome, len(calls))
	for i, s := range calls {
		outcomes[i] = make(chan outcome, 1)
		call := &tool.Call{
			Owner: r.info.Owner, ResponseID: r.info.ID, Name: s.tool.Name,
			Arguments: jsontext.Value(arguments(s.item)), MaxBytes: r.hosting.limits.OutputBytes,
		}
		running.Go(func() {
			select {
			case room <- struct{}{}:
				outcomes[i] <- r.watchOne(ctx, s.tool, call)
				<-room
			case <-ctx.Done():
			}
		})
	}
	for i, s := range calls {
		select {
		case o := <-outcomes[i]:
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := r.endCall(ctx, s, o); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func arguments(it responses.Item) string {
	if call, ok := it.(*responses.FunctionCall); ok && call.Arguments != "" {
		return call.Arguments
	}
	return "{}"
}

// watchOne runs a call before the eyes of the observer.
func (r *Run) watchOne(ctx context.Context, t *hostedTool, call *tool.Call) outcome {
	ctx = r.engine.tools.ToolStarted(ctx, &r.info, t.label, t.Name)
	o := r.runOne(ctx, t.set, call)
	r.engine.tools.ToolEnded(ctx, &r.info, &ToolEnd{Label: t.label, Name: t.Name, Outcome: o.label(), TooLarge: errors.Is(o.err, tool.ErrTooLarge), Duration: o.took})
	return o
}

// size is how many bytes it has for the model.
func (o *outcome) size() int {
	if o.err != nil {
		return len(told(o.err))
	}
	return o.result.Size()
}

func (o *outcome) label() ToolOutcome {
	switch {
	case errors.Is(o.err, errCallTime):
		return ToolTimeout
	case o.err != nil:
		return ToolFailed
	case o.result.IsError:
		return ToolError
	}
	return ToolOK
}

// errCallTime: the time of a call is over.
var errCallTime = errors.New("it took longer than")

// runOne runs a call within its time. A tool that does not return when its time is
// over is left behind: it still counts as running, of which there may be only so
// many.
func (r *Run) runOne(ctx context.Context, set *tool.Set, call *tool.Call) outcome {
	if !call.Arguments.IsValid() || call.Arguments.Kind() != '{' {
		return outcome{err: errNoObject}
	}
	select {
	case r.engine.executing <- struct{}{}:
	default:
		return outcome{err: errTooMany}
	}
	limit := r.hosting.limits.CallTime
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w %s", errCallTime, limit))
	defer cancel()
	began := time.Now()
	done := make(chan outcome, 1)
	go func() {
		defer func() { <-r.engine.executing }()
		res, err := safely(ctx, set, call)
		done <- outcome{res, err, time.Since(began)}
	}()
	select {
	case o := <-done:
		return o
	case <-ctx.Done():
	}
	grace := time.NewTimer(graceTime)
	defer grace.Stop()
	select {
	case o := <-done:
		if o.err != nil {
			o.err = context.Cause(ctx)
		}
		return o
	case <-grace.C:
		return outcome{err: context.Cause(ctx), took: time.Since(began)}
	}
}

// safely runs a call. A panic of a tool is its failure only.
func safely(ctx context.Context, set *tool.Set, call *tool.Call) (res *tool.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			res, err = nil, errors.New("the tool hit an internal error")
		}
	}()
	res, err = set.Run(ctx, call)
	switch {
	case err != nil && len(told(err)) > call.MaxBytes:
		return nil, tool.TooLarge(call.MaxBytes)
	case err != nil:
		return nil, err
	case res == nil:
		return tool.Text(""), nil
	case res.Size() > call.MaxBytes:
		return nil, tool.TooLarge(call.MaxBytes)
	}
	return res, nil
}

// endCall shows what came of a call.
func (r *Run) endCall(ctx context.Context, s *slot, o outcome) error {
	final := s.call(rawArguments(s.item), "")
	r.hosting.returned += o.size()
	if most := r.engine.opts.ContextBytes; r.hosting.returned > most {
		o = outcome{err: fmt.Errorf("the results of this response are larger than %d bytes together", most), took: o.took}
	}
	final.Output, final.Error, final.Content, final.Status = resultOf(o)
	s.result = final
	typ := responses.EventMCPCallCompleted
	if final.Status == responses.StatusFailed {
		typ = responses.EventMCPCallFailed
	}
	if err := r.emit(ctx, responses.Event{Type: typ, OutputIndex: s.index, ItemID: s.id}); err != nil {
		return err
	}
	return r.emit(ctx, responses.Event{Type: responses.EventItemDone, OutputIndex: s.index, Item: final})
}

// closeCalls ends the items of calls that are not run, because the model was cut
// off.
func (r *Run) closeCalls(ctx context.Context) error {
	for i, s := range r.hosting.order {
		if s.kind != slotHosted {
			continue
		}
		if i < len(r.hosting.order)-1 || responses.ItemStatus(s.item) != responses.StatusIncomplete {
			if err := r.endCall(ctx, s, outcome{err: errCutOff}); err != nil {
				return err
			}
			continue
		}
		it := s.call(rawArguments(s.item), responses.StatusIncomplete)
		if err := r.emit(ctx, responses.Event{Type: responses.EventItemDone, OutputIndex: s.index, Item: it}); err != nil {
			return err
		}
	}
	return nil
}
