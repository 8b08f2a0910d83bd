package standard_test

import (
	"bytes"
	"encoding/json/v2"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/standard"
)

// play starts a provider and returns its URL and the record of its requests.
func play(t *testing.T, answer func(*fakeupstream.Exchange) fakeupstream.Reply) (string, *fakeupstream.Server) {
	t.Helper()
	srv := fakeupstream.NewServer(answer)
	web := httptest.NewServer(srv)
	t.Cleanup(web.Close)
	t.Cleanup(srv.Close) // first: a stalled exchange would keep web.Close waiting
	return web.URL, srv
}

func playModel(t *testing.T, p fakeupstream.Protocol) (string, *fakeupstream.Server) {
	t.Helper()
	return play(t, fakeupstream.NewModel(&fakeupstream.ModelOptions{Protocol: p}).Answer)
}

// paths answers the paths it has with status 200 and everything else with 404.
func paths(bodies map[string]string) func(*fakeupstream.Exchange) fakeupstream.Reply {
	return func(x *fakeupstream.Exchange) fakeupstream.Reply {
		body, ok := bodies[x.Method+" "+x.Path]
		if !ok {
			return fakeupstream.JSON(http.StatusNotFound, `{"error":{"message":"not here"}}`)
		}
		return fakeupstream.JSON(http.StatusOK, body)
	}
}

// closedAddress returns the URL of a port on which nothing listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

func upstreams(list map[string]config.Upstream) *config.Config {
	c := config.Default()
	c.Upstreams = list
	return c
}

// build returns the gateway for c, closed when the test ends, and what was
// reported of its upstreams.
func build(t *testing.T, c *config.Config, opts *standard.Options) (*antiphon.Gateway, *standard.Report) {
	t.Helper()
	if opts == nil {
		opts = &standard.Options{}
	}
	var report *standard.Report
	opts.Report = func(r *standard.Report) { report = r }
	opts.Logger = slog.New(slog.DiscardHandler)
	g, err := standard.New(t.Context(), c, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	if report == nil {
		t.Fatal("nothing was reported")
	}
	return g, report
}

type answer struct {
	status   int
	upstream string // header Antiphon-Upstream
	text     string // of all output, or the error's message
}

// ask sends one request to the gateway.
func ask(t *testing.T, g *antiphon.Gateway, model, input string, header http.Header) answer {
	t.Helper()
	web := httptest.NewServer(g.Handler())
	defer web.Close()
	body, err := json.Marshal(map[string]string{"model": model, "input": input})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+"/v1/responses", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Error  *struct{ Message string }
		Output []struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal(data, &r, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
	a := answer{status: resp.StatusCode, upstream: resp.Header.Get("Antiphon-Upstream")}
	if r.Error != nil {
		a.text = r.Error.Message
	}
	for _, item := range r.Output {
		for _, part := range item.Content {
			a.text += part.Text
		}
	}
	return a
}

// TestNewSpeaksEachProtocol: what is asked for by name and what is detected work
// end to end.
func TestNewSpeaksEachProtocol(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		protocol config.Protocol // configured
		plays    fakeupstream.Protocol
		want     config.Protocol
		path     string
	}{
		{"chat", config.ProtocolChat, fakeupstream.Chat | fakeupstream.Responses, config.ProtocolChat, "/v1/chat/completions"},
		{"responses", config.ProtocolResponses, fakeupstream.Chat | fakeupstream.Responses, config.ProtocolResponses, "/v1/responses"},
		{"chat detected", "", fakeupstream.Chat, config.ProtocolChat, "/v1/chat/completions"},
		{"responses detected", "", fakeupstream.Responses, config.ProtocolResponses, "/v1/responses"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url, srv := playModel(t, tt.plays)
			g, report := build(t, upstreams(map[string]config.Upstream{"fake": {URL: url, Protocol: tt.protocol}}), nil)
			u := report.Upstreams[0]
			if u.Protocol != tt.want || (u.Why == "") != (tt.protocol != "") || u.Err != nil || len(u.Models) != 2 || u.URL != url+"/v1" {
				t.Errorf("report: %+v, want the protocol %s and two models", u, tt.want)
			}
			got := ask(t, g, "tiny", "hello", nil)
			if diff := cmp.Diff(answer{200, "fake", "You said: hello"}, got, cmp.AllowUnexported(answer{})); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			last := srv.Requests()[len(srv.Requests())-1]
			if last.Path != tt.path {
				t.Errorf("the upstream was asked at %s, want %s", last.Path, tt.path)
			}
		})
	}
}

