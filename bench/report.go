package main

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"os"
	"runtime"
)

// A report is what a run of bench found. It is written as JSON as it is.
type report struct {
	Small    bool       `json:"small"`
	CPUs     int        `json:"cpus"`
	Go       string     `json:"go"`
	Sections []*section `json:"sections"`
}

func newReport(small bool) *report {
	return &report{Small: small, CPUs: runtime.NumCPU(), Go: runtime.Version()}
}

// section begins the part of the report that belongs to one measurement.
func (r *report) section(name string) *section {
	s := &section{Name: name}
	r.Sections = append(r.Sections, s)
	return s
}

// failed reports whether a measurement failed or missed a hard limit.
func (r *report) failed() bool {
	for _, s := range r.Sections {
		for i := range s.Rows {
			if s.Rows[i].verdict() == missed {
				return true
			}
		}
		if s.Error != "" {
			return true
		}
	}
	return false
}

func (r *report) writeJSON(file string) error {
	out, err := json.Marshal(r, jsontext.Multiline(true))
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(out, '\n'), 0o644)
}

// A section holds what one measurement found.
type section struct {
	Name   string  `json:"name"`
	Error  string  `json:"error,omitzero"` // why it could not be measured to its end
	Rows   []row   `json:"rows"`
	Charts []chart `json:"charts,omitzero"`
}

func (s *section) add(rows ...row)      { s.Rows = append(s.Rows, rows...) }
func (s *section) draw(charts ...chart) { s.Charts = append(s.Charts, charts...) }
func (s *section) fail(err error)       { s.Error = err.Error() }
func (s *section) addSpread(r row, v spread) {
	r.Value = v.median
	r.Note = fmt.Sprintf("%s to %s", format(v.low, ""), format(v.high, ""))
	s.add(r)
}

// A row is one number, and what it is held against.
type row struct {
	Metric string  `json:"metric"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit,omitzero"`
	Note   string  `json:"note,omitzero"` // shown behind the value
	Limit  *limit  `json:"limit,omitzero"`
}

// A limit is a bar. One that is hard fails the run; any other is an aim.
type limit struct {
	Relation string  `json:"relation"` // "≤", "≥" or "<"
	Bound    float64 `json:"bound"`
	Hard     bool    `json:"hard"`
}

func atMost(bound float64) *limit  { return &limit{Relation: "≤", Bound: bound} }
func atLeast(bound float64) *limit { return &limit{Relation: "≥", Bound: bound} }
func below(bound float64) *limit   { return &limit{Relation: "<", Bound: bound} }

// hard makes the limit one that fails the run.
func (l *limit) hard() *limit {
	l.Hard = true
	return l
}

func (l *limit) holds(v float64) bool {
	switch l.Relation {
	case "≤":
		return v <= l.Bound
	case "≥":
		return v >= l.Bound
	default:
		return v < l.Bound
	}
}

// What the last column of the table says.
const (
	held     = "held"
	missed   = "MISSED"
	reached  = "reached"
	notYet   = "not reached"
	reported = "–"
)

func (r *row) verdict() string {
	switch {
	case r.Limit == nil:
		return reported
	case r.Limit.Hard && r.Limit.holds(r.Value):
		return held
	case r.Limit.Hard:
		return missed
	case r.Limit.holds(r.Value):
		return reached
	default:
		return notYet
	}
}

// A chart draws figures that are to be compared.
type chart struct {
	Title string      `json:"title"`
	Unit  string      `json:"unit"`
	Lines []chartLine `json:"lines"`
}

type chartLine struct {
	Label string  `json:"label"`
	Value float64 `json:"value"`
}
