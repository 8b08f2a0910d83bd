package telemetry_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/internal/route"
	"github.com/antiphon-dev/antiphon/internal/server"
	"github.com/antiphon-dev/antiphon/internal/telemetry"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
)

var goVersion = runtime.Version()

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTelemetry(t *testing.T) *telemetry.Telemetry {
	t.Helper()
	tel, err := telemetry.New(&telemetry.Options{Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	return tel
}

// scrape returns the metrics as Prometheus gets them.
func scrape(t *testing.T, tel *telemetry.Telemetry) string {
	t.Helper()
	w := httptest.NewRecorder()
	tel.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatal(w.Code, err)
	}
	return string(body)
}

func want(t *testing.T, metrics string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(metrics, "\n"+line+"\n") {
			t.Errorf("there is no line %s", line)
		}
	}
}

// TestRequestsAreCounted: what a request was, how it ended and what it cost is in
// the metrics (R35).
func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t)
	r := httptest.NewRequest(http.MethodPost, "/v1/responses", nil)
	ctx := tel.RequestStarted(t.Context(), r)
	tel.StreamStarted(ctx)
	want(t, scrape(t, tel), "antiphon_requests_in_flight 1", "antiphon_streams_open 1")
	tel.RequestEnded(ctx, &server.RequestEnd{
		Route: "POST /v1/responses", Status: 200, Model: "m", Upstream: "u", Stream: true, Cause: engine.CauseCompleted,
		Usage:  &responses.Usage{InputTokens: 10, OutputTokens: 5},
		Losses: []responses.Loss{{Param: "tools[3].filters"}},
		Broken: errors.New("late"), Relayed: true,
		FirstEvent: time.Second, Duration: 3 * time.Second,
	})
	tel.RequestEnded(tel.RequestStarted(t.Context(), r), &server.RequestEnd{Route: "POST /v1/responses", Status: 429, Model: "m", Cause: "", Code: responses.CodeRateLimit, Limit: "concurrent", Duration: time.Second})
	tel.RequestEnded(tel.RequestStarted(t.Context(), r), &server.RequestEnd{Route: "GET /v1/models", Status: 200})
	const labels = `gen_ai_operation_name="generate_content",gen_ai_provider_name="u",gen_ai_request_model="m"`
	want(t, scrape(t, tel),
		"antiphon_requests_in_flight 0", "antiphon_streams_open 0",
		`antiphon_requests_total{cause="completed",route="POST /v1/responses",status="200"} 1`,
		`antiphon_requests_total{cause="",route="POST /v1/responses",status="429"} 1`,
		`antiphon_requests_total{cause="",route="GET /v1/models",status="200"} 1`,
		`gen_ai_client_token_usage_sum{`+labels+`,gen_ai_token_type="input"} 10`,
		`gen_ai_client_token_usage_sum{`+labels+`,gen_ai_token_type="output"} 5`,
		`gen_ai_server_time_to_first_token_seconds_sum{`+labels+`} 1`,
		`gen_ai_server_time_per_output_token_seconds_sum{`+labels+`} 0.5`,
		`gen_ai_server_request_duration_seconds_sum{error_type="",`+labels+`} 3`,
		`gen_ai_server_request_duration_seconds_sum{error_type="rate_limit_exceeded",gen_ai_operation_name="generate_content",gen_ai_provider_name="",gen_ai_request_model="m"} 1`,
		`antiphon_limited_requests_total{limit="concurrent"} 1`,
		`antiphon_losses_total{field="tools.filters",upstream="u"} 1`,
		`antiphon_grammar_violations_total{relayed="true",upstream="u"} 1`,
		`antiphon_build_info{go_version="`+goVersion+`",version="1.2.3"} 1`,
	)
}

