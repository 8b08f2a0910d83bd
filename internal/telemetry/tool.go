package telemetry

import (
	"context"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/antiphon-dev/antiphon/internal/engine"
)

var _ engine.ToolObserver = (*Telemetry)(nil)

// RoundStarted implements [engine.ToolObserver].
func (t *Telemetry) RoundStarted(ctx context.Context, _ *engine.RunInfo, round int) context.Context {
	if t.tracer != nil {
		ctx = t.tracer.below(ctx, "round "+strconv.Itoa(round), trace.WithAttributes(attribute.Int("antiphon.round", round)))
	}
	return ctx
}

// RoundEnded implements [engine.ToolObserver].
func (t *Telemetry) RoundEnded(ctx context.Context, _ *engine.RunInfo, _ int, err error) {
	if t.tracer != nil {
		span := trace.SpanFromContext(ctx)
		fail(span, err)
		span.End()
	}
}

// ToolStarted implements [engine.ToolObserver].
func (t *Telemetry) ToolStarted(ctx context.Context, _ *engine.RunInfo, label, name string) context.Context {
	if t.tracer != nil {
		ctx = t.tracer.below(ctx, "execute_tool "+name, trace.WithAttributes(
			attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", name), attribute.String("antiphon.server_label", label)))
	}
	return ctx
}

// ToolEnded implements [engine.ToolObserver]. A server that a client brought along
// is told apart only so far as there are few of them.
func (t *Telemetry) ToolEnded(ctx context.Context, _ *engine.RunInfo, e *engine.ToolEnd) {
	t.m.tools.WithLabelValues(t.servers.learn(e.Label), string(e.Outcome)).Observe(e.Duration.Seconds())
	if e.TooLarge {
		t.m.tooLarge.WithLabelValues(t.servers.learn(e.Label)).Inc()
	}
	if t.tracer == nil {
		return
	}
	span := trace.SpanFromContext(ctx)
	if e.Outcome != engine.ToolOK {
		span.SetAttributes(attribute.String("error.type", string(e.Outcome)))
		span.SetStatus(codes.Error, string(e.Outcome))
	}
	span.End()
}
