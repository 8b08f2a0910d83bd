package server

import (
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/internal/sse"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/upstream"
)

// createResponse is POST /v1/responses where the gateway remembers.
func (s *Server) createResponse(x *exchange, body []byte) error {
	router, head, err := s.relayable(x, body)
	if err != nil {
		return err
	}
	if head != nil {
		return s.relay(x, router, head, upstream.PathResponses, body)
	}
	req, err := s.decode(x, body)
	if err != nil {
		return err
	}
	return s.run(x, req)
}

// run has a request run, and reads the answer to the client.
func (s *Server) run(x *exchange, req *responses.Request) (err error) {
	x.shape = shapeOf(req)
	if req, err = s.transform(x, req); err != nil {
		return err
	}
	mode, err := x.outputMode()
	if err != nil {
		return err
	}
	run, err := s.engine.Start(x.r.Context(), &engine.Job{
		Owner: x.owner(), Request: req, Header: x.forwarded(), Opener: x.opener(req), Output: mode, Tools: x.gen.Tools,
	})
	if err != nil {
		return err
	}
	defer s.endForeground(x, run)
	if !req.WantsStream() {
		return s.collect(x, run)
	}
	if err := s.await(x, run); err != nil {
		return err
	}
	return s.stream(x, run)
}

// forwarded returns the client's headers that a driver may see. A client that has
// shown one of our keys has no other credential: what is in its Authorization is
// that key, or something that was passed over for it, and neither is an upstream's
// business. An upstream that is to get the client's own therefore needs a gateway
// without keys.
func (x *exchange) forwarded() http.Header {
	header, dropped := forwardable(x.r.Header)
	x.headersDropped = dropped
	if x.key != nil {
		header.Del("Authorization")
	}
	return header
}

// readJSON reads a body that says that it is JSON.
func (s *Server) readJSON(x *exchange) ([]byte, error) {
	if t := x.r.Header.Get("Content-Type"); t != "" {
		if media, _, err := mime.ParseMediaType(t); err != nil || media != "application/json" {
			return nil, responses.InvalidParam(responses.CodeMediaType, "", "Send JSON with the header Content-Type: application/json, not %s.", t)
		}
	}
	return s.readBody(x)
}

// endForeground ends the run with its client, waits for it, and notes how it
// went.
func (s *Server) endForeground(x *exchange, run *engine.Run) {
	run.Cancel(engine.ErrClientGone) // no effect on a run that has ended
	<-run.Done()
	run.Forget()
	end := run.End()
	x.end = &end
}

// await holds a stream back until it is known how to begin it: a refusal is an HTTP
// status. It waits no longer than the hold time, nor when the run waits for a
// reader itself.
func (s *Server) await(x *exchange, run *engine.Run) error {
	hold := time.NewTimer(max(s.opts.Hold, 0))
	defer hold.Stop()
	select {
	case <-run.Ready():
		if e := run.Refusal(); e != nil {
			return e
		}
		x.noteHead(run.Head())
		return nil
	case <-hold.C:
		return nil
	case <-run.Ahead():
		return nil
	case <-x.r.Context().Done():
		return engine.ErrClientGone
	}
}

// noteHead puts what is known of the answer into its headers.
func (x *exchange) noteHead(head engine.Head) {
	x.upstream = head.Upstream
	x.Header().Set(headerUpstream, head.Upstream)
	x.losses = head.Losses
	x.setDegraded(head.Losses)
}

// setDegraded reports what the upstream will not honour.
func (x *exchange) setDegraded(losses []responses.Loss) { x.listLosses(headerDegraded, losses) }

// listLosses puts losses into a header: a list of quoted field names, each with a
// reason. The names may be a client's invention.
func (x *exchange) listLosses(header string, losses []responses.Loss) {
	for _, l := range losses {
		x.Header().Add(header, quoted(l.Param)+`;reason=`+quoted(l.Reason))
	}
}

// quoted returns s as a quoted string of a header, with what cannot be in one
// replaced.
func quoted(s string) string {
	return `"` + strings.Map(func(r rune) rune {
		switch {
		case r == '"':
			return '\''
		case r == '\\':
			return '/'
		case r == '…':
			return '.'
		case r < ' ' || r > '~':
			return ' '
		}
		return r
	}, s) + `"`
}

// stream reads the log to the client as server-sent events.
func (s *Server) stream(x *exchange, run *engine.Run) error {
	h := x.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	x.streams()
	x.WriteHeader(http.StatusOK)
	out := newClientStream(x, s.opts.WriteTimeout)
	for batch, err := range s.engine.Follow(x.r.Context(), x.owner(), run.ID(), -1) {
		if err != nil {
			return nil // the client left; the run says so
		}
		if err := out.send(batch); err != nil {
			return nil
		}
	}
	_ = out.w.Done() // clients may hang up once they have the terminal event
	return nil
}

// A clientStream writes entries to a client that may be slow or gone.
type clientStream struct {
	dst     io.Writer
	w       *sse.Writer
	rc      *http.ResponseController
	timeout time.Duration
	armed   time.Time // when the write deadline was last set
}

func newClientStream(x *exchange, timeout time.Duration) *clientStream {
	c := &clientStream{dst: x, rc: http.NewResponseController(x.ResponseWriter), timeout: timeout}
	c.w = sse.NewWriter(x, c.rc.Flush)
	return c
}

// send writes a batch, or a keep-alive if there is none.
func (c *clientStream) send(batch []store.Entry) error {
	c.arm()
	if len(batch) == 0 {
		return c.w.Comment("keepalive")
	}
	for _, e := range batch {
		if err := c.w.Add(string(e.Type), e.Data); err != nil {
			return err
		}
	}
	return c.w.Flush()
}

// arm bounds the next write in time. The deadline is moved only now and then:
// it guards against a client that never reads, not against one that is slow.
func (c *clientStream) arm() {
	now := time.Now()
	if now.Sub(c.armed) < c.timeout/4 {
		return
	}
	c.armed = now
	_ = c.rc.SetWriteDeadline(now.Add(c.timeout)) // not every writer has one
}

// collect waits for the end and answers with the response object that the
// terminal event carries. A failed run is an HTTP error with the same code and
// message.
func (s *Server) collect(x *exchange, run *engine.Run) error {
	var last []byte
	for batch, err := range s.engine.Follow(x.r.Context(), x.owner(), run.ID(), -1) {
		if err != nil {
			return engine.ErrClientGone
		}
		if n := len(batch); n > 0 && batch[n-1].Type.Terminal() {
			last = batch[n-1].Data
		}
	}
	<-run.Done()
	if run.Refusal() == nil {
		x.noteHead(run.Head())
	}
	end := run.End()
	if end.Err != nil {
		return end.Err
	}
	body, err := responses.EventResponse(last)
	if err != nil {
		return err
	}
	x.setDegraded(end.Losses)
	return x.writeJSON(http.StatusOK, body)
}
