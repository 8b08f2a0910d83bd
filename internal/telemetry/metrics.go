package telemetry

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Buckets of histograms. Those of durations span what a health check and an hour
// of reasoning take; those of tokens are powers of four.
var (
	secondsBuckets  = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}
	perTokenBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
	tokenBuckets    = []float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576}
	storeBuckets    = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 30}
)

// genAI are the labels of OpenTelemetry's metrics for generative AI.
var genAI = []string{"gen_ai_operation_name", "gen_ai_request_model", "gen_ai_provider_name"}

// metrics are the gateway's own. The names are a contract: deploy/ and
// docs/operating.md use them, and a test there fails when one is gone.
type metrics struct {
	registry *prometheus.Registry

	duration  *prometheus.HistogramVec // gen_ai_server_*
	first     *prometheus.HistogramVec
	perToken  *prometheus.HistogramVec
	tokens    *prometheus.HistogramVec
	requests  *prometheus.CounterVec
	inFlight  prometheus.Gauge
	streams   prometheus.Gauge
	losses    *prometheus.CounterVec
	broken    *prometheus.CounterVec
	attempts  *prometheus.CounterVec
	attempted *prometheus.HistogramVec
	retries   *prometheus.CounterVec
	failovers *prometheus.CounterVec
	commits   *prometheus.CounterVec
	store     *prometheus.HistogramVec
	full      prometheus.Counter
	limited   *prometheus.CounterVec
	tools     *prometheus.HistogramVec
	tooLarge  *prometheus.CounterVec
	forgotten prometheus.Counter
	reloads   *prometheus.CounterVec
	reloaded  prometheus.Gauge
}

func newMetrics(version string) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	m.duration = m.histogram("gen_ai_server_request_duration_seconds", "Time that requests took, by how they ended: error_type is empty for those that ended well.", secondsBuckets, append(genAI, "error_type")...)
	m.first = m.histogram("gen_ai_server_time_to_first_token_seconds", "Time until the model's answer began.", secondsBuckets, genAI...)
	m.perToken = m.histogram("gen_ai_server_time_per_output_token_seconds", "Time per output token after the first.", perTokenBuckets, genAI...)
	m.tokens = m.histogram("gen_ai_client_token_usage", "Tokens of a request, by type: input or output. The sum is the consumption.", tokenBuckets, append(genAI, "gen_ai_token_type")...)

	m.requests = m.counter("antiphon_requests_total", "Requests by route, HTTP status (0: the client left before) and cause of the response's end (empty: there was no response).", "route", "status", "cause")
	m.inFlight = m.gauge("antiphon_requests_in_flight", "Requests that are being served.")
	m.streams = m.gauge("antiphon_streams_open", "Event streams that are open to clients.")
	m.limited = m.counter("antiphon_limited_requests_total", "Requests that a limit of their key did not let pass, by the limit: requests_per_minute, tokens_per_minute or concurrent.", "limit")
	m.losses = m.counter("antiphon_losses_total", "Fields of requests that an upstream did not honour.", "upstream", "field")
	m.broken = m.counter("antiphon_grammar_violations_total", "Answers of an upstream that broke the order of events. Relayed ones passed all the same; others failed.", "upstream", "relayed")

	m.attempts = m.counter("antiphon_attempts_total", "Calls of upstreams by outcome: ok, account if the gateway's credential was refused, unreachable if there was no answer at all, else the code of the error.", "upstream", "outcome")
	m.attempted = m.histogram("antiphon_attempt_duration_seconds", "Time until an upstream began to answer, or failed before.", secondsBuckets, "upstream")
	m.retries = m.counter("antiphon_retries_total", "Calls of an upstream after another call for the same request had failed.", "upstream")
	m.failovers = m.counter("antiphon_failovers_total", "Requests that an upstream answered after others had failed.", "upstream")
	m.commits = m.counter("antiphon_commits_total", "Answers of an upstream that began: from then on there is no failover.", "upstream")

	m.store = m.histogram("antiphon_store_operation_duration_seconds", "Time of store operations by outcome: ok, not_found, refused, unavailable or error.", storeBuckets, "operation", "outcome")
	m.full = m.count("antiphon_store_full_total", "Store operations that were unavailable because the store has no room: a full disk, or all the memory that it may use.")
	m.tools = m.histogram("antiphon_tool_call_duration_seconds", "Time of tool calls that the gateway ran, by server_label and outcome: ok, tool_error, failed or timeout.", secondsBuckets, "server", "outcome")
	m.tooLarge = m.counter("antiphon_tool_results_too_large_total", "Tool calls that failed because their result was larger than tools.limits.output_bytes, by server_label.", "server")

	m.forgotten = m.count("antiphon_upstream_ids_evicted_total", "Ids of upstreams that remember which were forgotten because there were too many: to clients they are gone.")

	m.reloads = m.counter("antiphon_config_reloads_total", "Attempts to take over a configuration, by outcome: ok or refused.", "outcome")
	m.reloaded = m.gauge("antiphon_config_last_reload_success_timestamp_seconds", "When a configuration was last taken over.")
	m.reloads.WithLabelValues("ok")
	m.reloads.WithLabelValues("refused")

	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "antiphon_build_info", Help: "The version that is running; always 1."}, []string{"version", "go_version"})
	build.WithLabelValues(version, runtime.Version()).Set(1)
	m.registry.MustRegister(build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *metrics) count(name, help string) prometheus.Counter {
	v := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.registry.MustRegister(v)
	return v
}

func (m *metrics) gauge(name, help string) prometheus.Gauge {
	v := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	m.registry.MustRegister(v)
	return v
}

func (m *metrics) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(v)
	return v
}
