package main

import (
	"errors"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/standard"
	"github.com/antiphon-dev/antiphon/upstream"
)

func listing(ids ...string) []upstream.Model {
	var models []upstream.Model
	for _, id := range ids {
		models = append(models, upstream.Model{ID: id})
	}
	return models
}

func TestExampleModel(t *testing.T) {
	t.Parallel()
	down := standard.Upstream{Name: "down", Err: errors.New("connection refused")}
	for _, tt := range []struct {
		name      string
		models    map[string]config.Model
		upstreams []standard.Upstream
		want      string
	}{
		{"first by name", nil, []standard.Upstream{{Name: "a", Models: listing("qwen3:8b", "llama3.2")}}, "llama3.2"},
		{"one that answers in text", nil, []standard.Upstream{{Name: "a", Models: listing("all-minilm-embed", "nomic-embed-text", "qwen3:8b")}}, "qwen3:8b"},
		{"one for general use", nil, []standard.Upstream{{Name: "a", Models: listing("chatgpt-x", "gpt-4o", "gpt-4o-audio-preview", "o1")}}, "gpt-4o"},
		{"one that a shell leaves alone", nil, []standard.Upstream{{Name: "a", Models: listing(`a'; rm -rf "$HOME"; '`, "b\nc", `d"`, "e")}}, "e"},
		{"a name of the operator", map[string]config.Model{"fast": {Upstream: "a"}}, []standard.Upstream{{Name: "a", Models: listing("tiny")}}, "fast"},
		{
			"one whose upstream answers",
			map[string]config.Model{"x": {Upstream: "down"}, "y": {Upstream: "a"}},
			[]standard.Upstream{{Name: "a", Models: listing("tiny")}, down},
			"y",
		},
		{"none", nil, []standard.Upstream{down}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := announcement{
				settings: &settings{config: &config.Config{Models: tt.models}},
				report:   &standard.Report{Upstreams: tt.upstreams},
			}
			if got := a.exampleModel(); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestAnnouncementObeysNobody: what an upstream calls its models reaches the
// terminal as visible text only, and not without end.
func TestAnnouncementObeysNobody(t *testing.T) {
	t.Parallel()
	names := []string{"\x1b[2J\x07evil"}
	for range 1000 {
		names = append(names, "model")
	}
	a := announcement{
		settings: &settings{config: config.Default()},
		report: &standard.Report{
			Upstreams: []standard.Upstream{{Name: "a", Models: listing(names...)}},
			Shadowed:  []standard.Shadowed{{Model: "\x1b]0;x\x07", Serves: "a", Hidden: "b"}},
		},
		address: "127.0.0.1:4100",
	}
	var b strings.Builder
	a.print(&b)
	if strings.ContainsAny(b.String(), "\x1b\x07") {
		t.Errorf("control characters: %q", b.String())
	}
	if !strings.Contains(b.String(), `"\x1b[2J\aevil"`) || !strings.Contains(b.String(), "and 995 more") {
		t.Errorf("the list is not as expected:\n%s", b.String())
	}
}

func TestSplitUpstream(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string][2]string{
		"http://127.0.0.1:8000":         {"127.0.0.1-8000", "http://127.0.0.1:8000"},
		"https://api.openai.com/v1":     {"api.openai.com", "https://api.openai.com/v1"},
		"openai=https://api.openai.com": {"openai", "https://api.openai.com"},
		"http://[::1]:8000":             {"--1-8000", "http://[::1]:8000"},
		"http://h/v1?a=b":               {"h", "http://h/v1?a=b"},
		"localhost:8000":                {"upstream", "localhost:8000"},
		"a=":                            {"a", ""},
	} {
		name, url := splitUpstream(arg)
		if got := [2]string{name, url}; got != want {
			t.Errorf("%s: got %q, want %q", arg, got, want)
		}
	}
}

func TestVersionOf(t *testing.T) {
	t.Parallel()
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef"}
	for _, tt := range []struct {
		name string
		info debug.BuildInfo
		want string
	}{
		{"installed", debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3"},
		{"built from a commit", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{revision}}, "0123456789ab"},
		{"built with changes", debug.BuildInfo{Settings: []debug.BuildSetting{revision, {Key: "vcs.modified", Value: "true"}}}, "0123456789ab+changes"},
		{"built without a repository", debug.BuildInfo{}, "unknown"},
	} {
		if got := versionOf(&tt.info); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}
