//go:build unix

package conformance_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/promtext"
)

const operatingFile = "../docs/operating.md"

// A faultRow is a row of the table of faults in docs/operating.md.
type faultRow struct {
	fault     string
	selectors []selector // what moves
	anchor    string     // where it leads
}

// A selector names series: those of the name whose labels are as it says. With
// slow it is about a histogram, and means observations over a second.
type selector struct {
	text, name string
	labels     map[string]string
	slow       bool
}

var (
	selectorPattern = regexp.MustCompile("`((antiphon|gen_ai)_[a-z_]+)(\\{[^`]*\\})?( > 1 s)?`")
	labelPattern    = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)
	anchorPattern   = regexp.MustCompile(`\]\(#([a-z0-9-]+)\)`)
)

// faultRows reads the table.
func faultRows(t *testing.T) []faultRow {
	t.Helper()
	text, err := os.ReadFile(operatingFile)
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\n| fault |")
	if !found {
		t.Fatalf("%s has no table of faults", operatingFile)
	}
	var rows []faultRow
	for line := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(line, "|")
		if !strings.HasPrefix(line, "| ") || len(cells) < 5 {
			if len(rows) > 0 {
				return rows
			}
			continue
		}
		row := faultRow{fault: strings.TrimSpace(cells[1])}
		for _, m := range selectorPattern.FindAllStringSubmatch(cells[3], -1) {
			s := selector{text: m[0], name: m[1], labels: map[string]string{}, slow: m[4] != ""}
			for _, l := range labelPattern.FindAllStringSubmatch(m[3], -1) {
				s.labels[l[1]] = l[2]
			}
			row.selectors = append(row.selectors, s)
		}
		if m := anchorPattern.FindStringSubmatch(line); m != nil {
			row.anchor = m[1]
		}
		rows = append(rows, row)
	}
	return rows
}

// TestAlertsLeadSomewhere: each alert names a section that there is (R35).
func TestAlertsLeadSomewhere(t *testing.T) {
	t.Parallel()
	alerts, err := os.ReadFile("../deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	_, anchors := prose(documents(t)["docs/operating.md"])
	links := regexp.MustCompile(`docs/operating\.md#([a-z0-9-]+)`).FindAllStringSubmatch(string(alerts), -1)
	if len(links) == 0 || len(links) != strings.Count(string(alerts), "- alert:") {
		t.Errorf("%d alerts lead to docs/operating.md", len(links))
	}
	for _, l := range links {
		if !anchors[l[1]] {
			t.Errorf("docs/operating.md has no section #%s", l[1])
		}
	}
}

func (s *selector) matches(sample *promtext.Sample, slow bool) bool {
	if s.name != sample.Name || s.slow != slow {
		return false
	}
	for name, value := range s.labels {
		if sample.Labels[name] != value {
			return false
		}
	}
	return true
}

// TestPlantedFaults plants each fault of docs/operating.md in a whole gateway, by
// its own command, and holds the row against what a scrape says: everything that the
// row names has moved, and nothing else of the gateway's own that does not move
// while all is well (R35).
func TestPlantedFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: some faults take half a minute to show")
	}
	t.Parallel()
	bin := buildCommands(t)
	planted := map[string]bool{}
	for _, row := range faultRows(t) {
		planted[row.fault] = true
		t.Run(row.fault, func(t *testing.T) {
			t.Parallel()
			plant, ok := faults[row.fault]
			switch {
			case !ok:
				t.Fatal("nobody plants this fault")
			case len(row.selectors) == 0:
				t.Fatal("the row names no metric")
			case row.anchor == "":
				t.Fatal("the row leads nowhere")
			}
			row.check(t, plant(t, bin))
		})
	}
	for name := range faults {
		if !planted[name] {
			t.Errorf("%s: %s has no row for it", name, operatingFile)
		}
	}
}

