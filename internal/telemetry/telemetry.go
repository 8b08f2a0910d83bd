package telemetry

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/internal/route"
	"github.com/antiphon-dev/antiphon/internal/server"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// Options configures [New]. The zero value is usable: metrics, and no traces.
type Options struct {
	// Version is that of the program.
	Version string
	// Traces says where spans go. Nil means nowhere.
	Traces *Traces
}

// Telemetry observes a gateway. It is safe for concurrent use.
type Telemetry struct {
	engine.NopObserver
	m                       *metrics
	tracer                  *tracer // nil: no traces
	models, fields, servers *names

	attempts sync.Map // of attemptKey → *attemptSeries
	known    sync.Map // of seriesKey → *series
	series   atomic.Int64
}

var (
	_ engine.Observer   = (*Telemetry)(nil)
	_ route.Observer    = (*Telemetry)(nil)
	_ server.Observer   = (*Telemetry)(nil)
	_ server.IDObserver = (*Telemetry)(nil)
)

const (
	maxModels = 500
	maxFields = 200
	// maxSeries bounds how many combinations of labels are kept at hand; beyond it
	// they are looked up.
	maxSeries = 10_000
)

// New returns telemetry. Close it when the gateway is closed.
func New(opts *Options) (*Telemetry, error) {
	if opts == nil {
		opts = &Options{}
	}
	t := &Telemetry{m: newMetrics(cmp.Or(opts.Version, "unknown")), models: newNames(maxModels), fields: newNames(maxFields), servers: newNames(maxFields)}
	if opts.Traces != nil {
		var err error
		if t.tracer, err = newTracer(opts.Traces, opts.Version); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Close sends what is left of the traces.
func (t *Telemetry) Close(ctx context.Context) error {
	if t.tracer == nil {
		return nil
	}
	return t.tracer.close(ctx)
}

// Handler serves the metrics.
func (t *Telemetry) Handler() http.Handler {
	return promhttp.InstrumentMetricHandler(t.m.registry, promhttp.HandlerFor(t.m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
}

// Targets adds the state of targets, which list returns.
func (t *Telemetry) Targets(list func() []route.TargetState) {
	t.m.registry.MustRegister(targets(list))
}

// Counter adds a number that only grows, which value returns.
func (t *Telemetry) Counter(name, help string, value func() int64) {
	t.m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(value()) }))
}

// Gauge adds a number, which value returns.
func (t *Telemetry) Gauge(name, help string, value func() int64) {
	t.m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) }))
}

// Reloaded tells that a configuration was taken over, or refused.
func (t *Telemetry) Reloaded(ok bool) {
	if !ok {
		t.m.reloads.WithLabelValues("refused").Inc()
		return
	}
	t.m.reloads.WithLabelValues("ok").Inc()
	t.m.reloaded.SetToCurrentTime()
}

// RequestStarted implements [server.Observer].
func (t *Telemetry) RequestStarted(ctx context.Context, r *http.Request) context.Context {
	t.m.inFlight.Inc()
	if t.tracer == nil {
		return ctx
	}
	return t.tracer.requestStarted(ctx, r)
}

// StreamStarted implements [server.Observer].
func (t *Telemetry) StreamStarted(context.Context) { t.m.streams.Inc() }

// IDsEvicted implements [server.IDObserver].
func (t *Telemetry) IDsEvicted(n int) { t.m.forgotten.Add(float64(n)) }

// seriesKey are the labels of a request that ended.
type seriesKey struct {
	route, model, upstream string
	status                 int
	cause                  engine.Cause
	code                   responses.Code
}

// series are the metrics of requests with the same labels, found once.
type series struct {
	requests                  prometheus.Counter
	duration, first, perToken prometheus.Observer // nil for what is no call of a model
	inputTokens, outputTokens prometheus.Observer
}

// operations are the routes that call a model, and what OpenTelemetry calls it.
var operations = map[string]string{"responses": "generate_content", "chat/completions": "chat", "embeddings": "embeddings"}

// RequestEnded implements [server.Observer].
func (t *Telemetry) RequestEnded(ctx context.Context, e *server.RequestEnd) {
	t.m.inFlight.Dec()
	if e.Stream {
		t.m.streams.Dec()
	}
	s := t.find(e)
	s.requests.Inc()
	if s.duration != nil {
		s.duration.Observe(e.Duration.Seconds())
	}
	if s.first != nil && e.FirstEvent > 0 {
		s.first.Observe(e.FirstEvent.Seconds())
	}
	if u := e.Usage; u != nil && s.inputTokens != nil {
		s.inputTokens.Observe(float64(u.InputTokens))
		s.outputTokens.Observe(float64(u.OutputTokens))
		if e.Stream && e.FirstEvent > 0 && u.OutputTokens > 1 {
			s.perToken.Observe((e.Duration - e.FirstEvent).Seconds() / float64(u.OutputTokens-1))
		}
	}
	if e.Limit != "" {
		t.m.limited.WithLabelValues(e.Limit).Inc()
	}
	for _, l := range e.Losses {
		t.m.losses.WithLabelValues(e.Upstream, t.fields.learn(field(l.Param))).Inc()
	}
	if e.Broken != nil && (e.Relayed || e.FirstEvent > 0) { // else the attempt told of it
		t.m.broken.WithLabelValues(e.Upstream, strconv.FormatBool(e.Relayed)).Inc()
	}
	if t.tracer != nil {
		t.tracer.requestEnded(ctx, e)
	}
}

