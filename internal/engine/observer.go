package engine

import (
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

// A ToolObserver is told of calls that the gateway ran; an [Observer] may be one
// too.
type ToolObserver interface {
	// ToolEnded is called when a call has ended.
	ToolEnded(r *RunInfo, t *ToolEnd)
}

// ToolEnd is how a call ended.
type ToolEnd struct {
	Label, Name string
	Failed      bool
	Duration    time.Duration
}

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
