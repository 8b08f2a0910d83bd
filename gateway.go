package antiphon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/internal/route"
	"github.com/antiphon-dev/antiphon/internal/server"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/tool"
	"github.com/antiphon-dev/antiphon/upstream"
)

// Options configures [New]. Drivers is required; everything else may be zero.
type Options struct {
	// Mode is which paths there are, and what becomes of what nobody knows. "" means
	// ModeTransparent.
	Mode Mode
	// Drivers are the upstreams by name. The gateway closes them.
	Drivers map[string]upstream.Driver
	// Upstreams say how the gateway treats upstreams, by name; one without an entry
	// has the zero value. One that is not among Drivers is an error.
	Upstreams map[string]Upstream
	// Models maps the names that clients use, or patterns of them that end in a
	// *, to upstreams. If it is empty and there is one upstream, every name goes
	// there as it is.
	Models map[string]Model
	// Rules send requests to another model than the one that they name, by what
	// their last user message says; the first that matches decides. The answer
	// still says the client's model, and a key needs to reach that one only.
	Rules []Rule
	// OutputMode is how responses say that tools are to be called, to clients that
	// do not ask for one with the header x-proxy-output-mode. "" means OutputJSON.
	OutputMode OutputMode
	// Keys are who may use the API. None means everybody, as one tenant: then
	// serve on loopback only.
	Keys []Key
	// Authenticate finds out who sent a request, for a program that knows that
	// already; the models and limits of the callers that it names are kept as
	// those of keys. It is instead of Keys: both is an error.
	Authenticate func(r *http.Request) (*Caller, error)
	// Origins are the pages that may use the API from a browser, besides those of
	// this machine and of the Obsidian app, as browsers send them: such as
	// https://chat.example.
	Origins []string
	// TrustedProxies are the networks whose X-Forwarded-For is believed, for the
	// client's address in the access log.
	TrustedProxies []netip.Prefix
	// TransformRequest may change a request that was found valid, or refuse it,
	// before a model is looked for. What it changed is sent, and echoed to the
	// client, as the struct encodes; members that the struct does not know are in
	// its Extra fields. Stream stays the client's, and the model must be one that
	// the caller may use. A request that it leaves alone goes on as it came.
	TransformRequest func(ctx context.Context, c *Caller, r *responses.Request) (*responses.Request, error)
	// Tools run what the gateway runs itself: Go functions ([tool.Functions]), HTTP
	// endpoints and MCP servers (packages httptool and mcptool). Without any, all
	// calls are the client's. The gateway closes them.
	Tools []tool.Executor
	// ToolLimits bound what is done with tools.
	ToolLimits ToolLimits
	// Log keeps the events of responses that a client is waiting for; see
	// memstore.NewWindow. It is required.
	Log store.Log
	// Store remembers responses and conversations; see memstore.NewStore. Nil means
	// that nothing is remembered: what needs it is refused by name. The gateway
	// closes it.
	Store store.Store
	// State bounds what is remembered.
	State State
	// Timeouts bound the life of a response.
	Timeouts Timeouts
	// MaxBodyBytes bounds a request. Zero means 64 MiB.
	MaxBodyBytes int
	// Observer is told what runs do, of attempts if it is an [AttemptObserver], and
	// of requests, relayed ones too, if it is a [RequestObserver]. Nil means nobody.
	Observer Observer
	// Logger takes the access log and what operators should know. Nil means
	// slog.Default.
	Logger *slog.Logger
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

// Mode is what the gateway does with what it does not know.
type Mode string

// The modes.
const (
	// ModeTransparent passes it on.
	ModeTransparent Mode = "transparent"
	// ModeStrict serves known paths only and strips what is not published, of
	// requests and of answers; every upstream is sanitized.
	ModeStrict Mode = "strict"
)

// Model is what a name that clients use stands for: a pool of targets and
// settings. [ModelAt] makes one of a single target.
type Model = route.Model

// Target is a model of an upstream.
type Target = route.Target

// Upstream is how the gateway treats an upstream.
type Upstream = route.Upstream

// ModelAt returns the model that an upstream serves, under the same name if model
// is "".
func ModelAt(upstream, model string) Model { return route.To(upstream, model) }

// Rule sends utility prompts, such as for a chat's title, to another model.
type Rule = route.Rule

// OutputMode is how a response says that tools are to be called.
type OutputMode = engine.OutputMode

// The output modes: call items only, or also a message with the same calls for
// Obsidian Copilot.
const (
	OutputJSON     = engine.OutputJSON
	OutputObsidian = engine.OutputObsidian
)

// ToolLimits bound what the gateway does with tools.
type ToolLimits = engine.ToolLimits

// ToolObserver is told of calls that the gateway runs, and of the rounds of a
// response around them; an Observer may be one too.
type ToolObserver = engine.ToolObserver

// ToolEnd is what a [ToolObserver] is told.
type ToolEnd = engine.ToolEnd

// Key is a credential of a caller: its name in the log, its tenant, which owns what
// is stored, the models it may use, and its limits.
type Key = server.Key

// KeyLimits bound what a key may use.
type KeyLimits = server.Limits

// Caller is who sent a request, as Options.Authenticate says. An error of
// Authenticate that is a *responses.Error is answered as it is; any other, and a
// nil caller, is a 401 that reveals nothing.
type Caller = server.Caller

// Observer is told what runs do, for metrics and traces; embed [NopObserver] to
// implement only some of it.
type Observer = engine.Observer

// RequestObserver is told of requests and what came of them; an Observer may be
// one too.
type RequestObserver = server.Observer

// IDObserver is told of ids of upstreams that keep their state, when there were too
// many; an Observer may be one as well, if it is a [RequestObserver].
type IDObserver = server.IDObserver

// RequestEnd is what a [RequestObserver] is told.
type RequestEnd = server.RequestEnd

// AttemptObserver is told of each try of a turn on an upstream; an Observer may be
// one too.
type AttemptObserver = route.Observer

// Attempt is what an [AttemptObserver] is told.
type Attempt = route.Attempt

// NopObserver observes nothing.
type NopObserver = engine.NopObserver

// RunInfo and RunEnd are what an [Observer] is told.
type (
	RunInfo = engine.RunInfo
	RunEnd  = engine.RunEnd
)

// Timeouts bound the life of a response. Zero means the default, negative means
// no bound.
type Timeouts struct {
	Hold       time.Duration // before headers are sent although no upstream has accepted; default 10 s
	FirstEvent time.Duration // until an upstream's first event; default 120 s
	Idle       time.Duration // between two events of an upstream; default 300 s
	Total      time.Duration // of a run; default 1 h
	Drain      time.Duration // for streams to finish when the gateway stops; default 60 s
}

// State bounds what a gateway with a store puts before a model. Zero means the
// default.
type State struct {
	// Retention is how long the store keeps responses, as it was itself told; default
	// store.DefaultRetention.
	Retention time.Duration
	// ContextDepth is over how many records a context may be spread before it is
	// gathered in one; default 1,000.
	ContextDepth int
	// ContextBytes is how large the context that a request goes on from may be;
	// default 64 MiB.
	ContextBytes int
}

// A Gateway is one Responses API in front of its upstreams.
type Gateway struct {
	engine *engine.Engine
	server *server.Server
	store  store.Store // nil if nothing is remembered
	drain  time.Duration
	logger *slog.Logger

	mu      sync.Mutex // held while a configuration takes over from another
	router  *route.Router
	tools   *engine.Toolkit // nil if nothing is run here
	closed  bool
	retired sync.WaitGroup // generations that are being drained
}

var errNoDrivers = errors.New("antiphon: Options.Drivers is empty: a gateway needs an upstream")

// New returns a gateway. It does no I/O and starts nothing; call Close when done
// with it.
func New(opts *Options) (*Gateway, error) {
	if opts == nil || len(opts.Drivers) == 0 {
		return nil, errNoDrivers
	}
	if opts.Log == nil {
		return nil, errors.New("antiphon: Options.Log is nil: use memstore.NewWindow")
	}
	first, router, err := newGeneration(opts, nil)
	if err != nil {
		return nil, err
	}
	g := &Gateway{router: router, tools: first.Tools, store: opts.Store, drain: opts.Timeouts.Drain, logger: opts.Logger}
	if g.drain == 0 {
		g.drain = time.Minute
	}
	if g.logger == nil {
		g.logger = slog.Default()
	}
	g.engine = engine.New(opts.Log, &engine.Options{
		TotalTime: opts.Timeouts.Total, Observer: opts.Observer, Now: opts.Now,
		Store: opts.Store, Retention: opts.State.Retention, ContextDepth: opts.State.ContextDepth, ContextBytes: opts.State.ContextBytes,
	})
	requests, _ := opts.Observer.(server.Observer)
	g.server = server.New(g.engine, first, &server.Options{
		Hold: opts.Timeouts.Hold, MaxBodyBytes: opts.MaxBodyBytes, Logger: g.logger, Now: opts.Now, Observer: requests,
	})
	return g, nil
}

// newGeneration makes what opts decides. The router takes over what the previous
// one knows of its targets.
func newGeneration(opts *Options, previous *route.Router) (*server.Generation, *route.Router, error) {
	gen := &server.Generation{
		Authenticate: opts.Authenticate, Transform: opts.TransformRequest, OutputMode: opts.OutputMode, Strict: opts.Mode == ModeStrict, TrustedProxies: opts.TrustedProxies,
	}
	switch opts.Mode {
	case "", ModeTransparent, ModeStrict:
	default:
		return nil, nil, fmt.Errorf("antiphon: Options.Mode %q is not there: use %s or %s", opts.Mode, ModeTransparent, ModeStrict)
	}
	if len(opts.Tools) > 0 {
		gen.Tools = &engine.Toolkit{Executors: opts.Tools, Limits: opts.ToolLimits}
	}
	if !opts.OutputMode.Known() {
		return nil, nil, fmt.Errorf("antiphon: Options.OutputMode %q is not there: use %s or %s", opts.OutputMode, OutputJSON, OutputObsidian)
	}
	var err error
	if gen.Rules, err = route.NewRules(opts.Rules); err != nil {
		return nil, nil, err
	}
	if len(opts.Keys) > 0 {
		if opts.Authenticate != nil {
			return nil, nil, errors.New("antiphon: Options.Keys and Options.Authenticate are both set: one of them decides who may call")
		}
		if gen.Keys, err = server.NewKeyring(opts.Keys); err != nil {
			return nil, nil, err
		}
	}
	if gen.Origins, err = server.NewOrigins(opts.Origins); err != nil {
		return nil, nil, fmt.Errorf("antiphon: Options.Origins: %w", err)
	}
	attempts, _ := opts.Observer.(route.Observer)
	router, err := route.New(opts.Drivers, opts.Models, &route.Options{
		Limits:    upstream.Limits{FirstEvent: opts.Timeouts.FirstEvent, Idle: opts.Timeouts.Idle},
		Upstreams: upstreamsOf(opts),
		Previous:  previous,
		Observer:  attempts,
		Now:       opts.Now,
	})
	if err != nil {
		return nil, nil, err
	}
	if router.KeepsState() && opts.TransformRequest != nil {
		return nil, nil, errors.New("antiphon: Options.TransformRequest cannot change requests to an upstream that keeps its state: they pass as they came")
	}
	for i, r := range opts.Rules {
		if router.Remembers(r.Model) {
			return nil, nil, fmt.Errorf("antiphon: Options.Rules[%d]: the upstreams of %q keep their state, and what a rule sends on is remembered by the gateway", i, r.Model)
		}
	}
	gen.Router = router
	return gen, router, nil
}

// upstreamsOf is how the upstreams are treated.
func upstreamsOf(opts *Options) map[string]Upstream {
	if opts.Mode != ModeStrict {
		return opts.Upstreams
	}
	all := maps.Clone(opts.Upstreams)
	if all == nil {
		all = map[string]Upstream{}
	}
	for name := range opts.Drivers {
		u := all[name]
		u.Sanitize = true
		all[name] = u
	}
	return all
}

// Handler serves the API. It may be mounted in a server of the caller's own,
// which should then call Close.
func (g *Gateway) Handler() http.Handler { return g.server }

// AdminOptions configures [Gateway.Admin].
type AdminOptions = server.AdminOptions

// Reload is what came of reading a configuration again, and Problem why it was
// not taken over, for [AdminOptions].
type (
	Reload  = server.Reload
	Problem = server.Problem
)

// Admin serves those who look after the gateway: health, reloads, and what is
// mounted. It belongs on a listener of its own that clients do not reach.
func (g *Gateway) Admin(opts *AdminOptions) http.Handler { return g.server.Admin(opts) }

// TargetState is what a gateway knows of a target.
type TargetState = route.TargetState

// Targets returns how the targets of the models are doing.
func (g *Gateway) Targets() []TargetState {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.router.Targets()
}

// Serve serves the API on l until ctx ends, then lets streams finish for the
// drain time, and returns when all have ended. It closes l.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler:           g.server,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(g.logger.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	return g.shutDown(context.WithoutCancel(ctx), srv, failed)
}

