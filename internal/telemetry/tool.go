package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/antiphon-dev/antiphon/tool"
)

// Executor returns e with its calls measured and traced.
func (t *Telemetry) Executor(e tool.Executor) tool.Executor { return &measuredExecutor{e, t} }

type measuredExecutor struct {
	tool.Executor
	t *Telemetry
}

// Open implements [tool.Executor].
func (e *measuredExecutor) Open(ctx context.Context, a *tool.Ask) (*tool.Set, error) {
	set, err := e.Executor.Open(ctx, a)
	if err != nil {
		return nil, err
	}
	measured := *set
	measured.Run = func(ctx context.Context, c *tool.Call) (*tool.Result, error) { return e.run(ctx, set, c) }
	return &measured, nil
}

// run runs a call. Its label is that of an operator's server; those that clients
// bring along are told apart only so far as there are few of them.
func (e *measuredExecutor) run(ctx context.Context, set *tool.Set, c *tool.Call) (*tool.Result, error) {
	label := set.Label
	if label == "" {
		label = tool.DefaultLabel
	}
	var span trace.Span
	if e.t.tracer != nil {
		ctx, span = e.t.tracer.Start(ctx, "execute_tool "+c.Name, trace.WithAttributes(
			attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", c.Name), attribute.String("antiphon.server_label", label)))
		defer span.End()
	}
	began := time.Now()
	result, err := set.Run(ctx, c)
	outcome := "ok"
	switch {
	case errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil:
		outcome = "timeout"
	case err != nil:
		outcome = "failed"
	case result.IsError:
		outcome = "tool_error"
	}
	if span != nil {
		span.SetAttributes(attribute.String("antiphon.outcome", outcome))
		fail(span, err)
	}
	e.t.m.tools.WithLabelValues(e.t.servers.learn(label), outcome).Observe(time.Since(began).Seconds())
	return result, err
}
