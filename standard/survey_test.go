package standard_test

import (
	"encoding/json/v2"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
)

// TestDetection: the protocol of an upstream that does not say is found by its
// answer to an empty request, except for engines that are known to serve
// /responses in part.
func TestDetection(t *testing.T) {
	t.Parallel()
	const someModel = `{"object":"list","data":[{"id":"m","owned_by":"me"}]}`
	for _, tt := range []struct {
		name    string
		status  int    // of the answer to POST /v1/responses
		models  string // empty means 404
		version string // Ollama's, empty means 404
		want    config.Protocol
		why     string
		engine  string
	}{
		{"not found", 404, someModel, "", config.ProtocolChat, "detected: it has no /responses", ""},
		{"not allowed", 405, someModel, "", config.ProtocolChat, "detected: it has no /responses", ""},
		{"not implemented", 501, someModel, "", config.ProtocolChat, "detected: it has no /responses", ""},
		{"bad request", 400, someModel, "", config.ProtocolResponses, "detected", ""},
		{"unprocessable", 422, someModel, "", config.ProtocolResponses, "detected", ""},
		{"wants a key", 401, "", "", config.ProtocolResponses, "detected: its /responses asks for a key", ""},
		{"forbids", 403, "", "", config.ProtocolResponses, "detected: its /responses asks for a key", ""},
		{"broken", 500, someModel, "", config.ProtocolChat, "assumed: its /responses answered with status 500", ""},
		{"elsewhere", 308, someModel, "", config.ProtocolChat, "assumed: its /responses answered with status 308", ""},
		{
			"vLLM", 400, `{"data":[{"id":"m","owned_by":"vllm","max_model_len":4096}]}`, "",
			config.ProtocolChat, "detected: vLLM serves /responses only in part", "vLLM",
		},
		{
			"llama.cpp", 400, `{"data":[{"id":"m","owned_by":"llamacpp"}]}`, "",
			config.ProtocolChat, "detected: llama.cpp serves /responses only in part", "llama.cpp",
		},
		{
			"Ollama by its models", 400, `{"data":[{"id":"m","owned_by":"library"}]}`, "",
			config.ProtocolChat, "detected: Ollama serves /responses only in part", "Ollama",
		},
		{
			"Ollama by its version", 400, `{"object":"list","data":null}`, `{"version":"0.12.0"}`,
			config.ProtocolChat, "detected: Ollama serves /responses only in part", "Ollama",
		},
		{"other version", 400, someModel, `{"name":"thing"}`, config.ProtocolResponses, "detected", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url, srv := play(t, func(x *fakeupstream.Exchange) fakeupstream.Reply {
				switch {
				case x.Path == "/v1/responses" && x.Method == http.MethodPost && string(x.Body) == "{}":
					return fakeupstream.Reply{Status: tt.status, Header: http.Header{"Location": {"/v2/responses"}}}
				case x.Path == "/v1/models" && tt.models != "":
					return fakeupstream.JSON(200, tt.models)
				case x.Path == "/api/version" && tt.version != "":
					return fakeupstream.JSON(200, tt.version)
				}
				return fakeupstream.JSON(404, `{}`)
			})
			_, report := build(t, upstreams(map[string]config.Upstream{"u": {URL: url}}), nil)
			u := report.Upstreams[0]
			if u.Protocol != tt.want || u.Why != tt.why || u.Engine != tt.engine {
				t.Errorf("got %s (%s), engine %q; want %s (%s), engine %q", u.Protocol, u.Why, u.Engine, tt.want, tt.why, tt.engine)
			}
			for _, x := range srv.Requests() {
				if x.Path == "/v2/responses" {
					t.Error("a redirect was followed: it would carry the key elsewhere")
				}
			}
		})
	}
}

// TestConfiguredProtocolIsNotDoubted: an upstream that says what it speaks is
// asked for its models only.
func TestConfiguredProtocolIsNotDoubted(t *testing.T) {
	t.Parallel()
	for _, p := range []config.Protocol{config.ProtocolChat, config.ProtocolResponses} {
		url, srv := play(t, paths(map[string]string{"GET /v1/models": `{"data":[{"id":"m"}]}`}))
		_, report := build(t, upstreams(map[string]config.Upstream{"u": {URL: url, Protocol: p}}), nil)
		if u := report.Upstreams[0]; u.Protocol != p || u.Why != "" || len(u.Models) != 1 {
			t.Errorf("%s: %+v", p, u)
		}
		if n := len(srv.Requests()); n != 1 {
			t.Errorf("%s: %d requests, want one", p, n)
		}
	}
}

