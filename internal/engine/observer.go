package engine

import (
	"context"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
)

// An Observer is told what runs do, for metrics and traces. Its methods are
// called on the run's goroutine and must be quick; values that they get must not
// be changed. Embed [NopObserver] to implement only some.
type Observer interface {
	// RunStarted is called before anything else of a run.
	RunStarted(r *RunInfo)
	// RunAccepted is called when an upstream has accepted a turn.
	RunAccepted(r *RunInfo, upstream string, losses []responses.Loss)
	// RunCommitted is called with the first item event: the answer has begun.
	RunCommitted(r *RunInfo, since time.Duration)
	// RunEnded is called when the terminal event is in the log.
	RunEnded(r *RunInfo, end *RunEnd)
}

// A ToolObserver is told of the rounds of runs that have tools of ours, and of the
// calls; an [Observer] may be one too. Several calls of a run may run at once.
type ToolObserver interface {
	// RoundStarted returns the context in which the model is called and the calls
	// that it makes are run.
	RoundStarted(ctx context.Context, r *RunInfo, round int) context.Context
	// RoundEnded gets the context that RoundStarted returned.
	RoundEnded(ctx context.Context, r *RunInfo, round int, err error)
	// ToolStarted returns the context in which a call is run.
	ToolStarted(ctx context.Context, r *RunInfo, label, name string) context.Context
	// ToolEnded gets the context that ToolStarted returned.
	ToolEnded(ctx context.Context, r *RunInfo, t *ToolEnd)
}

// ToolEnd is how a call ended.
type ToolEnd struct {
	Label, Name string
	Outcome     ToolOutcome
	TooLarge    bool // it failed because its result was too large
	Duration    time.Duration
}

// A ToolOutcome is how a call ended. The list is closed: it is a metric label.
type ToolOutcome string

// The outcomes.
const (
	ToolOK      ToolOutcome = "ok"
	ToolError   ToolOutcome = "tool_error" // the tool answered that it failed
	ToolFailed  ToolOutcome = "failed"     // there was no answer that could be used
	ToolTimeout ToolOutcome = "timeout"    // it took too long
)

// nobody is the ToolObserver of an engine that has none.
type nobody struct{}

func (nobody) RoundStarted(ctx context.Context, _ *RunInfo, _ int) context.Context      { return ctx }
func (nobody) RoundEnded(context.Context, *RunInfo, int, error)                         {}
func (nobody) ToolStarted(ctx context.Context, _ *RunInfo, _, _ string) context.Context { return ctx }
func (nobody) ToolEnded(context.Context, *RunInfo, *ToolEnd)                            {}

// RunInfo is what is known of a run from its start.
type RunInfo struct {
	ID, Owner, Model string
	Stream           bool
}

// RunEnd is how a run ended.
type RunEnd struct {
	Cause  Cause
	Err    *responses.Error // nil if the run completed or is incomplete
	Usage  *responses.Usage // nil if unknown
	Losses []responses.Loss // those that only the answer revealed
	// Stripped is what was taken out of the answer of a sanitized upstream.
	Stripped []responses.Loss
	Events   int64
	// FirstEvent is how long it took until the answer began, 0 if it did not.
	FirstEvent, Duration time.Duration
}

// NopObserver observes nothing.
type NopObserver struct{}

// RunStarted implements [Observer].
func (NopObserver) RunStarted(*RunInfo) {}

// RunAccepted implements [Observer].
func (NopObserver) RunAccepted(*RunInfo, string, []responses.Loss) {}

// RunCommitted implements [Observer].
func (NopObserver) RunCommitted(*RunInfo, time.Duration) {}

// RunEnded implements [Observer].
func (NopObserver) RunEnded(*RunInfo, *RunEnd) {}
