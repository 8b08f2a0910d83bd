package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/antiphon-dev/antiphon/internal/promtext"
)

// A view is what happened between two scrapes.
type view struct {
	at               time.Time
	version          string
	inFlight         float64
	streams          float64
	requests         float64 // a second, and so are all the rates
	failed           float64
	tokensIn         float64
	tokensOut        float64
	firstP50         float64 // seconds; NaN if nothing began
	firstP95         float64
	ends             []ended
	targets          []watchedTarget
	storeBad, stalls float64
}

// ended are requests that did not end well, with the same status and cause.
type ended struct {
	status, cause string
	rate, total   float64
}

// watchedTarget is a target of a pool. What is known of its upstream only is the
// same for all its targets.
type watchedTarget struct {
	upstream, model           string
	up                        bool
	inFlight, ejections       float64
	calls, failures, beginP95 float64
	outcomes                  map[string]float64
}

// newView compares two scrapes.
func newView(before, now *scrape) *view {
	seconds := max(now.at.Sub(before.at).Seconds(), 1e-3)
	d := newDeltas(before.metrics)
	v := &view{at: now.at}
	first := map[float64]float64{}
	begin := map[string]map[float64]float64{}
	targets := map[[2]string]*watchedTarget{}
	ends := map[[2]string]*ended{}
	for i := range now.metrics.Samples {
		s := &now.metrics.Samples[i]
		rate := d.of(s) / seconds
		switch s.Name {
		case "antiphon_build_info":
			v.version = s.Labels["version"]
		case "antiphon_requests_in_flight":
			v.inFlight = s.Value
		case "antiphon_streams_open":
			v.streams = s.Value
		case "antiphon_window_stalls_total":
			v.stalls = rate
		case "antiphon_requests_total":
			v.request(s, rate, ends)
		case "gen_ai_client_token_usage_sum":
			if s.Labels["gen_ai_token_type"] == "input" {
				v.tokensIn += rate
			} else {
				v.tokensOut += rate
			}
		case "gen_ai_server_time_to_first_token_seconds_bucket":
			addBucket(first, s, rate)
		case "antiphon_attempt_duration_seconds_bucket":
			u := s.Labels["upstream"]
			if begin[u] == nil {
				begin[u] = map[float64]float64{}
			}
			addBucket(begin[u], s, rate)
		case "antiphon_store_operation_duration_seconds_count":
			if o := s.Labels["outcome"]; o == "unavailable" || o == "error" {
				v.storeBad += rate
			}
		case "antiphon_target_up", "antiphon_target_in_flight", "antiphon_ejections_total":
			targetOf(targets, s).note(s)
		}
	}
	v.firstP50, v.firstP95 = quantile(first, .5), quantile(first, .95)
	v.addTargets(targets, begin, attempts(now.metrics, d, seconds))
	for _, e := range ends {
		v.ends = append(v.ends, *e)
	}
	slices.SortFunc(v.ends, func(a, b ended) int {
		return cmp.Or(cmp.Compare(b.rate, a.rate), cmp.Compare(b.total, a.total), cmp.Compare(a.status+a.cause, b.status+b.cause))
	})
	return v
}

// request counts requests of one series.
func (v *view) request(s *promtext.Sample, rate float64, ends map[[2]string]*ended) {
	v.requests += rate
	status, cause := s.Labels["status"], s.Labels["cause"]
	well := cause == "" || cause == "completed" || cause == "incomplete"
	if code, _ := strconv.Atoi(status); code != 0 && code < 400 && well {
		return
	}
	v.failed += rate
	k := [2]string{status, cause}
	if ends[k] == nil {
		ends[k] = &ended{status: status, cause: cause}
	}
	ends[k].rate += rate
	ends[k].total += s.Value
}

func targetOf(all map[[2]string]*watchedTarget, s *promtext.Sample) *watchedTarget {
	k := [2]string{s.Labels["upstream"], s.Labels["model"]}
	if all[k] == nil {
		all[k] = &watchedTarget{upstream: k[0], model: k[1]}
	}
	return all[k]
}

func (t *watchedTarget) note(s *promtext.Sample) {
	switch s.Name {
	case "antiphon_target_up":
		t.up = s.Value != 0
	case "antiphon_target_in_flight":
		t.inFlight = s.Value
	default:
		t.ejections = s.Value
	}
}

// attempts are the rates of calls of each upstream by their outcome.
func attempts(m *promtext.Metrics, d *deltas, seconds float64) map[string]map[string]float64 {
	all := map[string]map[string]float64{}
	for i := range m.Samples {
		s := &m.Samples[i]
		if s.Name != "antiphon_attempts_total" {
			continue
		}
		u := s.Labels["upstream"]
		if all[u] == nil {
			all[u] = map[string]float64{}
		}
		all[u][s.Labels["outcome"]] += d.of(s) / seconds
	}
	return all
}

func (v *view) addTargets(targets map[[2]string]*watchedTarget, begin map[string]map[float64]float64, outcomes map[string]map[string]float64) {
	for _, t := range targets {
		t.outcomes = map[string]float64{}
		for outcome, rate := range outcomes[t.upstream] {
			t.calls += rate
			if outcome != "ok" {
				t.failures += rate
				t.outcomes[outcome] = rate
			}
		}
		t.beginP95 = quantile(begin[t.upstream], .95)
		v.targets = append(v.targets, *t)
	}
	slices.SortFunc(v.targets, func(a, b watchedTarget) int {
		return cmp.Or(cmp.Compare(a.upstream, b.upstream), cmp.Compare(a.model, b.model))
	})
}

