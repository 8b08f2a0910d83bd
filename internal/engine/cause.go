package engine

import (
	"context"
	"errors"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/upstream"
)

// A Cause is why a run ended. The list is closed: it is a log word and a metric
// label.
type Cause string

// The causes.
const (
	CauseCompleted  Cause = "completed"
	CauseIncomplete Cause = "incomplete"
	CauseRefused    Cause = "refused"     // the request cannot be served as it is
	CauseUpstream   Cause = "upstream"    // the upstream failed
	CauseIdle       Cause = "idle"        // the upstream was silent for too long
	CauseClientGone Cause = "client_gone" // the client of a foreground run went away
	CauseSlowReader Cause = "slow_reader" // it stayed, but did not read
	CauseCancelled  Cause = "cancelled"   // somebody asked
	CauseTotalTime  Cause = "total_time"  // the run took too long
	CauseDrain      Cause = "drain"       // the gateway is stopping
	CauseFenced     Cause = "fenced"      // another writer took over
	CausePanic      Cause = "panic"       // a defect of ours
	CauseStore      Cause = "store"       // what was promised durable could not be stored
	CauseInternal   Cause = "internal"    // the log or another part of ours failed
)

// Errors with which a run's context is cancelled. Each is what the client of
// such a run is told, if anybody is left to tell.
var (
	ErrClientGone = &responses.Error{Code: responses.CodeClientGone, Origin: responses.OriginClient, Message: "The client closed the connection."}
	ErrSlowReader = &responses.Error{Code: responses.CodeClientGone, Origin: responses.OriginClient, Message: "The client stopped reading the stream."}
	ErrCancelled  = &responses.Error{Code: responses.CodeClientGone, Origin: responses.OriginClient, Message: "The response was cancelled."}
	ErrTotalTime  = &responses.Error{Code: responses.CodeTimeout, Message: "The response took longer than the gateway allows."}
	ErrDrain      = &responses.Error{Code: responses.CodeOverloaded, Message: "The gateway is restarting; send the request again."}
	errPanic      = &responses.Error{Code: responses.CodeServer, Message: "The gateway hit an internal error."}
)

// causes ties the errors that end a run to their cause. What is not here is
// told apart by its origin.
var causes = []struct {
	err   error
	cause Cause
}{
	{ErrClientGone, CauseClientGone},
	{ErrSlowReader, CauseSlowReader},
	{ErrCancelled, CauseCancelled},
	{ErrTotalTime, CauseTotalTime},
	{ErrDrain, CauseDrain},
	{errPanic, CausePanic},
	{upstream.ErrFirstEvent, CauseIdle},
	{upstream.ErrIdle, CauseIdle},
	{store.ErrFenced, CauseFenced},
	{store.ErrUnavailable, CauseStore},
}

// failure finds the cause and the public error of a run that failed with err.
// Where the run's context has ended, that is why, whatever err says.
func failure(ctx context.Context, err error) (Cause, *responses.Error) {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	e := responses.AsError(err)
	for _, c := range causes {
		if errors.Is(err, c.err) {
			return c.cause, e
		}
	}
	switch e.Origin {
	case responses.OriginUpstream:
		return CauseUpstream, e
	case responses.OriginClient:
		return CauseRefused, e
	}
	if e.Code == responses.CodeServer {
		return CauseInternal, e
	}
	return CauseRefused, e
}