// TestContextWindows: what a server runs a model with counts more than what the
// model could have, and where only that is known it is said so.
func TestContextWindows(t *testing.T) {
	t.Parallel()
	ollama, _ := play(t, func(x *fakeupstream.Exchange) fakeupstream.Reply {
		switch {
		case x.Path == "/v1/models":
			return fakeupstream.JSON(200, `{"data":[{"id":"qwen3:8b","owned_by":"library"},{"id":"set","owned_by":"library"},
				{"id":"loaded","owned_by":"library"},{"id":"odd","owned_by":"library"},{"id":"gone","owned_by":"library"}]}`)
		case x.Path == "/api/ps":
			return fakeupstream.JSON(200, `{"models":[{"name":"loaded","context_length":4096},{"name":"odd","context_length":-1}]}`)
		case x.Path == "/api/show" && string(x.Body) == `{"model":"qwen3:8b"}`:
			return fakeupstream.JSON(200, `{"model_info":{"general.architecture":"qwen3","qwen3.context_length":40960}}`)
		case x.Path == "/api/show" && string(x.Body) == `{"model":"set"}`:
			return fakeupstream.JSON(200, `{"parameters":"stop \"<x>\"\nnum_ctx    16384","model_info":{"qwen3.context_length":40960}}`)
		case x.Path == "/api/show" && string(x.Body) == `{"model":"loaded"}`:
			return fakeupstream.JSON(200, `{"parameters":"num_ctx 8192","model_info":{"qwen3.context_length":40960}}`)
		case x.Path == "/api/show" && string(x.Body) == `{"model":"odd"}`:
			return fakeupstream.JSON(200, `{"parameters":"num_ctx many","model_info":{"qwen3.context_length":"many"}}`)
		}
		return fakeupstream.JSON(404, `{"error":"no such model"}`)
	})
	vllm, _ := play(t, paths(map[string]string{"GET /v1/models": `{"data":[{"id":"v","owned_by":"vllm","max_model_len":32768}]}`}))
	const trained = `{"data":[{"id":"NAME","owned_by":"llamacpp","meta":{"n_ctx_train":131072}}]}`
	llama, _ := play(t, paths(map[string]string{
		"GET /v1/models": strings.Replace(trained, "NAME", "told", 1),
		"GET /props":     `{"default_generation_settings":{"n_ctx":8192}}`,
	}))
	silent, _ := play(t, paths(map[string]string{"GET /v1/models": strings.Replace(trained, "NAME", "untold", 1)}))
	c := upstreams(map[string]config.Upstream{"ollama": {URL: ollama}, "vllm": {URL: vllm}, "llama": {URL: llama}, "silent": {URL: silent}})
	g, report := build(t, c, nil)
	want := map[string]int64{"qwen3:8b": 40960, "set": 16384, "loaded": 4096, "odd": 0, "gone": 0, "v": 32768, "told": 8192, "untold": 131072}
	got, upTo := map[string]int64{}, map[string]bool{}
	for _, s := range report.Served(c) {
		got[s.Name] = s.Window
		if s.UpTo {
			upTo[s.Name] = true
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("windows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"qwen3:8b": true, "untold": true}, upTo); diff != "" {
		t.Errorf("only the most (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, listedWindows(t, g)); diff != "" {
		t.Errorf("GET /v1/models (-want +got):\n%s", diff)
	}
}

// listedWindows returns the context windows that the gateway lists.
func listedWindows(t *testing.T, g *antiphon.Gateway) map[string]int64 {
	t.Helper()
	rec := httptest.NewRecorder()
	g.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/models", nil))
	var list struct {
		Data []struct {
			ID            string `json:"id"`
			ContextWindow int64  `json:"context_window"`
		} `json:"data"`
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &list); err != nil {
		t.Fatalf("%v: %s", err, rec.Body)
	}
	windows := map[string]int64{}
	for _, m := range list.Data {
		windows[m.ID] = m.ContextWindow
	}
	return windows
}

// TestReportedFailures: why an upstream lists no models is said in words that
// name neither its URL nor its key.
func TestReportedFailures(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		reply fakeupstream.Reply
		want  string
	}{
		{"key refused", fakeupstream.JSON(401, `{"error":{"message":"bad key sk-1"}}`), "The upstream refused the gateway's request (status 401)."},
		{"broken", fakeupstream.JSON(500, `{}`), "The upstream answered with status 500."},
		{"no JSON", fakeupstream.JSON(200, `<html>`), `The upstream sent a frame that is not valid: "<html>"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url, _ := play(t, func(*fakeupstream.Exchange) fakeupstream.Reply { return tt.reply })
			_, report := build(t, upstreams(map[string]config.Upstream{"u": {URL: url, Protocol: "chat", APIKey: "sk-1"}}), nil)
			if err := report.Upstreams[0].Err; err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

// TestUntrustedCertificate: the operator is told what is wrong with it.
func TestUntrustedCertificate(t *testing.T) {
	t.Parallel()
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.Config.ErrorLog = log.New(io.Discard, "", 0)
	web.StartTLS()
	t.Cleanup(web.Close)
	_, report := build(t, upstreams(map[string]config.Upstream{"u": {URL: web.URL}}), nil)
	if err := report.Upstreams[0].Err; err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v, want what is wrong with the certificate", err)
	}
}

func TestReportModels(t *testing.T) {
	t.Parallel()
	a, _ := playModel(t, fakeupstream.Chat)
	c := upstreams(map[string]config.Upstream{"a": {URL: a}, "down": {URL: closedAddress(t)}})
	_, report := build(t, c, nil)
	if diff := cmp.Diff([]string{"tiny", "tiny-2"}, report.Models(c)); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	named := withModels(c.Upstreams, "fast", config.Model{Upstream: "a", Model: "tiny"})
	if diff := cmp.Diff([]string{"fast"}, report.Models(named)); diff != "" {
		t.Errorf("configured (-want +got):\n%s", diff)
	}
}
