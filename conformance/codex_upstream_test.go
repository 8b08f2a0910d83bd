//go:build unix

package conformance_test

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/standard"
)

// How large the tests of the Codex upstream are. make show-codex asks for all.
var (
	codexTurns   = flag.Int("codex-turns", 40, "turns in a row through the Codex upstream")
	codexClients = flag.Int("codex-clients", 10, "clients of the Codex upstream at once")
)

// nowhere is where calls of Codex beyond this machine end: a closed port.
const nowhere = "http://127.0.0.1:9"

// providerKey is the variable that holds the key of the scripted provider.
const providerKey = "SCRIPTED_KEY"

// codexCommand starts the app-server with the scripted provider at base for its
// own.
func codexCommand(binary, base string) []string {
	return []string{
		binary, "app-server", "-c", `model_provider="scripted"`,
		"-c", fmt.Sprintf(`model_providers.scripted={name="scripted",base_url=%q,wire_api="responses",env_key=%q,request_max_retries=0,stream_max_retries=0}`, base, providerKey),
	}
}

// codexFile is a configuration whose only upstream is Codex.
func codexFile(t *testing.T, command []string, settings string) []byte {
	t.Helper()
	argv, err := json.Marshal(command)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, "upstreams:\n  codex: { protocol: codex, command: %s, env: { %s: key, HTTPS_PROXY: %q, NO_PROXY: 127.0.0.1 }, %s }\n",
		argv, providerKey, nowhere, settings)
}

// A codexGateway is a gateway in this process over the real app-server, whose
// provider is the small model.
type codexGateway struct {
	url         string
	provider    *fakeupstream.Server
	providerURL string
}

// startCodexGateway starts everything, with settings of the upstream and more lines
// of the configuration. It ends with the test.
func startCodexGateway(t *testing.T, settings string, more ...string) *codexGateway {
	t.Helper()
	binary := installCodex(t)
	provider := fakeupstream.NewServer(fakeupstream.NewModel(&fakeupstream.ModelOptions{Protocol: fakeupstream.Responses}).Answer)
	there := httptest.NewServer(provider)
	t.Cleanup(there.Close)
	t.Cleanup(provider.Close)
	file := codexFile(t, codexCommand(binary, there.URL+"/v1"), settings)
	c, err := config.Parse(append(file, strings.Join(more, "\n")...), nil)
	if err != nil {
		t.Fatal(err)
	}
	log := new(bytes.Buffer)
	g, err := standard.New(t.Context(), c, &standard.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	here := httptest.NewServer(g.Handler())
	t.Cleanup(func() {
		here.Close()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the gateway wrote:\n%s", log)
		}
	})
	return &codexGateway{here.URL, provider, there.URL + "/v1"}
}

// post sends a request for a response and returns the answer, whose body the caller
// closes.
func (g *codexGateway) post(ctx context.Context, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/v1/responses", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(req)
}

// ask sends a request and returns the response that it is answered with.
func (g *codexGateway) ask(ctx context.Context, body string) (*responses.Response, error) {
	resp, err := g.post(ctx, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %d: %s", resp.StatusCode, answer)
	}
	return responses.DecodeResponse(answer)
}

// said returns the text of a response.
func said(r *responses.Response) string {
	var text strings.Builder
	for _, it := range r.Output {
		if m, ok := it.(*responses.Message); ok {
			text.WriteString(m.Content.Text())
		}
	}
	return text.String()
}

// codexLacks are the scenarios that the app-server has no way for.
var codexLacks = map[string]string{
	"refusal":                  "Codex does not pass refusals on: the response fails and says so",
	"max tokens":               "Codex has no limit for output tokens",
	"upstream limits the rate": "the status passes, but Codex does not tell Retry-After",
}

// TestCodexUpstreamClients: the OpenAI SDK and the Agents SDK over the real
// app-server, JSON and streamed, with everything that it can express (R50, R52, R61,
// R62, R63).
func TestCodexUpstreamClients(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: real clients need npm")
	}
	t.Parallel()
	binary := installCodex(t)
	clients := installClients(t)
	bin := buildCommands(t)
	provider := startServer(t, "/v1/models", filepath.Join(bin, "fakeupstream"), "--protocol", "responses")
	file := filepath.Join(t.TempDir(), "antiphon.yaml")
	if err := os.WriteFile(file, codexFile(t, codexCommand(binary, provider+"/v1"), "degrade: true"), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway := startServer(t, "/healthz", filepath.Join(bin, "antiphon"), "serve", "--config", file)
	var lacks []string
	for name, why := range codexLacks {
		lacks = append(lacks, name)
		t.Logf("lacks %s: %s", name, why)
	}
	environment := append(os.Environ(),
		"ANTIPHON_BASE_URL="+gateway+"/v1", "ANTIPHON_MODEL=gpt-5.5", "ANTIPHON_API_KEY=conformance", "ANTIPHON_LACKS="+strings.Join(lacks, ";"),
	)
	for _, client := range clients[:2] {
		t.Run(client.name, func(t *testing.T) {
			t.Logf("%s", lastLine(run(t, client.dir, environment, client.command...)))
		})
	}
}