// field is a request's member without the places inside it: tools[3].name is
// tools.name.
func field(param string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(param, "[") {
		if _, rest, ok := strings.Cut(part, "]"); ok {
			part = rest
		}
		b.WriteString(part)
	}
	return b.String()
}

// find returns the metrics of a request.
func (t *Telemetry) find(e *server.RequestEnd) *series {
	model := t.models.label(e.Model)
	if e.Upstream != "" && e.Status < http.StatusBadRequest {
		model = t.models.learn(e.Model)
	}
	k := seriesKey{e.Route, model, e.Upstream, e.Status, e.Cause, e.Code}
	if s, ok := t.known.Load(k); ok {
		return s.(*series)
	}
	s := t.make(k)
	if t.series.Add(1) <= maxSeries {
		t.known.Store(k, s)
	}
	return s
}

func (t *Telemetry) make(k seriesKey) *series {
	s := &series{requests: t.m.requests.WithLabelValues(cmp.Or(k.route, other), strconv.Itoa(k.status), string(k.cause))}
	method, path, _ := strings.Cut(k.route, " ")
	operation := operations[strings.TrimPrefix(strings.TrimPrefix(path, "/v1"), "/")]
	if method != http.MethodPost || operation == "" {
		return s
	}
	failed := string(k.code)
	if failed == "" && k.cause != engine.CauseCompleted && k.cause != engine.CauseIncomplete {
		failed = string(k.cause)
	}
	s.duration = t.m.duration.WithLabelValues(operation, k.model, k.upstream, failed)
	if k.upstream == "" {
		return s
	}
	s.first = t.m.first.WithLabelValues(operation, k.model, k.upstream)
	s.perToken = t.m.perToken.WithLabelValues(operation, k.model, k.upstream)
	s.inputTokens = t.m.tokens.WithLabelValues(operation, k.model, k.upstream, "input")
	s.outputTokens = t.m.tokens.WithLabelValues(operation, k.model, k.upstream, "output")
	return s
}

// attemptSeries are the metrics of attempts with the same labels, found once.
type attemptSeries struct {
	count, commits prometheus.Counter
	duration       prometheus.Observer
}

type attemptKey struct{ upstream, outcome string }

// findAttempts returns the metrics of attempts on an upstream with an outcome. Both
// are few: one is a name of the configuration, the other of a closed list.
func (t *Telemetry) findAttempts(upstream, outcome string) *attemptSeries {
	k := attemptKey{upstream, outcome}
	if s, ok := t.attempts.Load(k); ok {
		return s.(*attemptSeries)
	}
	s := &attemptSeries{
		count: t.m.attempts.WithLabelValues(upstream, outcome), commits: t.m.commits.WithLabelValues(upstream), duration: t.m.attempted.WithLabelValues(upstream),
	}
	t.attempts.Store(k, s)
	return s
}

// AttemptStarted implements [route.Observer].
func (t *Telemetry) AttemptStarted(ctx context.Context, a *route.Attempt) context.Context {
	if a.Number > 0 {
		t.m.retries.WithLabelValues(a.Upstream).Inc()
	}
	if t.tracer == nil {
		return ctx
	}
	return t.tracer.attemptStarted(ctx, a)
}

// AttemptEnded implements [route.Observer].
func (t *Telemetry) AttemptEnded(ctx context.Context, a *route.Attempt) {
	outcome := "ok"
	if a.Err != nil {
		outcome = string(responses.AsError(a.Err).Code)
		switch {
		case errors.Is(a.Err, upstream.ErrAccount):
			outcome = "account"
		case errors.Is(a.Err, upstream.ErrUnreachable):
			outcome = "unreachable"
		case errors.Is(a.Err, upstream.ErrGrammar):
			t.m.broken.WithLabelValues(a.Upstream, "false").Inc()
		}
	}
	s := t.findAttempts(a.Upstream, outcome)
	s.count.Inc()
	s.duration.Observe(a.Duration.Seconds())
	if a.Began {
		s.commits.Inc()
		if a.Number > 0 {
			t.m.failovers.WithLabelValues(a.Upstream).Inc()
		}
	}
	if t.tracer != nil {
		t.tracer.attemptEnded(ctx, a)
	}
}
