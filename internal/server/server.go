// Package server is the HTTP surface of the gateway. It decodes requests, starts
// runs, and reads their logs to clients; it never sees a driver. Requests that ask
// for nothing but what their upstream does by itself are relayed instead: bytes
// from the router to the client (relay.go).
//
//	request ─► exchange (id, access log, recover) ─► admit (origin, key, limits) ─► handler
//	                                                   │ create: relay, or decode and Engine.Start
//	                                                   ▼
//	          Run.Ready or the hold time ─► headers ─► Follow ─► SSE frames … [DONE]
//	                                                   └───────► last entry ─► JSON
//
// Until headers are sent a failure is an HTTP status; afterwards it is what the
// log says, an error event and response.failed. A stream's headers are sent when
// an upstream has accepted the request, or after the hold time if it takes
// longer. A JSON answer is the response object inside the log's last entry, so
// the two cannot disagree.
//
// When a handler returns, its run is over: a client that leaves cancels it, and
// the handler waits for that.
package server

import (
	"cmp"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/internal/relay"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// Options configures [New]. The zero value is usable.
type Options struct {
	// Hold is how long a stream's headers wait for an upstream to accept. Zero
	// means 10 s, negative means not at all.
	Hold time.Duration
	// MaxBodyBytes bounds a request's body, packed and unpacked. Zero means
	// 64 MiB.
	MaxBodyBytes int
	// WriteTimeout is how long one write to a client may take. Zero means 45 s:
	// longer than the engine waits for a reader, so that the engine, which knows
	// more, decides.
	WriteTimeout time.Duration
	// Logger takes the access log. Nil means slog.Default.
	Logger *slog.Logger
	// Observer is told of requests, and if it is an [IDObserver] of ids that were
	// forgotten. Nil means nobody.
	Observer Observer
	// KeptIDs bounds the ids that are known of upstreams that remember. Zero means
	// 200,000.
	KeptIDs int
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

// A Server is the handler of the API. It is safe for concurrent use.
type Server struct {
	engine      *engine.Engine
	generations generations
	opts        Options
	transparent *http.ServeMux // of the two modes; a generation is of one
	strict      *http.ServeMux
	unpackers   unpackers
	limits      limitStore // outlives generations
	kept        *keptIDs   // outlives generations
	draining    atomic.Bool
}

// handlerFunc handles a request. An error that it returns becomes the answer if
// nothing was sent yet.
type handlerFunc func(x *exchange) error

// New returns the handler, which begins with the given generation. It starts
// nothing.
func New(e *engine.Engine, first *Generation, opts *Options) *Server {
	s := &Server{engine: e, generations: generations{current: first}, unpackers: newUnpackers()}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Hold == 0 {
		s.opts.Hold = 10 * time.Second
	}
	if s.opts.MaxBodyBytes == 0 {
		s.opts.MaxBodyBytes = 64 << 20
	}
	if s.opts.WriteTimeout == 0 {
		s.opts.WriteTimeout = 45 * time.Second
	}
	if s.opts.Logger == nil {
		s.opts.Logger = slog.Default()
	}
	if s.opts.Now == nil {
		s.opts.Now = time.Now
	}
	s.limits = newLocalLimits(s.opts.Now)
	var evicted func(int)
	if o, ok := s.opts.Observer.(IDObserver); ok {
		evicted = o.IDsEvicted
	}
	s.kept = newKeptIDs(cmp.Or(s.opts.KeptIDs, defaultKeptIDs), evicted)
	s.transparent = s.router(map[string]handlerFunc{
		"POST /v1/responses":        admit(claimRun, s.orRemembered(upstream.PathResponses, s.createResponse)),
		"POST /v1/chat/completions": admit(claimRun, s.relayPath(upstream.PathChatCompletions, asItCame)),
		"POST /v1/embeddings":       admit(claimRun, s.relayPath(upstream.PathEmbeddings, asItCame)),
	}, admit(claimRun, s.passOther))
	s.strict = s.router(map[string]handlerFunc{
		"POST /v1/responses":        admit(claimRun, s.createStrict),
		"POST /v1/chat/completions": admit(claimRun, s.relayPath(upstream.PathChatCompletions, relay.ChatCompletions.Request)),
		"POST /v1/embeddings":       admit(claimRun, s.relayPath(upstream.PathEmbeddings, relay.Embeddings.Request)),
	}, admit(claimRequest, s.unknownPath))
	return s
}

// routes lists what is the same in both modes.
func (s *Server) routes() map[string]handlerFunc {
	return map[string]handlerFunc{
		"GET /v1/responses": admit(claimRequest, s.refuseWebSocket),
		"GET /v1/models":    admit(claimRequest, s.listModels),

		"GET /v1/responses/{id}":    admit(claimRequest, s.orKept(s.retrieveResponse)),
		"DELETE /v1/responses/{id}": admit(claimRequest, s.orKept(s.deleteResponse)),

		"POST /v1/responses/{id}/cancel":     admit(claimRequest, s.orKept(s.unknownPath)),
		"GET /v1/responses/{id}/input_items": admit(claimRequest, s.orKept(s.listInputItems)),
		"POST /v1/responses/input_tokens":    admit(claimRequest, s.orRemembered(upstream.PathResponses+"/input_tokens", s.countInputTokens)),

		"POST /v1/conversations":        admit(claimRequest, s.orHome(s.createConversation)),
		"GET /v1/conversations/{id}":    admit(claimRequest, s.orKept(s.getConversation)),
		"POST /v1/conversations/{id}":   admit(claimRequest, s.orKept(s.updateConversation)),
		"DELETE /v1/conversations/{id}": admit(claimRequest, s.orKept(s.deleteConversation)),

		"GET /v1/conversations/{id}/items":           admit(claimRequest, s.orKept(s.listConversationItems)),
		"POST /v1/conversations/{id}/items":          admit(claimRequest, s.orKept(s.createConversationItems)),
		"GET /v1/conversations/{id}/items/{item}":    admit(claimRequest, s.orKept(s.getConversationItem)),
		"DELETE /v1/conversations/{id}/items/{item}": admit(claimRequest, s.orKept(s.deleteConversationItem)),
	}
}

// router returns the router of a mode: what it has of its own, what all have, and
// what becomes of every other path. Each path of the API also works without /v1.
func (s *Server) router(own map[string]handlerFunc, other handlerFunc) *http.ServeMux {
	mux := http.NewServeMux()
	for _, table := range []map[string]handlerFunc{s.routes(), own} {
		for pattern, h := range table {
			handle(mux, pattern, h)
			handle(mux, strings.Replace(pattern, " /v1/", " /", 1), h)
		}
	}
	handle(mux, "GET /healthz", s.healthy) // whoever looks after the gateway needs no key
	handle(mux, "GET /readyz", s.ready)
	handle(mux, "/", other)
	return mux
}

// admit runs h only for clients that may use the API, and as often as they may.
func admit(c claim, h handlerFunc) handlerFunc {
	return func(x *exchange) error {
		if err := x.refuseForeignPage(); err != nil {
			return err
		}
		if err := x.authenticate(); err != nil {
			return err
		}
		settle, err := x.reserve(c)
		if err != nil {
			return err
		}
		defer settle()
		return h(x)
	}
}

func handle(mux *http.ServeMux, pattern string, h handlerFunc) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		w.(*exchange).serve(h)
	})
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := newExchange(s, w, r)
	defer x.finish()
	x.begin()
	defer x.report()
	x.allowOrigin()
	if isPreflight(r) {
		x.serve(s.preflight)
		return
	}
	if x.gen.Strict {
		s.strict.ServeHTTP(x, x.r)
		return
	}
	s.transparent.ServeHTTP(x, x.r)
}