// check runs the fault and compares.
func (r *faultRow) check(t *testing.T, f *planted) {
	before := f.gateway.scrape(t)
	f.health(t)
	well := f.gateway.scrape(t)
	f.fault(t)
	after := f.gateway.scrape(t)

	normal := moved(before, well)
	named := make([]bool, len(r.selectors))
	for _, key := range slices.Sorted(maps.Keys(moved(well, after))) {
		if normal[key] {
			continue
		}
		sample, slow := after[key].sample, after[key].slow
		known := !strings.HasPrefix(sample.Name, "antiphon_") || slow
		for i := range r.selectors {
			if r.selectors[i].matches(sample, slow) {
				named[i], known = true, true
			}
		}
		if !known {
			t.Errorf("%s moved from %v to %v, and the row does not say so", key, well[key].value, after[key].value)
		}
	}
	for i, s := range r.selectors {
		if !named[i] {
			t.Errorf("%s did not move", s.text)
		}
	}
}

// A reading is a number of a scrape. Of a histogram there are two: how often it was
// observed, and how often over a second.
type reading struct {
	sample *promtext.Sample
	slow   bool
	value  float64
}

// moved returns the readings that are not as they were.
func moved(before, after map[string]reading) map[string]bool {
	keys := map[string]bool{}
	for key, r := range after {
		if r.value != before[key].value {
			keys[key] = true
		}
	}
	return keys
}

// An operated gateway is one that runs with an admin address.
type operated struct{ api, admin, file string }

// operate starts a gateway with the configuration, to which it adds the admin
// address.
func operate(t *testing.T, bin, config string) *operated {
	t.Helper()
	o := &operated{file: filepath.Join(t.TempDir(), "antiphon.yaml"), admin: freeAddress(t)}
	o.write(t, config)
	o.api = startServer(t, "/healthz", filepath.Join(bin, "antiphon"), "serve", "--config", o.file)
	o.admin = "http://" + o.admin
	return o
}

// write writes the configuration file.
func (o *operated) write(t *testing.T, config string) {
	t.Helper()
	config = fmt.Sprintf("admin: { listen: %q }\n%s", strings.TrimPrefix(o.admin, "http://"), config)
	if err := os.WriteFile(o.file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
}

// passing are gauges that say what is going on at this moment.
var passing = map[string]bool{"antiphon_requests_in_flight": true, "antiphon_streams_open": true, "antiphon_target_in_flight": true}

// scrape reads the metrics.
func (o *operated) scrape(t *testing.T) map[string]reading {
	t.Helper()
	resp, err := http.Get(o.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	m, err := promtext.Read(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	readings := map[string]reading{}
	quick := map[string]float64{} // observations of a second or less, by the series of the count
	for i := range m.Samples {
		s := &m.Samples[i]
		base, isBucket := strings.CutSuffix(s.Name, "_bucket")
		switch {
		case !strings.HasPrefix(s.Name, "antiphon_") && !strings.HasPrefix(s.Name, "gen_ai_"):
		case passing[s.Name] || strings.HasSuffix(s.Name, "_sum") && m.Types[strings.TrimSuffix(s.Name, "_sum")] == "histogram":
		case isBucket && s.Labels["le"] == "1":
			labels := maps.Clone(s.Labels)
			delete(labels, "le")
			count := promtext.Sample{Name: base + "_count", Labels: labels}
			quick[count.String()] = s.Value
		case !isBucket:
			readings[s.String()] = reading{s, false, s.Value}
		}
	}
	for series, n := range quick {
		count := *readings[series].sample
		count.Name = strings.TrimSuffix(count.Name, "_count")
		readings[series+" > 1 s"] = reading{&count, true, count.Value - n}
	}
	return readings
}

// ask sends a request and returns the status and the body, which is a bounded part
// of the answer.
func (o *operated) ask(t *testing.T, path, body string, header ...string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, o.api+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// expect asks for a response and wants the status and, if it is not empty, the
// words in the answer.
func (o *operated) expect(t *testing.T, status int, words, body string, header ...string) {
	t.Helper()
	if got, answer := o.ask(t, "/v1/responses", body, header...); got != status || !strings.Contains(answer, words) {
		t.Errorf("%s: %d %s, want %d and %q", body, got, answer, status, words)
	}
}
