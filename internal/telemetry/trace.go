package telemetry

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/antiphon-dev/antiphon/internal/route"
	"github.com/antiphon-dev/antiphon/internal/server"
	"github.com/antiphon-dev/antiphon/responses"
)

// Traces says where spans go, by OTLP over HTTP.
type Traces struct {
	// Endpoint is the URL that takes spans, such as http://127.0.0.1:4318/v1/traces.
	Endpoint string
	// Headers are sent along, such as a credential.
	Headers map[string]string
	// Sample is the share of requests that are traced, from 0 to 1, where the client
	// has not decided.
	Sample float64
}

// tracer makes spans: one for each request, whose parent is the client's; below it
// one for each attempt on an upstream, each round of the tool loop and each tool
// call.
//
// Whether a request is traced is decided before anything is made for it: most are
// not, and they should cost nothing.
type tracer struct {
	provider *sdk.TracerProvider
	trace.Tracer
	context propagation.TraceContext
	sample  float64
}

func newTracer(t *Traces, version string) (*tracer, error) {
	exporter, err := otlptracehttp.New(context.Background(), otlptracehttp.WithEndpointURL(t.Endpoint), otlptracehttp.WithHeaders(t.Headers))
	if err != nil {
		return nil, err
	}
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(exporter),
		sdk.WithSampler(sdk.AlwaysSample()), // what is not to be traced does not get here
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", "antiphon"), attribute.String("service.version", cmp.Or(version, "unknown")))),
	)
	return &tracer{provider: provider, Tracer: provider.Tracer("github.com/antiphon-dev/antiphon"), sample: t.Sample}, nil
}

func (t *tracer) close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// Inject puts the trace into the headers of a request to a trusted upstream.
func (t *Telemetry) Inject(ctx context.Context, h http.Header) {
	if t.tracer != nil {
		t.tracer.context.Inject(ctx, propagation.HeaderCarrier(h))
	}
}

func (t *tracer) requestStarted(ctx context.Context, r *http.Request) context.Context {
	if strings.HasSuffix(r.URL.Path, "/healthz") || strings.HasSuffix(r.URL.Path, "/readyz") {
		return ctx
	}
	if r.Header["Traceparent"] != nil {
		ctx = t.context.Extract(ctx, propagation.HeaderCarrier(r.Header))
	}
	parent := trace.SpanContextFromContext(ctx)
	if parent.IsValid() && !parent.IsSampled() || !parent.IsValid() && rand.Float64() >= t.sample {
		return ctx
	}
	ctx, _ = t.Start(ctx, r.Method, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.String("http.request.method", r.Method)))
	return ctx
}

// below starts a span below the one of the request, if that is traced.
func (t *tracer) below(ctx context.Context, name string, opts ...trace.SpanStartOption) context.Context {
	if trace.SpanContextFromContext(ctx).IsSampled() {
		ctx, _ = t.Start(ctx, name, opts...)
	}
	return ctx
}

func (t *tracer) requestEnded(ctx context.Context, e *server.RequestEnd) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetName(cmp.Or(e.Route, other))
	span.SetAttributes(
		attribute.String("http.route", e.Route),
		attribute.Int("http.response.status_code", e.Status),
		attribute.String("gen_ai.request.model", e.Model),
		attribute.String("gen_ai.provider.name", e.Upstream),
		attribute.Bool("antiphon.stream", e.Stream),
		attribute.Bool("antiphon.relayed", e.Relayed),
		attribute.String("antiphon.cause", string(e.Cause)),
	)
	if u := e.Usage; u != nil {
		span.SetAttributes(attribute.Int64("gen_ai.usage.input_tokens", u.InputTokens), attribute.Int64("gen_ai.usage.output_tokens", u.OutputTokens))
	}
	if e.Code != "" {
		span.SetAttributes(attribute.String("error.type", string(e.Code)))
		span.SetStatus(codes.Error, string(e.Code))
	}
	span.End()
}

func (t *tracer) attemptStarted(ctx context.Context, a *route.Attempt) context.Context {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx
	}
	return t.below(ctx, "attempt "+a.Upstream, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("gen_ai.provider.name", a.Upstream),
		attribute.String("gen_ai.request.model", a.Target),
		attribute.Int("antiphon.attempt", a.Number),
	))
}

func (t *tracer) attemptEnded(ctx context.Context, a *route.Attempt) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.Bool("antiphon.committed", a.Began))
	fail(span, a.Err)
	span.End()
}

// fail marks a span as failed, with the error's code and never its text, which may
// be an upstream's prose.
func fail(span trace.Span, err error) {
	if err == nil {
		return
	}
	code := string(responses.AsError(err).Code)
	span.SetAttributes(attribute.String("error.type", code))
	span.SetStatus(codes.Error, code)
}
