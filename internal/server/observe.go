package server

import (
	"net/http"
	"time"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/internal/relay"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// A RelayObserver is told of answers that were relayed. They are no runs, so an
// engine.Observer is told nothing of them. It is called on the request's goroutine
// when the answer has ended, and must be quick; values that it gets must not be
// changed.
type RelayObserver interface {
	RelayEnded(r *RelayInfo, end *engine.RunEnd)
}

// RelayInfo is what is known of a relayed answer besides its end.
type RelayInfo struct {
	// ID is the request's, as in its X-Request-Id.
	ID, Owner, Model string
	// Path is the API's, such as "responses".
	Path   string
	Stream bool
	// Upstream is who answered, and Status what with.
	Upstream string
	Status   int
	// First is how long it took until the first byte of the answer's body.
	First time.Duration
	// Broken is the first rule of the order of events that a stream broke, nil if
	// it broke none. It passed all the same.
	Broken error
}

// noteRelayed notes how a relayed answer ended, for the access log and for whoever
// observes.
func (x *exchange) noteRelayed(path string, seen *relay.Seen, err error) {
	x.end = x.relayEnd(path, seen, err)
	x.broken = seen.Broken
	if x.s.opts.Relays == nil {
		return
	}
	x.s.opts.Relays.RelayEnded(&RelayInfo{
		ID: x.id, Owner: x.owner(), Model: x.shape.model, Path: path, Stream: x.shape.stream,
		Upstream: x.upstream, Status: x.status, First: x.first, Broken: seen.Broken,
	}, x.end)
}

// relayEnd says how a relayed answer ended, in the words of a run.
func (x *exchange) relayEnd(path string, seen *relay.Seen, err error) *engine.RunEnd {
	end := &engine.RunEnd{Usage: seen.Usage, Events: seen.Frames, Duration: x.s.opts.Now().Sub(x.started)}
	switch ctx := x.r.Context(); {
	case ctx.Err() != nil && seen.Last == "":
		end.Cause, end.Err = engine.CauseClientGone, engine.ErrClientGone
	case seen.Last == responses.EventCompleted:
		end.Cause = engine.CauseCompleted
	case seen.Last == responses.EventIncomplete:
		end.Cause = engine.CauseIncomplete
	case err != nil:
		end.Cause, end.Err = engine.CauseUpstream, responses.AsError(upstream.ReadFailure(ctx, err))
	case x.status >= http.StatusBadRequest && x.status < http.StatusInternalServerError:
		end.Cause = engine.CauseRefused
	case x.status == http.StatusOK && path != upstream.PathResponses:
		end.Cause = engine.CauseCompleted // other APIs do not say more
	default:
		end.Cause = engine.CauseUpstream
	}
	return end
}
