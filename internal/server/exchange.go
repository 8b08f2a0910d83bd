package server

import (
	"encoding/json/v2"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/responses"
)

// Response headers of our own.
const (
	headerRequestID = "X-Request-Id"
	headerUpstream  = "Antiphon-Upstream"
	headerDegraded  = "Antiphon-Degraded"
	headerStripped  = "Antiphon-Stripped"
)

// An exchange is one request and its answer: the ResponseWriter that the
// handlers use, and what the access log will say. It is the only place that
// writes errors.
type exchange struct {
	http.ResponseWriter
	s       *Server
	gen     *Generation
	r       *http.Request
	id      string
	started time.Time
	status  int // 0 until the header is written
	bytes   int64
	key     *Key // the client's, nil if it has shown none
	foreign bool // a browser sent it for a page that is not allowed to

	// What the handlers learn, for the access log.
	coding         string // of the body, "" if plain
	received       int64  // of the body, unpacked
	headersDropped int    // values that an upstream would have got
	shape          shape
	rule           string // that chose the model, "" if none did
	upstream       string
	remembered     bool // by the upstream
	streaming      bool
	losses         []responses.Loss
	end            *engine.RunEnd
	broken         error         // the rule that a relayed stream broke
	first          time.Duration // until the first byte of the body
	err            *responses.Error
	stripped       []responses.Loss // of the request
	capture        *capture         // nil unless the key says so
}

func newExchange(s *Server, w http.ResponseWriter, r *http.Request) *exchange {
	now := s.opts.Now()
	x := &exchange{ResponseWriter: w, s: s, gen: s.generations.take(), r: r, id: responses.NewID("req_", 0, now), started: now}
	w.Header().Set(headerRequestID, x.id)
	return x
}

// Unwrap lets http.ResponseController reach the connection.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader notes the status.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 {
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write counts what was sent.
func (x *exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	if x.bytes == 0 {
		x.first = x.s.opts.Now().Sub(x.started)
	}
	x.capture.add(ofAnswer, b)
	n, err := x.ResponseWriter.Write(b)
	x.bytes += int64(n)
	return n, err
}

// serve runs a handler and answers with its error, if nothing was sent yet.
func (x *exchange) serve(h handlerFunc) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(p)
		}
		x.fail(responses.Errorf(responses.CodeServer, "The gateway hit an internal error.").
			WithCause(fmt.Errorf("panic: %v\n%s", p, debug.Stack())))
	}()
	if err := h(x); err != nil {
		x.fail(responses.AsError(err))
	}
}

// fail answers with an error. After the headers it can only note it: what the
// client is to know is then in the stream.
func (x *exchange) fail(e *responses.Error) {
	x.err = e
	if x.status != 0 {
		return
	}
	if e.RetryAfter > 0 {
		x.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(e.RetryAfter.Seconds()))))
	}
	switch e.Code {
	case responses.CodeUpgrade:
		x.Header().Set("Upgrade", "HTTP/1.1")
	case responses.CodeInvalidKey:
		x.Header().Set("WWW-Authenticate", "Bearer")
	}
	body, err := json.Marshal(map[string]*responses.ErrorBody{"error": e.Body()})
	if err != nil { // cannot be: the body is strings
		body = []byte(`{"error":{"message":"internal error"}}`)
	}
	_ = x.writeJSON(e.Code.Status(), body) // the client is gone: nobody to tell
}

func (x *exchange) writeJSON(status int, body []byte) error {
	h := x.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	x.WriteHeader(status)
	_, err := x.Write(body)
	return err
}

// finish writes the access log: what was asked for, by shape and never by
// content, what came of it and why.
func (x *exchange) finish() {
	defer x.gen.requests.Done()
	x.logCapture()
	if !x.s.opts.Logger.Enabled(x.r.Context(), slog.LevelError) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request_id", x.id),
		slog.String("method", x.r.Method),
		slog.String("path", x.r.URL.Path),
		slog.Int("status", x.status),
		slog.Int64("bytes", x.bytes),
		slog.Float64("duration_ms", float64(x.s.opts.Now().Sub(x.started).Microseconds())/1000),
	}
	if client := clientAddr(x.r, x.gen.TrustedProxies); client.IsValid() {
		attrs = append(attrs, slog.String("client", client.String()))
	}
	if x.key != nil {
		attrs = append(attrs, slog.String("key", x.key.Name))
	}
	if x.coding != "" {
		attrs = append(attrs, slog.String("encoding", x.coding))
	}
	if x.headersDropped > 0 {
		attrs = append(attrs, slog.Int("headers_dropped", x.headersDropped))
	}
	attrs = append(attrs, x.shape.attrs()...)
	if len(x.stripped) > 0 {
		attrs = append(attrs, slog.String("stripped", namesOf(x.stripped)))
	}
	if x.rule != "" {
		attrs = append(attrs, slog.String("rule", x.rule))
	}
	if x.upstream != "" {
		attrs = append(attrs, slog.String("upstream", x.upstream))
	}
	level := slog.LevelInfo
	if x.end != nil {
		attrs = append(attrs, slog.String("cause", string(x.end.Cause)), slog.Int64("events", x.end.Events))
		if len(x.end.Stripped) > 0 {
			attrs = append(attrs, slog.String("answer_stripped", namesOf(x.end.Stripped)))
		}
		if x.err == nil {
			x.err = x.end.Err
		}
	}
	if x.broken != nil {
		attrs = append(attrs, slog.String("broken", x.broken.Error()))
		level = slog.LevelWarn
	}
	if x.err != nil {
		attrs = append(attrs, slog.String("error", x.err.Error()))
		if x.err.Code == responses.CodeServer {
			level = slog.LevelError
		}
	}
	switch x.r.URL.Path {
	case "/healthz", "/readyz", "/metrics": // asked for all the time
		level = slog.LevelDebug
	}
	x.s.opts.Logger.LogAttrs(x.r.Context(), level, "request", attrs...)
}