// deltas say how much counters have grown.
type deltas struct{ before map[string]float64 }

func newDeltas(before *promtext.Metrics) *deltas {
	d := &deltas{make(map[string]float64, len(before.Samples))}
	for i := range before.Samples {
		d.before[before.Samples[i].String()] = before.Samples[i].Value
	}
	return d
}

// of returns how much a counter has grown. One that is smaller than before began
// anew, with the gateway.
func (d *deltas) of(s *promtext.Sample) float64 {
	if was := d.before[s.String()]; was <= s.Value {
		return s.Value - was
	}
	return s.Value
}

func addBucket(buckets map[float64]float64, s *promtext.Sample, n float64) {
	if le, err := strconv.ParseFloat(s.Labels["le"], 64); err == nil {
		buckets[le] += n
	}
}

// quantile estimates a quantile from cumulative buckets, as Prometheus does: evenly
// within a bucket. It is NaN if there is nothing in them.
func quantile(buckets map[float64]float64, q float64) float64 {
	bounds := slices.Sorted(maps.Keys(buckets))
	if len(bounds) == 0 || buckets[bounds[len(bounds)-1]] <= 0 {
		return math.NaN()
	}
	rank := q * buckets[bounds[len(bounds)-1]]
	var low, below float64
	for _, bound := range bounds {
		if buckets[bound] < rank {
			low, below = bound, buckets[bound]
			continue
		}
		if math.IsInf(bound, 1) || buckets[bound] == below {
			return low
		}
		return low + (bound-low)*(rank-below)/(buckets[bound]-below)
	}
	return low
}

// Rows that are shown at most.
const (
	mostEnds    = 12
	mostTargets = 40
)

// render writes the view for people: plain text, in columns.
func (v *view) render(address string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "antiphon %s · %s · %s\n\n", plain(v.version), address, v.at.Format(time.TimeOnly))
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "requests/s\tfailed/s\tin flight\tstreams\tfirst token p50\tp95\ttokens in/s\tout/s\t\n")
	fmt.Fprintf(w, "%.1f\t%.1f\t%.0f\t%.0f\t%s\t%s\t%.0f\t%.0f\t\n", v.requests, v.failed, v.inFlight, v.streams, inSeconds(v.firstP50), inSeconds(v.firstP95), v.tokensIn, v.tokensOut)
	w.Flush()
	if v.storeBad > 0 {
		fmt.Fprintf(&b, "\nThe store fails: %.1f/s.\n", v.storeBad)
	}
	if v.stalls > 0 {
		fmt.Fprintf(&b, "\nUpstreams wait for slow clients: %.1f/s.\n", v.stalls)
	}
	v.renderTargets(&b)
	v.renderEnds(&b)
	return b.String()
}

func (v *view) renderTargets(b *strings.Builder) {
	b.WriteByte('\n')
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "UPSTREAM\tMODEL\tHEALTH\tIN FLIGHT\tCALLS/S\tFAILED/S\tBEGINS P95\tEJECTED\tWHY")
	for i, t := range v.targets {
		if i == mostTargets {
			fmt.Fprintf(w, "… and %d more\n", len(v.targets)-i)
			break
		}
		health := "up"
		if !t.up {
			health = "DOWN"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.0f\t%.1f\t%.1f\t%s\t%.0f\t%s\n", plain(t.upstream), plain(t.model), health, t.inFlight, t.calls, t.failures, inSeconds(t.beginP95), t.ejections, cmp.Or(t.why(), "-"))
	}
	w.Flush()
}

// why names what calls fail of, the most frequent first.
func (t *watchedTarget) why() string {
	names := slices.SortedFunc(maps.Keys(t.outcomes), func(a, b string) int {
		return cmp.Or(cmp.Compare(t.outcomes[b], t.outcomes[a]), cmp.Compare(a, b))
	})
	names = slices.DeleteFunc(names, func(n string) bool { return t.outcomes[n] == 0 })
	return plain(strings.Join(names, ", "))
}

func (v *view) renderEnds(b *strings.Builder) {
	if len(v.ends) == 0 {
		return
	}
	b.WriteByte('\n')
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FAILED\tCAUSE\tPER SECOND\tSINCE START")
	for i, e := range v.ends {
		if i == mostEnds {
			fmt.Fprintf(w, "… and %d more\n", len(v.ends)-i)
			break
		}
		fmt.Fprintf(w, "%s\t%s\t%.1f\t%.0f\n", plain(cmp.Or(e.status, "-")), plain(cmp.Or(e.cause, "-")), e.rate, e.total)
	}
	w.Flush()
}

func inSeconds(s float64) string {
	switch {
	case math.IsNaN(s):
		return "-"
	case s < 1:
		return fmt.Sprintf("%.0f ms", s*1000)
	}
	return fmt.Sprintf("%.1f s", s)
}

// plain is a text that no terminal obeys, cut to what fits into a column.
func plain(s string) string {
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return printable(s)
}
