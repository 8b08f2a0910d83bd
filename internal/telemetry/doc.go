// Package telemetry turns what the gateway tells its observers into metrics and
// traces. The layers below declare hooks and import no metrics library; this is
// the only package that does.
//
//	server ─ RequestStarted, StreamStarted, RequestEnded ─┐
//	route ── AttemptStarted, AttemptEnded ────────────────┼─► Telemetry ─► /metrics (Prometheus)
//	engine ─ Round…, ToolStarted, ToolEnded ──────────────┤            └─► OTLP/HTTP (traces)
//	store ── a wrapper around the store ──────────────────┘
//
// Labels are names from the configuration and closed lists. What clients write,
// such as a model's name, becomes a label only once an upstream has answered to
// it, and only so often (see names). Never a key, a body, a user or a response id.
package telemetry
