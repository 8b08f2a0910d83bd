package standard

import (
	"cmp"
	"context"
	"net/http"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/internal/telemetry"
	"github.com/antiphon-dev/antiphon/store/memstore"
)

// Telemetry is the metrics and traces of a gateway. Nil means none.
type Telemetry struct{ *telemetry.Telemetry }

// NewTelemetry returns the metrics and the traces that c asks for. Close it after
// the gateway.
func NewTelemetry(c *config.Config, version string) (*Telemetry, error) {
	opts := &telemetry.Options{Version: version}
	if c.Traces.Endpoint != "" {
		headers := make(map[string]string, len(c.Traces.Headers))
		for name, value := range c.Traces.Headers {
			headers[name] = value.Reveal()
		}
		opts.Traces = &telemetry.Traces{Endpoint: c.Traces.Endpoint, Headers: headers, Sample: float64(cmp.Or(c.Traces.Percent, 100)) / 100}
	}
	t, err := telemetry.New(opts)
	if err != nil {
		return nil, err
	}
	return &Telemetry{t}, nil
}

// Reloaded tells that a configuration was taken over, or refused.
func (t *Telemetry) Reloaded(ok bool) {
	if t != nil {
		t.Telemetry.Reloaded(ok)
	}
}

// observer returns who observes: the one that was asked for, or t.
func (t *Telemetry) observer(asked antiphon.Observer) antiphon.Observer {
	if asked != nil || t == nil {
		return asked
	}
	return t.Telemetry
}

// inject returns what tells a trusted upstream of the trace.
func (t *Telemetry) inject() func(context.Context, http.Header) {
	if t == nil {
		return nil
	}
	return t.Inject
}

// watch makes the gateway, with its store measured and its state collected.
func (t *Telemetry) watch(o *antiphon.Options) (*antiphon.Gateway, error) {
	if t == nil {
		return antiphon.New(o)
	}
	if w, ok := o.Log.(*memstore.Window); ok {
		t.Counter("antiphon_window_stalls_total", "How often an upstream had to wait for a client that reads slowly.", w.Stalls)
	}
	if s, ok := o.Store.(*memstore.Store); ok {
		t.Gauge("antiphon_memory_store_bytes", "What the store in memory holds.", func() int64 { return s.Stats().Bytes })
		t.Counter("antiphon_memory_store_evictions_total", "Responses and conversations that the store in memory let go for want of room.", func() int64 {
			stats := s.Stats()
			return stats.EvictedResponses + stats.EvictedConversations
		})
	}
	if o.Store != nil {
		o.Store = t.Store(o.Store)
	}
	g, err := antiphon.New(o)
	if err == nil {
		t.Targets(g.Targets)
	}
	return g, err
}