func TestNewRefusesAnInvalidConfiguration(t *testing.T) {
	t.Parallel()
	_, err := standard.New(t.Context(), config.Default(), &standard.Options{
		Report: func(*standard.Report) { t.Error("something was reported") },
	})
	if _, ok := errors.AsType[*config.Error](err); !ok {
		t.Errorf("got %v, want a list of problems", err)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	client := http.Header{"Authorization": {"Bearer client"}}
	for _, tt := range []struct {
		name     string
		upstream config.Upstream
		want     string // Authorization at the upstream
	}{
		{"key", config.Upstream{APIKey: "sk-1"}, "Bearer sk-1"},
		{"key, said", config.Upstream{APIKey: "sk-1", Auth: config.AuthBearer}, "Bearer sk-1"},
		{"nothing said", config.Upstream{}, ""},
		{"none", config.Upstream{Auth: config.AuthNone}, ""},
		{"client", config.Upstream{Auth: config.AuthClient}, "Bearer client"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url, srv := playModel(t, fakeupstream.Chat)
			tt.upstream.URL = url
			tt.upstream.Headers = map[string]config.Secret{"x-team": "blue"}
			g, _ := build(t, upstreams(map[string]config.Upstream{"fake": tt.upstream}), nil)
			if got := ask(t, g, "tiny", "hello", client); got.status != http.StatusOK {
				t.Fatalf("got %+v", got)
			}
			for _, x := range srv.Requests() {
				want := tt.want
				if x.Path != "/v1/chat/completions" && tt.upstream.Auth == config.AuthClient {
					want = "" // asked at start, when there was no client
				}
				if got := x.Header.Get("Authorization"); got != want {
					t.Errorf("%s %s: Authorization %q, want %q", x.Method, x.Path, got, want)
				}
				if got := x.Header.Get("X-Team"); got != "blue" {
					t.Errorf("%s %s: X-Team %q, want the configured one", x.Method, x.Path, got)
				}
			}
		})
	}
}