// Drain makes the server unready, so that load balancers look elsewhere, while
// it goes on serving.
func (s *Server) Drain() { s.draining.Store(true) }

// Health is the body of GET /healthz: it says that it is this gateway that
// answers, to whoever looks for one.
const Health = `{"service":"antiphon","status":"ok"}`

func (s *Server) healthy(x *exchange) error { return x.writeJSON(http.StatusOK, []byte(Health)) }

func (s *Server) ready(x *exchange) error {
	if s.draining.Load() {
		return engine.ErrDrain
	}
	return x.writeJSON(http.StatusOK, []byte(`{"status":"ready"}`))
}

// refuseWebSocket answers the upgrade that WebSocket clients try first with the
// one status that makes them fall back to HTTP at once.
func (s *Server) refuseWebSocket(x *exchange) error {
	return responses.InvalidParam(responses.CodeUpgrade, "", "There is no WebSocket here: use POST with \"stream\": true.")
}

func (s *Server) unknownPath(x *exchange) error {
	if p := strings.TrimPrefix(x.r.URL.Path, "/v1"); p == "/responses" || p == "/models" {
		x.Header().Set("Allow", "GET, POST")
		return responses.InvalidParam(responses.CodeMethod, "", "%s does not take %s.", x.r.URL.Path, x.r.Method)
	}
	return responses.InvalidParam(responses.CodeNotFound, "", "There is nothing at %s %s.", x.r.Method, x.r.URL.Path)
}
