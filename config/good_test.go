package config_test

import (
	"encoding/json/jsontext"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/config"
)

// goodFiles are what the good files under testdata change of the default.
var goodFiles = map[string]func(c *config.Config){
	"minimal": func(c *config.Config) {
		c.Upstreams = map[string]config.Upstream{"local": {URL: "http://127.0.0.1:8000", OnMalformed: "fail"}}
	},
	"nothing-written": func(c *config.Config) {
		c.Upstreams = map[string]config.Upstream{"local": {URL: "http://127.0.0.1:8000/v1", OnMalformed: "fail"}}
	},
	"client": func(c *config.Config) {
		c.Upstreams = map[string]config.Upstream{
			"guests": {URL: "https://llm.example/openai/v1", Auth: config.AuthClient, OnMalformed: config.MalformedFail},
		}
	},
	"full": func(c *config.Config) {
		c.Listen = "0.0.0.0:4100"
		c.Admin = config.Admin{Listen: "0.0.0.0:4101", Key: "admin-team-a-0123456789", PProf: true}
		c.Auth.Keys = []config.Key{
			{
				Name: "ci-2026", Key: "team-a-0123456789", Tenant: "team-a", Models: []string{"fast", "gpt-*"},
				Limits: config.KeyLimits{RequestsPerMinute: 600, TokensPerMinute: 200000, Concurrent: 50},
			},
			{Name: "ops", KeySHA256: config.Secret(strings.Repeat("0123456789abcdef", 3) + "0123456789ABCDEF"), Tenant: "ops", Models: []string{"*"}},
		}
		c.CORS.Origins = []string{"https://chat.example", "http://intranet.example:8080"}
		c.TrustedProxies = []string{"10.0.0.0/8", "192.0.2.1", "2001:db8::/32"}
		c.Upstreams = fullUpstreams
		c.Models = map[string]config.Model{
			"gpt-4o":   alone("openai", ""),
			"qwen3:8b": alone("local", ""),
			"gpt-*":    alone("openai", ""),
			"kept":     alone("keeper", ""),
			"openai/*": alone("openai", "*"),
			"fast":     fast,
		}
		c.Rules = []config.Rule{
			{Match: config.Match{LastUser: "(?i)^generate a (short )?title", MaxChars: 4000}, Model: "fast"},
			{Match: config.Match{LastUser: `^summar(y|ize)\b.*$`}, Model: "gpt-4o-mini"},
		}
		c.OutputMode = config.OutputObsidian
		c.State = config.State{Store: config.StoreMemory, Events: config.EventsInStore, Retention: 7 * 24 * time.Hour}
		c.Timeouts = config.Timeouts{Hold: 5 * time.Second, FirstEvent: time.Minute, Idle: 90 * time.Second, Total: 2 * time.Hour, Drain: 30 * time.Second}
		c.Tools = fullTools
		c.SealKeys = []config.Secret{"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}
	},
}

var fullTools = config.Tools{
	MCP: []config.MCPServer{
		{
			Label: "files", Command: []string{"mcp-files", "--root", "/srv/docs"}, Env: map[string]config.Secret{"TOKEN": "acme"},
			Approval: config.ApprovalNever, StandsFor: []string{"file_search"},
		},
		{
			Label: "wiki", URL: "https://wiki.example/mcp", Headers: map[string]config.Secret{"Authorization": "Bearer acme"},
			AllowedTools: []string{"read", "write"}, TrustedTools: []string{"read"}, Approval: config.ApprovalAlways,
		},
	},
	HTTP: []config.HTTPTool{
		{
			Name: "get_weather", Description: "What the weather is.", URL: "https://weather.example/v1?q={city}", Method: "GET",
			Parameters: jsontext.Value(`{"type":"object","properties":{"city":{"type":"string"}}}`), Approval: config.ApprovalNever,
		},
		{
			Name: "note", URL: "https://notes.example/{id}", Method: "POST", Headers: map[string]config.Secret{"X-Key": "acme"},
			Approval: config.ApprovalAlways, Override: true, StandsFor: []string{"web_search"},
		},
	},
	Requests: config.ToolRequests{MCP: true, Allow: []string{"10.0.0.0/8", "wiki.internal:8443"}},
	Limits: config.ToolLimits{
		Rounds: 10, Calls: 20, Time: 5 * time.Minute, Tokens: 100000, Parallel: 2, CallTime: 10 * time.Second, OutputBytes: 4096,
	},
}

var fullUpstreams = map[string]config.Upstream{
	"local": {Protocol: config.ProtocolChat, URL: "http://127.0.0.1:8000/v1", OnMalformed: config.MalformedSkip},
	"openai": {
		Protocol: config.ProtocolResponses, URL: "https://api.openai.com/v1/", APIKey: "sk-openai", Auth: config.AuthBearer,
		Headers: map[string]config.Secret{"OpenAI-Organization": "org-acme"}, OnMalformed: config.MalformedFail,
	},
	"pool":  {URL: "https://llm.example/v1", APIKeys: []config.Secret{"sk-file", "k-2"}, Auth: "header X-Key", OnMalformed: config.MalformedFail},
	"azure": {URL: "https://x.openai.azure.com/openai/v1", APIKey: "az-1", Auth: config.AuthAzure, OnMalformed: config.MalformedFail},
	"codex": {
		Protocol: config.ProtocolCodex, Command: []string{"codex", "app-server", "-c", `model_provider="lab"`}, APIKey: "sk-openai",
		Logins: []string{"/srv/codex"}, Env: map[string]config.Secret{"LAB_KEY": "az-1"}, Degrade: true, OnMalformed: config.MalformedFail,
	},
	"keeper": {
		Protocol: config.ProtocolResponses, URL: "https://keeper.example/v1", APIKeys: []config.Secret{"kk-1", "kk-2"},
		State: config.KeptByUpstream, OnMalformed: config.MalformedFail,
	},
	"guests": {URL: "https://llm.example/openai/v1", Auth: config.AuthNone, OnMalformed: config.MalformedFail, Relay: new(false), Sanitize: true},
}

// fast is a model with everything that a model can have (R32, R34).
var fast = config.Model{
	Upstream: "local", Model: "qwen3-32b",
	Targets: []config.Target{
		{Upstream: "local", Model: "qwen3-32b", Weight: 3, Priority: 1, Limits: config.TargetLimits{Concurrent: 8, RequestsPerMinute: 100}},
		{Upstream: "pool", Model: "gpt-4o-mini", Weight: 0, Priority: 1},
		{Upstream: "openai", Model: "gpt-4o-mini", Weight: 1, Priority: 2},
	},
	Defaults: map[string]jsontext.Value{
		"temperature": jsontext.Value("0.20"),
		"reasoning":   jsontext.Value(`{"effort":"low","summary":null}`),
		"include":     jsontext.Value(`["a","acme",16,true]`),
	},
	Override: map[string]jsontext.Value{"store": jsontext.Value("false"), "metadata": jsontext.Value("null"), "seed": jsontext.Value("1e3"), "user": jsontext.Value(`"1e3"`)},
	Drop:     []string{"service_tier"},
	Info:     config.ModelInfo{ContextWindow: 131072},
}

// alone is what a model with one target becomes, however it was written.
func alone(upstream, model string) config.Model {
	return config.Model{
		Upstream: upstream, Model: model,
		Targets: []config.Target{{Upstream: upstream, Model: model, Weight: 1, Priority: 1}},
	}
}

func TestGoodFiles(t *testing.T) {
	t.Parallel()
	for _, name := range files(t, ".good.yaml") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			change := goodFiles[strings.TrimSuffix(filepath.Base(name), ".good.yaml")]
			if change == nil {
				t.Fatal("the test does not say what is in the file")
			}
			want := config.Default()
			change(want)
			got, err := parse(read(t, name))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
		})
	}
}
