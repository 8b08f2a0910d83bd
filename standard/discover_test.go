package standard_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/standard"
)

func TestDiscoverPlaces(t *testing.T) {
	t.Parallel()
	serve := func(status int, body string) string {
		url, _ := play(t, func(*fakeupstream.Exchange) fakeupstream.Reply { return fakeupstream.JSON(status, body) })
		return url
	}
	tests := []struct {
		name   string
		engine string
		url    string
		found  string // the upstream's name without its port, empty means not found
		result string
	}{
		{"vllm", "vLLM", serve(200, `{"object":"list","data":[{"id":"m","owned_by":"vllm"}]}`), "vllm", "models: 1"},
		{"ollama", "Ollama", serve(200, `{"object":"list","data":null}`), "ollama", "it has no model yet"},
		{"lmstudio", "LM Studio", serve(200, `{"object":"list","data":[{"id":"m"},{"id":"n"}]}`), "lmstudio", "models: 2"},
		{"llamacpp", "llama.cpp", serve(200, `{"object":"list","data":[{"id":"m","owned_by":"sglang"}]}`), "local-", "models: 1"},
		{"html", "vLLM", serve(200, `<html>`), "", "something listens there, but it lists no models"},
		{"other", "vLLM", serve(200, `{"data":[]}`), "", "something listens there, but it lists no models"},
		{"error", "vLLM", serve(500, `{"object":"list"}`), "", "something listens there, but it lists no models"},
		{"refused", "vLLM", closedAddress(t), "", "nothing listens there"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := standard.Discover(t.Context(), &standard.DiscoverOptions{
				Places: []standard.Place{{Name: tt.name, Engine: tt.engine, URL: tt.url}},
				Keys:   []standard.Key{},
			})
			want := map[string]config.Upstream{}
			if name := tt.found; name != "" {
				if name == "local-" {
					name += port(tt.url)
				}
				want[name] = config.Upstream{URL: tt.url, Auth: config.AuthClient}
			}
			if diff := cmp.Diff(want, d.Config.Upstreams); diff != "" {
				t.Errorf("upstreams (-want +got):\n%s", diff)
			}
			look := []standard.Look{{Where: tt.engine + " at " + tt.url, Found: tt.found != "", Result: tt.result}}
			if diff := cmp.Diff(look, d.Looks); diff != "" {
				t.Errorf("looks (-want +got):\n%s", diff)
			}
		})
	}
}

func port(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		panic(err)
	}
	return u.Port()
}

// TestDiscoverLeavesSomeAlone: a server that wants a key is named, one that says
// nothing is not waited for, and the gateway does not find itself.
func TestDiscoverLeavesSomeAlone(t *testing.T) {
	t.Parallel()
	locked, _ := play(t, func(*fakeupstream.Exchange) fakeupstream.Reply { return fakeupstream.JSON(401, `{}`) })
	silent, _ := play(t, func(*fakeupstream.Exchange) fakeupstream.Reply {
		return fakeupstream.Reply{Fault: fakeupstream.Fault{Kind: fakeupstream.StallFirst}}
	})
	own, srv := playModel(t, fakeupstream.Chat)
	d := standard.Discover(t.Context(), &standard.DiscoverOptions{
		Places: []standard.Place{{Name: "a", URL: locked}, {Name: "b", URL: silent}, {Name: "c", URL: own}},
		Keys:   []standard.Key{},
		Listen: strings.TrimPrefix(own, "http://"),
		Time:   100 * time.Millisecond,
	})
	var got []string
	for i, look := range d.Looks {
		got = append(got, look.Result)
		if look.Notable != (i == 0) {
			t.Errorf("%s: Notable is %t", look.Result, look.Notable)
		}
	}
	want := []string{"it asks for a key: use --upstream " + locked + " --key-env NAME", "no answer", "that is this gateway's own address"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("looks (-want +got):\n%s", diff)
	}
	if len(d.Config.Upstreams) > 0 || len(srv.Requests()) > 0 {
		t.Errorf("found %v, and asked itself %d times", d.Config.Upstreams, len(srv.Requests()))
	}
}

func TestDiscoverKeys(t *testing.T) {
	t.Parallel()
	const own = "127.0.0.1:4100"
	for _, tt := range []struct {
		name    string
		env     map[string]string
		want    map[string]config.Upstream
		results []string // OpenAI's, Anthropic's
	}{
		{"none", nil, map[string]config.Upstream{}, []string{"not set", "not set"}},
		{"empty", map[string]string{"OPENAI_API_KEY": ""}, map[string]config.Upstream{}, []string{"not set", "not set"}},
		{
			"OpenAI", map[string]string{"OPENAI_API_KEY": "sk-1"},
			map[string]config.Upstream{"openai": {Protocol: "responses", URL: "https://api.openai.com/v1", APIKey: "sk-1"}},
			[]string{"set", "not set"},
		},
		{
			"OpenAI elsewhere", map[string]string{"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": "https://llm.example/v1"},
			map[string]config.Upstream{"openai": {URL: "https://llm.example/v1", APIKey: "sk-1"}},
			[]string{"set, for the address in OPENAI_BASE_URL", "not set"},
		},
		{
			"OpenAI is us", map[string]string{"OPENAI_API_KEY": "sk-1", "OPENAI_BASE_URL": "http://" + own + "/v1"},
			map[string]config.Upstream{},
			[]string{"not used: OPENAI_BASE_URL is this gateway's own address", "not set"},
		},
		{
			"Anthropic", map[string]string{"ANTHROPIC_API_KEY": "sk-2"}, map[string]config.Upstream{},
			[]string{"not set", "set, but the provider's protocol is not in this build"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := standard.Discover(t.Context(), &standard.DiscoverOptions{
				Places:    []standard.Place{},
				Listen:    own,
				LookupEnv: func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok },
			})
			if diff := cmp.Diff(tt.want, d.Config.Upstreams); diff != "" {
				t.Errorf("upstreams (-want +got):\n%s", diff)
			}
			var results []string
			for _, look := range d.Looks {
				results = append(results, look.Result)
				if look.Notable != (look.Result != "not set" && !look.Found) {
					t.Errorf("%s: Notable is %t", look.Result, look.Notable)
				}
			}
			if diff := cmp.Diff(tt.results, results); diff != "" {
				t.Errorf("looks (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPlaces: the ports are those of the engines' documentation.
func TestPlaces(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for _, p := range standard.Places() {
		got[p.Engine] = p.URL
	}
	want := map[string]string{
		"Ollama": "http://127.0.0.1:11434", "vLLM": "http://127.0.0.1:8000",
		"llama.cpp": "http://127.0.0.1:8080", "LM Studio": "http://127.0.0.1:1234",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}
