package main

import (
	"encoding/json/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sample is a report with every kind of row.
func sample() *report {
	r := &report{Small: true, CPUs: 2, Go: "go1"}
	s := r.section("events")
	s.draw(chart{Title: "events per second", Unit: "median", Lines: []chartLine{{"proxy", 1_600_000}, {"gateway", 450_000}}})
	s.addSpread(row{Metric: "rate", Limit: atLeast(0.5)}, spreadOf([]float64{0.25, 0.5, 0.75}))
	s.add(
		row{Metric: "memory", Value: 71.25, Unit: "KiB", Limit: atMost(64)},
		row{Metric: "completed", Value: 8000, Limit: atLeast(8000).hard()},
		row{Metric: "CPU", Value: 4.836, Unit: "µs", Note: "twice the proxy's"},
	)
	return r
}

func TestPrint(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	sample().print(&out)
	want := `events per second, median
  proxy   1,600,000 ████████████████████████████████████████
  gateway   450,000 ███████████▎

metric            │ measured                    │ bar           │ verdict
──────────────────┼─────────────────────────────┼───────────────┼────────────
events: rate      │ 0.50 (0.25 to 0.75)         │ ≥ 0.50, aim   │ reached
events: memory    │ 71.2 KiB                    │ ≤ 64 KiB, aim │ not reached
events: completed │ 8,000                       │ ≥ 8,000       │ held
events: CPU       │ 4.84 µs (twice the proxy's) │ –             │ –
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

// TestFailed: aims are reported, hard limits and measurements that broke off
// fail the run and can be seen in the table.
func TestFailed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		add  func(*section)
		want bool
	}{
		{"aim missed", func(*section) {}, false},
		{"hard limit held at the bound", func(s *section) { s.add(row{Metric: "x", Value: 10, Limit: atMost(10).hard()}) }, false},
		{"hard limit missed", func(s *section) { s.add(row{Metric: "x", Value: 10.1, Limit: atMost(10).hard()}) }, true},
		{"strict limit missed at the bound", func(s *section) { s.add(row{Metric: "x", Value: 64, Limit: below(64).hard()}) }, true},
		{"too few", func(s *section) { s.add(row{Metric: "x", Value: 7999, Limit: atLeast(8000).hard()}) }, true},
		{"broke off", func(s *section) { s.fail(os.ErrDeadlineExceeded) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := sample()
			tt.add(r.Sections[0])
			if got := r.failed(); got != tt.want {
				t.Errorf("failed: got %t, want %t", got, tt.want)
			}
			var out strings.Builder
			r.print(&out)
			if got := strings.Contains(out.String(), missed); got != tt.want {
				t.Errorf("%q in the table: got %t, want %t\n%s", missed, got, tt.want, out.String())
			}
		})
	}
}

func TestWriteJSON(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "numbers.json")
	if err := sample().writeJSON(file); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(raw, &got, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), &got); diff != "" {
		t.Errorf("report after a round trip (-want +got):\n%s", diff)
	}
}

func TestFormat(t *testing.T) {
	t.Parallel()
	tests := []struct {
		value float64
		unit  string
		want  string
	}{
		{0, "", "0"},
		{0.123, "", "0.12"},
		{9.876, "µs", "9.88 µs"},
		{12.34, "MiB", "12.3 MiB"},
		{123.4, "", "123"},
		{1234567, "", "1,234,567"},
		{-1234.5, "KiB", "-1,234 KiB"},
		{-0.5, "ms", "-0.50 ms"},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			t.Parallel()
			if got := format(tt.value, tt.unit); got != tt.want {
				t.Errorf("format(%v, %q): got %q, want %q", tt.value, tt.unit, got, tt.want)
			}
		})
	}
}

func TestBarOf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		value, most float64
		want        string
	}{
		{"nothing to compare with", 0, 0, ""},
		{"below zero", -1, 10, ""},
		{"half", 5, 10, strings.Repeat("█", 20)},
		{"an eighth of a character", 1, 320, "▏"},
		{"seven eighths", 7, 320, "▉"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := barOf(tt.value, tt.most); got != tt.want {
				t.Errorf("barOf(%v, %v): got %q, want %q", tt.value, tt.most, got, tt.want)
			}
		})
	}
}

func TestBrief(t *testing.T) {
	t.Parallel()
	if got, want := brief("go build:\n\texit status 1\n"), "go build: exit status 1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := []rune(brief(strings.Repeat("é", 100))); len(got) != 61 || got[60] != '…' {
		t.Errorf("a long error: got %d characters, want 60 and an ellipsis", len(got))
	}
}
