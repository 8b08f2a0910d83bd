package server

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/internal/relay"
	"github.com/antiphon-dev/antiphon/internal/route"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// relayRouter is a router that can pass requests on as they came.
type relayRouter interface {
	CanRelay(model, path string) bool
	Relay(ctx context.Context, model, cacheKey string, p *upstream.Passage) (*route.Relayed, error)
}

// relayable decides between the two ways of a request: it is relayed if nothing
// asks for more than its upstream does by itself. That is so if all targets of its
// model speak this API, nobody is asked to remember anything, and nothing here
// changes requests or answers, or runs a tool. head is nil if it must be run.
func (s *Server) relayable(x *exchange, body []byte) (r relayRouter, head *responses.Head, err error) {
	r, ok := x.gen.Router.(relayRouter)
	if !ok || x.gen.Transform != nil || x.gen.Rules != nil || engine.MayHoldRendered(body) {
		return nil, nil, nil
	}
	if mode, err := x.outputMode(); err != nil || mode != "" && mode != engine.OutputJSON {
		return nil, nil, err
	}
	head, err = responses.PeekRequest(body, s.requestLimits())
	if err != nil || head.Remembers || head.Limited || x.key != nil && !x.key.allows(head.Model) || !r.CanRelay(head.Model, upstream.PathResponses) {
		return nil, nil, err
	}
	if runs, err := x.runsTools(head); err != nil || runs {
		return nil, nil, err
	}
	return r, head, nil
}

// runsTools reports whether one of a request's tools is run by the gateway.
func (x *exchange) runsTools(head *responses.Head) (bool, error) {
	if x.gen.Tools == nil {
		return false, nil
	}
	tools, err := responses.DecodeTools(head.Tools)
	return err == nil && x.gen.Tools.Runs(tools), err
}

// maxWhole bounds an answer that is not a stream.
const maxWhole = 64 << 20

// relayPath returns the handler of an API that the gateway has only by way of
// upstreams that speak it. check returns the body that passes, and what it took out
// of it.
func (s *Server) relayPath(path string, check func(body []byte) ([]byte, []responses.Loss, error)) handlerFunc {
	return func(x *exchange) error {
		body, err := s.readJSON(x)
		if err != nil {
			return err
		}
		head, err := responses.PeekModel(body, s.requestLimits())
		if err != nil {
			return err
		}
		body, stripped, err := check(body)
		if err != nil {
			return err
		}
		x.setStripped(stripped)
		r, err := x.relayRouter(head.Model, path)
		if err != nil {
			return err
		}
		return s.relay(x, r, head, path, body)
	}
}

// asItCame lets every body pass.
func asItCame(body []byte) ([]byte, []responses.Loss, error) { return body, nil, nil }

// relayRouter returns the router, if the upstreams of the model have the path and the
// client may use the model.
func (x *exchange) relayRouter(model, path string) (relayRouter, error) {
	r, ok := x.gen.Router.(relayRouter)
	if !ok || x.key != nil && !x.key.allows(model) || !r.CanRelay(model, path) {
		return nil, responses.InvalidParam(responses.CodeModelNotFound, "model", "There is no model %.100q for %s here.", model, x.r.URL.Path)
	}
	return r, nil
}

// relay passes a request on, and its answer back, as they came.
func (s *Server) relay(x *exchange, r relayRouter, head *responses.Head, path string, body []byte) error {
	x.shape = shape{model: head.Model, stream: head.Stream, relayed: true}
	answer, err := r.Relay(x.r.Context(), head.Model, head.PromptCacheKey, &upstream.Passage{
		Method: x.r.Method, Path: path, Query: x.query(), Header: x.forwarded(), Body: body,
	})
	if err != nil {
		return err
	}
	return s.passOn(x, answer, path, relay.Options{
		Rename: relay.Rename{From: answer.Model, To: head.Model}, Foreign: path != upstream.PathResponses,
	})
}

