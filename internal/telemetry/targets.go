package telemetry

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/antiphon-dev/antiphon/internal/route"
)

var (
	targetUp        = prometheus.NewDesc("antiphon_target_up", "1 if a target gets requests, 0 while it is left alone.", []string{"upstream", "model"}, nil)
	targetInFlight  = prometheus.NewDesc("antiphon_target_in_flight", "Requests that a target is answering.", []string{"upstream", "model"}, nil)
	targetEjections = prometheus.NewDesc("antiphon_ejections_total", "How often a target was ejected.", []string{"upstream", "model"}, nil)
)

// targets collects the state of targets when it is asked for.
type targets func() []route.TargetState

// Describe implements [prometheus.Collector].
func (targets) Describe(ch chan<- *prometheus.Desc) {
	ch <- targetUp
	ch <- targetInFlight
	ch <- targetEjections
}

// Collect implements [prometheus.Collector].
func (f targets) Collect(ch chan<- prometheus.Metric) {
	for _, t := range f() {
		model := cmp.Or(t.Model, "*") // whatever the client asks for
		up := 0.0
		if t.Up {
			up = 1
		}
		ch <- prometheus.MustNewConstMetric(targetUp, prometheus.GaugeValue, up, t.Upstream, model)
		ch <- prometheus.MustNewConstMetric(targetInFlight, prometheus.GaugeValue, float64(t.InFlight), t.Upstream, model)
		ch <- prometheus.MustNewConstMetric(targetEjections, prometheus.CounterValue, float64(t.Ejections), t.Upstream, model)
	}
}