// TestModels: a name goes where the configuration says, or else to the upstream
// that lists it.
func TestModels(t *testing.T) {
	t.Parallel()
	first, _ := playModel(t, fakeupstream.Chat)
	second, _ := play(t, paths(map[string]string{
		"GET /v1/models":            `{"object":"list","data":[{"id":"other"},{"id":"other"}]}`,
		"POST /v1/chat/completions": `{"choices":[{"message":{"role":"assistant","content":"second"},"finish_reason":"stop"}]}`,
	}))
	both := map[string]config.Upstream{"first": {URL: first}, "second": {URL: second}}
	for _, tt := range []struct {
		name   string
		config *config.Config
		model  string
		want   answer
	}{
		{"listed by the first", upstreams(both), "tiny", answer{200, "first", "You said: hello"}},
		{"listed by the second", upstreams(both), "other", answer{200, "second", "second"}},
		{"listed by none", upstreams(both), "gpt", answer{404, "", `There is no model "gpt"; GET /v1/models lists those there are.`}},
		{"short form", withModels(both, "other", config.Model{Upstream: "first"}), "other", answer{200, "first", "You said: hello"}},
		{"renamed", withModels(both, "fast", config.Model{Upstream: "second", Model: "other"}), "fast", answer{200, "second", "second"}},
		{"any name with one upstream", upstreams(map[string]config.Upstream{"first": {URL: first}}), "gpt", answer{200, "first", "You said: hello"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g, _ := build(t, tt.config, nil)
			got := ask(t, g, tt.model, "hello", nil)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(answer{})); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func withModels(list map[string]config.Upstream, name string, m config.Model) *config.Config {
	c := upstreams(list)
	c.Models = map[string]config.Model{name: m}
	return c
}

func TestCollidingModels(t *testing.T) {
	t.Parallel()
	a, _ := playModel(t, fakeupstream.Chat)
	b, _ := playModel(t, fakeupstream.Chat)
	c := upstreams(map[string]config.Upstream{"a": {URL: a}, "b": {URL: b}})
	t.Run("chosen", func(t *testing.T) {
		t.Parallel()
		_, err := standard.New(t.Context(), c, nil)
		want := `a and b both list the model "tiny" (and 1 more): write a configuration file that says under models who serves it`
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
	t.Run("discovered", func(t *testing.T) {
		t.Parallel()
		g, report := build(t, c, &standard.Options{Discovered: true})
		want := []standard.Shadowed{{Model: "tiny", Serves: "a", Hidden: "b"}, {Model: "tiny-2", Serves: "a", Hidden: "b"}}
		if diff := cmp.Diff(want, report.Shadowed); diff != "" {
			t.Errorf("shadowed (-want +got):\n%s", diff)
		}
		if got := ask(t, g, "tiny", "hello", nil); got.upstream != "a" {
			t.Errorf("served by %q, want a", got.upstream)
		}
	})
}

// TestTimeoutsReachTheGateway: the file's times are those that hold.
func TestTimeoutsReachTheGateway(t *testing.T) {
	t.Parallel()
	url, _ := playModel(t, fakeupstream.Chat)
	c := upstreams(map[string]config.Upstream{"fake": {URL: url, Protocol: config.ProtocolChat}})
	c.Timeouts.FirstEvent = 50 * time.Millisecond
	g, _ := build(t, c, nil)
	if got := ask(t, g, "tiny", "[[stall-first]]", nil); got.status != http.StatusGatewayTimeout {
		t.Errorf("got %+v, want status 504", got)
	}
}

// TestDeadUpstream: an upstream that is down at start is reported, and served
// when it is back.
func TestDeadUpstream(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	model := fakeupstream.NewModel(nil)
	url, _ := play(t, func(x *fakeupstream.Exchange) fakeupstream.Reply {
		if !up.Load() {
			return fakeupstream.Reply{Fault: fakeupstream.Fault{Kind: fakeupstream.CutFirst}}
		}
		return model.Answer(x)
	})
	g, report := build(t, upstreams(map[string]config.Upstream{"late": {URL: url}}), nil)
	u := report.Upstreams[0]
	if u.Protocol != config.ProtocolChat || u.Why != "assumed: it did not answer" || u.Err == nil || len(u.Models) > 0 {
		t.Errorf("report: %+v", u)
	}
	if got := ask(t, g, "tiny", "hello", nil); got.status != http.StatusBadGateway {
		t.Errorf("while it is down: %+v, want status 502", got)
	}
	up.Store(true)
	if got := ask(t, g, "tiny", "hello", nil); got.text != "You said: hello" {
		t.Errorf("when it is back: %+v", got)
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	_, report := build(t, upstreams(map[string]config.Upstream{"down": {URL: closedAddress(t)}}), nil)
	if err := report.Upstreams[0].Err; err == nil || err.Error() != "connection refused" {
		t.Errorf("got %v, want that the connection was refused", err)
	}
}

// TestHangingUpstream: the start does not wait for an upstream that says nothing.
func TestHangingUpstream(t *testing.T) {
	t.Parallel()
	url, _ := play(t, func(*fakeupstream.Exchange) fakeupstream.Reply {
		return fakeupstream.Reply{Fault: fakeupstream.Fault{Kind: fakeupstream.StallFirst}}
	})
	start := time.Now()
	_, report := build(t, upstreams(map[string]config.Upstream{"slow": {URL: url}}), &standard.Options{ProbeTime: 50 * time.Millisecond})
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	u := report.Upstreams[0]
	if u.Protocol != config.ProtocolChat || u.Why != "assumed: it did not answer" || u.Err == nil || u.Err.Error() != "no answer in time" {
		t.Errorf("report: %+v", u)
	}
}
