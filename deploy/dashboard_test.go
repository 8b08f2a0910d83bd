package deploy_test

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the dashboard")

// A panel is one picture of the dashboard: what it shows, in which unit, and the
// queries behind it with their legends.
type panel struct {
	title, unit string
	queries     [][2]string
}

// rows are the dashboard: what clients see first, then who is to blame.
var rows = []struct {
	title  string
	panels []panel
}{
	{"What clients see", []panel{
		{"Requests by status", "reqps", [][2]string{{`sum by (status) (rate(antiphon_requests_total[$__rate_interval]))`, "{{status}}"}}},
		{"Ends by cause", "reqps", [][2]string{{`sum by (cause) (rate(antiphon_requests_total{cause!=""}[$__rate_interval]))`, "{{cause}}"}}},
		{"Time to first token", "s", [][2]string{
			{`histogram_quantile(0.5, sum by (le) (rate(gen_ai_server_time_to_first_token_seconds_bucket[$__rate_interval])))`, "p50"},
			{`histogram_quantile(0.95, sum by (le) (rate(gen_ai_server_time_to_first_token_seconds_bucket[$__rate_interval])))`, "p95"},
		}},
		{"Time per output token", "s", [][2]string{{`histogram_quantile(0.5, sum by (le, gen_ai_provider_name) (rate(gen_ai_server_time_per_output_token_seconds_bucket[$__rate_interval])))`, "{{gen_ai_provider_name}}"}}},
		{"Open streams", "short", [][2]string{{`sum by (instance) (antiphon_streams_open)`, "{{instance}}"}, {`sum(antiphon_requests_in_flight)`, "requests"}}},
		{"Tokens per second", "short", [][2]string{{`sum by (gen_ai_token_type) (rate(gen_ai_client_token_usage_sum[$__rate_interval]))`, "{{gen_ai_token_type}}"}}},
	}},
	{"Upstreams", []panel{
		{"Attempts by outcome", "reqps", [][2]string{{`sum by (upstream, outcome) (rate(antiphon_attempts_total[$__rate_interval]))`, "{{upstream}} {{outcome}}"}}},
		{"Time until an upstream answers (p95)", "s", [][2]string{{`histogram_quantile(0.95, sum by (le, upstream) (rate(antiphon_attempt_duration_seconds_bucket[$__rate_interval])))`, "{{upstream}}"}}},
		{"Targets in use", "short", [][2]string{{`min by (upstream, model) (antiphon_target_up)`, "{{upstream}} {{model}}"}}},
		{"Ejections", "short", [][2]string{{`sum by (upstream, model) (increase(antiphon_ejections_total[$__rate_interval]))`, "{{upstream}} {{model}}"}}},
		{"Retries and failovers", "reqps", [][2]string{{`sum by (upstream) (rate(antiphon_retries_total[$__rate_interval]))`, "retries {{upstream}}"}, {`sum by (upstream) (rate(antiphon_failovers_total[$__rate_interval]))`, "failovers {{upstream}}"}}},
		{"Answers that began", "reqps", [][2]string{{`sum by (upstream) (rate(antiphon_commits_total[$__rate_interval]))`, "{{upstream}}"}}},
		{"Broken order of events", "short", [][2]string{{`sum by (upstream) (increase(antiphon_grammar_violations_total[$__rate_interval]))`, "{{upstream}}"}}},
		{"What upstreams do not honour", "short", [][2]string{{`sum by (upstream, field) (increase(antiphon_losses_total[$__rate_interval]))`, "{{upstream}} {{field}}"}}},
	}},
	{"Inside", []panel{
		{"Store operations (p95)", "s", [][2]string{{`histogram_quantile(0.95, sum by (le, operation) (rate(antiphon_store_operation_duration_seconds_bucket[$__rate_interval])))`, "{{operation}}"}}},
		{"Store operations by outcome", "reqps", [][2]string{{`sum by (outcome) (rate(antiphon_store_operation_duration_seconds_count[$__rate_interval]))`, "{{outcome}}"}}},
		{"Memory store", "bytes", [][2]string{{`antiphon_memory_store_bytes`, "{{instance}}"}}},
		{"Forgotten for want of memory", "short", [][2]string{{`increase(antiphon_memory_store_evictions_total[$__rate_interval])`, "{{instance}}"}}},
		{"Tool calls", "reqps", [][2]string{{`sum by (server, outcome) (rate(antiphon_tool_call_duration_seconds_count[$__rate_interval]))`, "{{server}} {{outcome}}"}}},
		{"Waits for slow readers", "short", [][2]string{{`sum by (instance) (increase(antiphon_window_stalls_total[$__rate_interval]))`, "{{instance}}"}}},
		{"Configuration", "short", [][2]string{{`sum by (instance, outcome) (increase(antiphon_config_reloads_total[$__rate_interval]))`, "{{instance}} {{outcome}}"}}},
		{"Memory and goroutines", "bytes", [][2]string{{`process_resident_memory_bytes{job="antiphon"}`, "{{instance}}"}, {`go_goroutines{job="antiphon"}`, "goroutines {{instance}}"}}},
		{"Versions", "short", [][2]string{{`count by (version) (antiphon_build_info)`, "{{version}}"}}},
	}},
}

// dashboard returns the rows as Grafana reads them, three panels to a line.
func dashboard() any {
	const width, height = 8, 7
	var panels []any
	y, id := 0, 0
	for _, row := range rows {
		id++
		panels = append(panels, map[string]any{"id": id, "type": "row", "title": row.title, "gridPos": map[string]int{"x": 0, "y": y, "w": 24, "h": 1}})
		y++
		for i, p := range row.panels {
			var targets []any
			for n, q := range p.queries {
				targets = append(targets, map[string]any{"refId": string(rune('A' + n)), "expr": q[0], "legendFormat": q[1], "datasource": source})
			}
			id++
			panels = append(panels, map[string]any{
				"id": id, "type": "timeseries", "title": p.title, "datasource": source, "targets": targets,
				"gridPos":     map[string]int{"x": i % 3 * width, "y": y + i/3*height, "w": width, "h": height},
				"fieldConfig": map[string]any{"defaults": map[string]any{"unit": p.unit, "min": 0}},
			})
		}
		y += (len(row.panels) + 2) / 3 * height
	}
	return map[string]any{
		"uid": "antiphon", "title": "Antiphon", "schemaVersion": 41, "timezone": "browser", "refresh": "10s",
		"time": map[string]string{"from": "now-1h", "to": "now"}, "panels": panels,
	}
}

var source = map[string]string{"type": "prometheus", "uid": "prometheus"}

// TestDashboardIsCurrent: the file is what the table above says (R35).
func TestDashboardIsCurrent(t *testing.T) {
	t.Parallel()
	want, err := json.Marshal(dashboard(), json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	const file = "grafana/antiphon.json"
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the table of this test says (%v); run go test ./deploy -update", file, err)
	}
}
