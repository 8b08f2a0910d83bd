package engine

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/tool"
)

// A Toolkit is what the gateway can run itself. Nil means nothing.
type Toolkit struct {
	// Executors run tools. The first that knows an entry of a request's tools gets
	// it.
	Executors []tool.Executor
	Limits    ToolLimits
}

// ToolLimits bound what runs may do with tools. Zero means the default.
type ToolLimits struct {
	// Rounds is how many times the model is called for one response. Default 64.
	Rounds int
	// Calls is how many calls are run for one response; max_tool_calls of a request
	// can only lower it. Default 256.
	Calls int
	// Time is how long after its begin a response may start another round. Default
	// 30 min.
	Time time.Duration
	// Tokens is how many tokens a response may have cost to start another round.
	// Default: any number.
	Tokens int64
	// Parallel is how many calls of one response run at once. Default 8.
	Parallel int
	// CallTime bounds one call. Default 60 s.
	CallTime time.Duration
	// OpenTime bounds the opening of a request's tools, such as asking a server which
	// it has. Default 30 s.
	OpenTime time.Duration
	// OutputBytes bounds the result of one call. Default 1 MiB.
	OutputBytes int
}

func (l ToolLimits) withDefaults() ToolLimits {
	l.Rounds = cmp.Or(l.Rounds, 64)
	l.Calls = cmp.Or(l.Calls, 256)
	l.Time = cmp.Or(l.Time, 30*time.Minute)
	l.Parallel = cmp.Or(l.Parallel, 8)
	l.CallTime = cmp.Or(l.CallTime, time.Minute)
	l.OpenTime = cmp.Or(l.OpenTime, 30*time.Second)
	l.OutputBytes = cmp.Or(l.OutputBytes, 1<<20)
	return l
}

// maxExecuting bounds the calls that an engine runs at once, also those that were
// given up and have not returned.
const maxExecuting = 1024

// maxHosted bounds the entries of a request's tools that are ours: each may be a
// server to be asked.
const maxHosted = 128

// executor returns who runs an entry of a request's tools, nil if it is not ours.
func (k *Toolkit) executor(t responses.Tool) tool.Executor {
	if k == nil {
		return nil
	}
	for _, e := range k.Executors {
		if e.Runs(t) {
			return e
		}
	}
	return nil
}

// Runs reports whether one of the tools is run by the gateway.
func (k *Toolkit) Runs(tools []responses.Tool) bool {
	for _, t := range tools {
		if k.executor(t) != nil {
			return true
		}
	}
	return false
}

// Close closes the executors.
func (k *Toolkit) Close() error {
	if k == nil {
		return nil
	}
	var errs []error
	for _, e := range k.Executors {
		errs = append(errs, e.Close())
	}
	return errors.Join(errs...)
}

// An opened entry of a request's tools.
type opened struct {
	at    int    // its place in the tools
	typ   string // its type
	label string
	set   *tool.Set // nil if it could not be opened
	err   error
}

// open opens the entries that are ours, some at once. An error that the client
// caused refuses the request; any other leaves the entry without tools.
func (k *Toolkit) open(ctx context.Context, owner string, tools []responses.Tool, limits ToolLimits) ([]*opened, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limits.OpenTime, errOpenTime)
	var all []*opened
	var opening sync.WaitGroup
	defer opening.Wait() // what was begun ends with the context
	defer cancel()
	room := make(chan struct{}, limits.Parallel)
	for i, t := range tools {
		e := k.executor(t)
		if e == nil {
			continue
		}
		if len(all) == maxHosted {
			return nil, responses.InvalidParam(responses.CodeInvalidValue, toolParam(i), "More than %d tools that the gateway runs.", maxHosted)
		}
		o := &opened{at: i, typ: t.Type(), label: tool.DefaultLabel}
		if m, ok := t.(*responses.MCPTool); ok {
			o.label = m.ServerLabel
		}
		all = append(all, o)
		room <- struct{}{}
		opening.Go(func() {
			o.set, o.err = openOne(ctx, e, &tool.Ask{Owner: owner, Tool: t, Param: toolParam(i)})
			<-room
		})
	}
	opening.Wait()
	for _, o := range all {
		if e, ok := errors.AsType[*responses.Error](o.err); ok && e.Origin == responses.OriginClient {
			return nil, e
		}
		if o.set != nil {
			o.label = cmp.Or(o.set.Label, o.label)
		}
	}
	return all, nil
}

func openOne(ctx context.Context, e tool.Executor, a *tool.Ask) (set *tool.Set, err error) {
	defer func() {
		if p := recover(); p != nil {
			set, err = nil, panicked(p)
		}
	}()
	set, err = e.Open(ctx, a)
	if err == nil && (set == nil || set.Run == nil) {
		return nil, errors.New("the executor opened nothing")
	}
	return set, err
}