// TestAttemptsAreCounted: each try of an upstream, what came of it, and that
// another one took over (R32, R35).
func TestAttemptsAreCounted(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t)
	first := &route.Attempt{Model: "m", Upstream: "a", Number: 0, Duration: time.Second, Err: responses.UpstreamErrorf(responses.CodeOverloaded, "no")}
	tel.AttemptEnded(tel.AttemptStarted(t.Context(), first), first)
	gone := &route.Attempt{Model: "m", Upstream: "a", Err: responses.UpstreamErrorf(responses.CodeUpstream, "no").WithCause(upstream.ErrUnreachable)}
	tel.AttemptEnded(tel.AttemptStarted(t.Context(), gone), gone)
	broken := &route.Attempt{Model: "m", Upstream: "b", Number: 1, Err: responses.UpstreamErrorf(responses.CodeUpstream, "x").WithCause(upstream.ErrGrammar)}
	tel.AttemptEnded(tel.AttemptStarted(t.Context(), broken), broken)
	last := &route.Attempt{Model: "m", Upstream: "c", Number: 2, Began: true}
	tel.AttemptEnded(tel.AttemptStarted(t.Context(), last), last)
	tel.Targets(func() []route.TargetState {
		return []route.TargetState{{Upstream: "a", Up: false, Ejections: 2}, {Upstream: "b", Model: "x", Up: true, InFlight: 3}}
	})
	tel.Reloaded(true)
	tel.Reloaded(false)
	want(t, scrape(t, tel),
		`antiphon_attempts_total{outcome="server_is_overloaded",upstream="a"} 1`,
		`antiphon_attempts_total{outcome="unreachable",upstream="a"} 1`,
		`antiphon_attempts_total{outcome="ok",upstream="c"} 1`,
		`antiphon_retries_total{upstream="b"} 1`, `antiphon_retries_total{upstream="c"} 1`,
		`antiphon_failovers_total{upstream="c"} 1`, `antiphon_commits_total{upstream="c"} 1`,
		`antiphon_grammar_violations_total{relayed="false",upstream="b"} 1`,
		`antiphon_target_up{model="*",upstream="a"} 0`, `antiphon_target_up{model="x",upstream="b"} 1`,
		`antiphon_target_in_flight{model="x",upstream="b"} 3`, `antiphon_ejections_total{model="*",upstream="a"} 2`,
		`antiphon_config_reloads_total{outcome="ok"} 1`, `antiphon_config_reloads_total{outcome="refused"} 1`,
	)
}

// TestForgottenIDsAreCounted: what clients can no longer reach at upstreams that
// remember is in the metrics (R35, R40).
func TestForgottenIDsAreCounted(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t)
	want(t, scrape(t, tel), "antiphon_upstream_ids_evicted_total 0")
	tel.IDsEvicted(3)
	tel.IDsEvicted(4)
	want(t, scrape(t, tel), "antiphon_upstream_ids_evicted_total 7")
}

// TestLabelsAreBounded: clients that make up names of models do not make up
// series (R35).
func TestLabelsAreBounded(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t)
	end := func(model, upstream string, status int) {
		tel.RequestEnded(t.Context(), &server.RequestEnd{Route: "POST /v1/responses", Status: status, Model: model, Upstream: upstream, Cause: engine.CauseCompleted})
	}
	end("real", "u", 200)
	for i := range 2000 {
		end(fmt.Sprint("made-up-", i), "", 404)
	}
	for i := range 2000 {
		end(fmt.Sprint("passed-", i), "u", 200) // an upstream that takes every name
	}
	end("real", "u", 200)
	metrics := scrape(t, tel)
	if strings.Contains(metrics, "made-up") {
		t.Error("a name that no upstream answered to is a label")
	}
	if n := strings.Count(metrics, "gen_ai_server_request_duration_seconds_count"); n > 510 {
		t.Errorf("%d series", n)
	}
	want(t, metrics, `gen_ai_server_request_duration_seconds_count{error_type="",gen_ai_operation_name="generate_content",gen_ai_provider_name="u",gen_ai_request_model="real"} 2`)
}

// TestStoreIsMeasured: the wrapper changes nothing but the metrics (R41).
func TestStoreIsMeasured(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t)
	s := tel.Store(memstore.NewStore(nil))
	if _, err := s.Get(t.Context(), "o", "resp_1"); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	if err := s.Create(t.Context(), "o", &store.Record{ID: responses.NewID(responses.PrefixResponse, 0, time.Now())}); err != nil {
		t.Error(err)
	}
	want(t, scrape(t, tel),
		`antiphon_store_operation_duration_seconds_count{operation="get",outcome="not_found"} 1`,
		`antiphon_store_operation_duration_seconds_count{operation="create",outcome="ok"} 1`)
}

// TestToolsAreMeasured: calls that the gateway runs are counted by their outcome
// (R43).
func TestToolsAreMeasured(t *testing.T) {
	t.Parallel()
	tel := newTelemetry(t)
	r := &engine.RunInfo{}
	outcomes := []engine.ToolOutcome{engine.ToolOK, engine.ToolError, engine.ToolFailed, engine.ToolTimeout}
	for _, outcome := range outcomes {
		ctx := tel.RoundStarted(t.Context(), r, 0)
		tel.ToolEnded(tel.ToolStarted(ctx, r, "files", "read"), r, &engine.ToolEnd{Label: "files", Name: "read", Outcome: outcome, Duration: time.Second})
		tel.RoundEnded(ctx, r, 0, nil)
	}
	metrics := scrape(t, tel)
	for _, outcome := range outcomes {
		want(t, metrics, `antiphon_tool_call_duration_seconds_sum{outcome="`+string(outcome)+`",server="files"} 1`)
	}
}
