// Package engine runs responses. It takes a validated request, opens model turns
// through a router, and appends every event to the log of the response. It never
// sees a client: clients read the log.
//
//	Start ── created, in_progress ──►┐
//	  │                              │
//	  ▼ (own goroutine)              │
//	Opener.Open ── refused ────────► end ──► log ◄── Follow ── readers
//	  │ accepted: Ready closes       ▲
//	  ▼                              │
//	item events ── rebase, number ──►┤   the first one is the commit point
//	  │                              │
//	  ▼                              │
//	EventTurnEnd, error, cancel ─────┘   exactly one terminal event
//
// Memory. Start loads what a request goes on from, so that what cannot be gone on
// from is an HTTP status (memory.go). The run keeps its response before it releases
// the terminal event (persist.go).
//
// Output modes. A job may ask for its calls in another form too; that is one more
// message after the model's items, of ordinary events (see OutputMode). When it
// comes back in an input it is known by its id, and no model gets it.
//
// Tools. Where a request asks for tools that the gateway runs, the turn is a loop of
// turns (see loop): calls of such tools are shown as mcp_call items, run, and told
// to the model. Calls that the request does not allow are suppressed, whoever would
// run them.
//
// Who cancels whom. A run owns its context: it outlives the request that started
// it, and ends by itself, by [Run.Cancel] (a foreground client that went away, a
// cancel call), by its total time, or by [Engine.Stop]. Everything below hangs
// on that context: the upstream call, the wait for room in the log. The cause
// with which the context ends is the cause with which the run ends (see Cause).
//
// Who waits. Start's goroutine ends after the terminal event is in the log, with
// the stream closed; [Run.Done] and [Engine.Stop] wait for it.
//
// Numbers. The run is the only writer of its log. It numbers events from zero,
// puts output indexes of a turn behind those of earlier turns, keeps item ids
// unique, sums usage, and alone makes lifecycle events.
package engine
