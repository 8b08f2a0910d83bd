package standard_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/internal/fakemcp"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/standard"
)

// TestTools: a file says which tools the gateway runs, and requests use them (R43).
func TestTools(t *testing.T) {
	t.Parallel()
	fake := fakeupstream.NewServer(fakeupstream.NewModel(nil).Answer)
	model := httptest.NewServer(fake)
	defer model.Close()
	defer fake.Close()
	wiki := httptest.NewServer(fakemcp.Handler(nil))
	defer wiki.Close()
	weather := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "sunny in %s for %s", r.URL.Query().Get("q"), r.Header.Get("X-Key"))
	}))
	defer weather.Close()
	c, err := config.Parse(fmt.Appendf(nil, `
upstreams: { small: { protocol: chat, url: %q } }
tools:
  mcp:
    - { label: wiki, url: %q, allowed_tools: [echo, fail], trusted_tools: [echo] }
  http:
    - { name: get_weather, url: "%s/v1?q={city}", headers: { X-Key: me }, approval: never, parameters: { type: object, properties: { city: { type: string } } } }
  requests: { mcp: true }
  limits: { calls: 3 }
`, model.URL+"/v1", wiki.URL, weather.URL), nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := standard.New(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	srv := httptest.NewServer(g.Handler())
	defer srv.Close()
	for body, want := range map[string]string{
		`{"input":"[[call get_weather {\"city\":\"Rome\"}]]","tools":[{"type":"function","name":"get_weather"}]}`:                     `sunny in Rome for me`,
		`{"input":"[[call echo {\"text\":\"hello\"}]]","tools":[{"type":"mcp","server_label":"wiki"}]}`:                               `"output":"hello"`,
		`{"input":"[[call fail {}]]","tools":[{"type":"mcp","server_label":"wiki"}]}`:                                                 `"mcp_approval_request"`,
		`{"input":"[[call slow {}]]","tools":[{"type":"mcp","server_label":"wiki"}]}`:                                                 `There is no tool slow`,
		`{"input":"x","tools":[{"type":"mcp","server_label":"x","server_url":"http://169.254.169.254/mcp"}]}`:                         `"param":"tools[0].server_url"`,
		`{"input":"[[call echo {}]][[call echo {}]][[call echo {}]][[call echo {}]]","tools":[{"type":"mcp","server_label":"wiki"}]}`: `"reason":"max_tool_calls"`,
	} {
		if got := postTo(t, srv.URL, strings.Replace(body, "{", `{"model":"tiny","store":false,`, 1)); !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
	bad := *c
	bad.Tools.Requests.Allow = []string{"0x7f.1"}
	if err := standard.Reload(t.Context(), g, &bad, nil); err == nil || !strings.Contains(err.Error(), "0x7f.1") {
		t.Errorf("an address that cannot be read: %v", err)
	}
	c.Tools = config.Tools{}
	if err := standard.Reload(t.Context(), g, c, nil); err != nil {
		t.Fatal(err)
	}
	got := postTo(t, srv.URL, `{"model":"tiny","store":false,"input":"x","tools":[{"type":"mcp","server_label":"wiki"}]}`)
	if !strings.Contains(got, `"param":"tools[0]"`) {
		t.Errorf("without tools: got %s", got)
	}
}

func postTo(t *testing.T, base, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, base+"/v1/responses", bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