// shutDown stops srv after its streams have ended, or were told to.
func (g *Gateway) shutDown(ctx context.Context, srv *http.Server, failed <-chan error) error {
	g.server.Drain()
	drain, cancel := context.WithTimeout(ctx, g.drain)
	defer cancel()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		if g.engine.Stop(drain) != nil {
			g.logger.Warn("drain time is over: the remaining responses were ended", "drain", g.drain)
		}
	}()
	// Streams that were cut short by the end of the drain still get their last
	// events out.
	linger, cancelLinger := context.WithTimeout(ctx, g.drain+5*time.Second)
	defer cancelLinger()
	err := srv.Shutdown(linger)
	if err != nil {
		err = errors.Join(err, srv.Close())
	}
	<-stopped
	<-failed
	return err
}

// Reload makes opts what new requests get; those that are running keep what they
// began with. It takes over drivers, models, rules, tools, the output mode, keys, hooks,
// origins, proxies and the time-outs of upstreams; the rest of opts cannot change while the gateway
// runs and is left as it is. The drivers and tools must be new ones: the old ones
// are closed when their last request has ended. If opts is not valid, nothing changes,
// and the caller closes its drivers and tools.
func (g *Gateway) Reload(opts *Options) error {
	if opts == nil || len(opts.Drivers) == 0 {
		return errNoDrivers
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errors.New("antiphon: the gateway is closed")
	}
	next, router, err := newGeneration(opts, g.router)
	if err != nil {
		return err
	}
	old, oldTools := g.router, g.tools
	drained := g.server.Use(next)
	g.router, g.tools = router, next.Tools
	g.retired.Go(func() {
		drained()
		if err := errors.Join(old.Close(), oldTools.Close()); err != nil {
			g.logger.Warn("something of the previous configuration did not close", "error", err)
		}
	})
	return nil
}

// Close ends what is running and closes the upstreams and the store.
func (g *Gateway) Close() error {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	_ = g.engine.Stop(now) // only reports that it had to cancel runs
	g.mu.Lock()
	first := !g.closed
	g.closed = true
	last, lastTools := g.router, g.tools
	g.mu.Unlock() // a request that holds a generation may be waiting to reload
	g.retired.Wait()
	err := errors.Join(last.Close(), lastTools.Close())
	if g.store != nil && first {
		err = errors.Join(err, g.store.Close())
	}
	return err
}
