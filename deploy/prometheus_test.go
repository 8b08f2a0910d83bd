package deploy_test

import (
	"context"
	"encoding/json/v2"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/standard"
)

// program returns the path of a program that a test needs. In CI it must be there.
func program(t *testing.T, name, from string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is missing: install %s", name, from)
		}
		t.Skipf("%s is missing: install %s", name, from)
	}
	return path
}

// TestAlertRules: Prometheus's own checker accepts the rules and their tests (R35).
func TestAlertRules(t *testing.T) {
	t.Parallel()
	promtool := program(t, "promtool", "prometheus")
	for _, args := range [][]string{{"check", "rules", "prometheus/alerts.yml"}, {"test", "rules", "prometheus/alerts_test.yml"}} {
		if out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// observed is a gateway over toy models, with its metrics on an address of their
// own.
type observed struct{ api, metrics string }

// serveObserved starts a gateway whose model "flaky" has a target that is not
// there, so that everything that the dashboard shows happens.
func serveObserved(t *testing.T) *observed {
	t.Helper()
	answer := func(p fakeupstream.Protocol) string {
		s := httptest.NewServer(fakeupstream.NewServer(fakeupstream.NewModel(&fakeupstream.ModelOptions{Protocol: p}).Answer))
		t.Cleanup(s.Close)
		return s.URL + "/v1"
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	c := config.Default()
	c.Upstreams = map[string]config.Upstream{
		"chat":   {Protocol: config.ProtocolChat, URL: answer(fakeupstream.Chat)},
		"native": {Protocol: config.ProtocolResponses, URL: answer(fakeupstream.Responses)},
		"gone":   {Protocol: config.ProtocolChat, URL: gone.URL + "/v1"},
	}
	c.Models = map[string]config.Model{
		"tiny":   {Upstream: "chat"},
		"native": {Upstream: "native", Model: "tiny"},
		"flaky":  {Targets: []config.Target{{Upstream: "gone", Model: "tiny", Weight: 1, Priority: 1}, {Upstream: "chat", Model: "tiny", Weight: 1, Priority: 2}}},
	}
	telemetry, err := standard.NewTelemetry(c, "test")
	if err != nil {
		t.Fatal(err)
	}
	g, err := standard.New(t.Context(), c, &standard.Options{Telemetry: telemetry})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	api := httptest.NewServer(g.Handler())
	t.Cleanup(api.Close)
	admin := httptest.NewServer(g.Admin(&antiphon.AdminOptions{Mount: map[string]http.Handler{"GET /metrics": telemetry.Handler()}}))
	t.Cleanup(admin.Close)
	telemetry.Reloaded(true)
	return &observed{api.URL, admin.URL}
}

// load sends requests of every kind until ctx ends.
func (o *observed) load(ctx context.Context) {
	bodies := []string{
		`{"model":"tiny","input":"count to 20","stream":true}`,
		`{"model":"tiny","input":"hello","top_logprobs":2,"truncation":"auto"}`,
		`{"model":"native","input":"count to 20","stream":true,"store":false}`,
		`{"model":"flaky","input":"hello"}`,
		`{"model":"nobody","input":"hello"}`,
		`{"model":"tiny"}`,
	}
	for i := 0; ctx.Err() == nil; i++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.api+"/v1/responses", strings.NewReader(bodies[i%len(bodies)]))
		if err != nil {
			return
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body) // what it says is not looked at here
		resp.Body.Close()
		time.Sleep(5 * time.Millisecond)
	}
}

// TestMetricsPassTheirChecker: promtool finds nothing wrong with what a loaded
// gateway serves (R35).
func TestMetricsPassTheirChecker(t *testing.T) {
	t.Parallel()
	promtool := program(t, "promtool", "prometheus")
	o := serveObserved(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	o.load(ctx)
	resp, err := http.Get(o.metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	cmd := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	cmd.Stdin = resp.Body
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// startPrometheus runs a real Prometheus that scrapes target every second, and
// returns its address.
func startPrometheus(t *testing.T, target string) string {
	t.Helper()
	binary := program(t, "prometheus", "prometheus")
	dir := t.TempDir()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: { scrape_interval: 1s }\nscrape_configs: [{ job_name: antiphon, static_configs: [{ targets: [%q] }] }]\n", u.Host)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, binary, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=error")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // it was killed
	})
	return "http://" + address
}

// query returns how many series a query has.
func query(prometheus, expr string) (int, error) {
	resp, err := http.Get(prometheus + "/api/v1/query?" + url.Values{"query": {expr}}.Encode())
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []struct{} }
	}
	if err := json.UnmarshalRead(resp.Body, &answer, json.MatchCaseInsensitiveNames(true)); err != nil {
		return 0, err
	}
	if answer.Status != "success" {
		return 0, fmt.Errorf("%s: %s", expr, answer.Error)
	}
	return len(answer.Data.Result), nil
}

// noData are queries about what does not happen to a gateway without tools, whose
// upstreams keep to the order of events.
var noData = regexp.MustCompile(`antiphon_tool_call_|antiphon_grammar_violations_total`)

// TestDashboardHasData: every query of the dashboard returns data from a real
// Prometheus that scrapes a loaded gateway (R35).
func TestDashboardHasData(t *testing.T) {
	t.Parallel()
	o := serveObserved(t)
	prometheus := startPrometheus(t, o.metrics)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go o.load(ctx)
	for _, row := range rows {
		for _, p := range row.panels {
			for _, q := range p.queries {
				expr := strings.ReplaceAll(q[0], "$__rate_interval", "20s")
				if err := eventually(ctx, func() error {
					n, err := query(prometheus, expr)
					if err == nil && n == 0 && !noData.MatchString(expr) {
						err = fmt.Errorf("no data")
					}
					return err
				}); err != nil {
					t.Errorf("%s: %s: %v", p.title, expr, err)
				}
			}
		}
	}
}

// eventually tries until try succeeds or ctx ends.
func eventually(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(200 * time.Millisecond):
		}
	}
}