// passOn passes an answer on to the client. path is that of a request with a model,
// "" for one that makes no response.
func (s *Server) passOn(x *exchange, answer *route.Relayed, path string, opts relay.Options) (err error) {
	defer answer.Body.Close()
	x.passHeader(answer)
	if answer.Sanitize {
		return s.passClean(x, answer, path, opts.Rename)
	}
	var seen *relay.Seen
	if upstream.Streams(answer.Response) {
		x.streams()
		x.WriteHeader(answer.StatusCode)
		out := newClientStream(x, s.opts.WriteTimeout)
		seen, err = relay.Stream(out, out.rc.Flush, answer.Body, opts)
		defer x.cutUnless(seen.Last != "" || opts.Foreign && err == nil)
	} else {
		seen, err = x.passWhole(answer, opts)
	}
	if path != "" {
		x.noteRelayed(path, seen, err)
	}
	return nil
}

// cutUnless ends the connection to the client as the upstream's ended, if that was
// before its answer was whole: a proper end would make a whole answer of it.
func (x *exchange) cutUnless(whole bool) {
	if !whole {
		panic(http.ErrAbortHandler)
	}
}

// Write passes whole frames on to the client.
func (c *clientStream) Write(p []byte) (int, error) {
	c.arm()
	return c.dst.Write(p)
}

// passWhole passes an answer on that is not a stream.
func (x *exchange) passWhole(answer *route.Relayed, opts relay.Options) (*relay.Seen, error) {
	buf := answers.Get().(*bytes.Buffer)
	defer putAnswer(buf)
	err := x.readAnswer(buf, answer)
	if err != nil {
		x.fail(responses.AsError(err))
		return new(relay.Seen), err
	}
	body, seen := buf.Bytes(), new(relay.Seen)
	if answer.StatusCode/100 == 2 {
		if opts.Notice != nil {
			opts.Notice("", body)
		}
		body, seen = relay.Whole(body, opts.Rename)
		x.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	x.WriteHeader(answer.StatusCode)
	_, err = x.Write(body)
	return seen, err
}

// answers are buffers that are free. Answers are read whole and written whole, so
// none outlives its request.
var answers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func putAnswer(b *bytes.Buffer) {
	if b.Cap() <= maxAnnounced+bytes.MinRead {
		b.Reset()
		answers.Put(b)
	}
}

// readAnswer reads an answer that is not a stream.
func (x *exchange) readAnswer(buf *bytes.Buffer, answer *route.Relayed) error {
	err := readInto(buf, io.LimitReader(answer.Body, maxWhole+1), answer.ContentLength)
	switch {
	case err != nil:
		return upstream.ReadFailure(x.r.Context(), err)
	case buf.Len() > maxWhole:
		return responses.UpstreamErrorf(responses.CodeUpstream, "The upstream's answer is larger than %d bytes.", maxWhole)
	}
	return nil
}

// notPassed are headers of an answer that are about the connection to the
// upstream, or between it and the gateway.
var notPassed = canonical("Connection", "Proxy-Connection", "Keep-Alive", "Transfer-Encoding", "Content-Length", "Upgrade", "Trailer", "TE",
	"Proxy-Authenticate", "Set-Cookie", "Date")

// passHeader puts the upstream's headers into the answer, and who it was. What the
// gateway has said already stays: it is about the client, whom the upstream does not
// know.
func (x *exchange) passHeader(answer *route.Relayed) {
	h, hops := x.Header(), connectionHeaders(answer.Header)
	for name, values := range answer.Header {
		switch {
		case notPassed[name] || hops[name] || strings.HasPrefix(name, "Access-Control-") || answer.Sanitize && !aboutTheBody[name]:
		case name == "Vary":
			h[name] = append(h[name], values...)
		case len(h[name]) == 0:
			h[name] = values
		}
	}
	x.upstream = answer.Upstream
	h.Set(headerUpstream, answer.Upstream)
}

// noteRelayed notes how a relayed answer ended, for the access log and
// for whoever observes.
func (x *exchange) noteRelayed(path string, seen *relay.Seen, err error) {
	x.end = x.relayEnd(path, seen, err)
	x.end.FirstEvent = x.first
	x.broken = seen.Broken
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
	case x.status == http.StatusOK && x.remembered && !x.streaming:
		end.Cause = engine.CauseCompleted // it goes on in the background
	default:
		end.Cause = engine.CauseUpstream
	}
	return end
}
