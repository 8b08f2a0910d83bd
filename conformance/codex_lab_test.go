//go:build unix

package conformance_test

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
)

// codexLimit is how long one run of Codex may take.
const codexLimit = 30 * time.Second

// A codexLab has the programs that the scenarios run.
type codexLab struct {
	codex   string // the CLI
	gateway string // antiphon
	toy     string // an MCP server
}

func newCodexLab(t *testing.T) *codexLab {
	t.Helper()
	codex := installCodex(t)
	bin := buildCommands(t)
	run(t, "codex/mcptoy", nil, "go", "build", "-o", bin+"/", ".")
	return &codexLab{codex: codex, gateway: filepath.Join(bin, "antiphon"), toy: filepath.Join(bin, "mcptoy")}
}

// installCodex fetches the CLI, unless it is there already, and returns the
// path of its native binary: the script in front of it needs a node.
func installCodex(t *testing.T) string {
	t.Helper()
	const dir = "codex"
	binary := codexBinary(t, dir)
	if !installed(binary, dir) {
		if _, err := exec.LookPath("npm"); err != nil {
			unavailable(t, "npm is not installed")
		}
		if output, err := command(t, dir, nil, "npm", "ci").CombinedOutput(); err != nil {
			unavailable(t, "npm ci: %v\n%s", err, output)
		}
		if binary = codexBinary(t, dir); binary == "" {
			unavailable(t, "@openai/codex has no binary for this machine")
		}
	}
	return binary
}

// codexBinary returns the path of the installed binary, or "".
func codexBinary(t *testing.T, dir string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "node_modules/@openai/codex-*/vendor/*/bin/codex"))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		return ""
	}
	binary, err := filepath.Abs(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// A codexStage is one conversation: Codex in a home and a directory of its own,
// the tap that sees what it sends, one gateway or more, and the small model.
type codexStage struct {
	t        *testing.T
	lab      *codexLab
	surface  codexSurface
	provider string // asCustomProvider or asBuiltInProvider
	retries  int    // of Codex after a failure, before the stream and in it
	tap      *tap
	upstream *fakeupstream.Server
	before   int // requests that the upstream got before Codex made one
	home     string
	work     string
}

// newCodexStage starts everything but Codex, with a number of gateways that
// take turns.
func newCodexStage(t *testing.T, lab *codexLab, protocol string, surface codexSurface, gateways int) *codexStage {
	t.Helper()
	protocols := map[string]fakeupstream.Protocol{"chat": fakeupstream.Chat, "native": fakeupstream.Responses}
	upstream := fakeupstream.NewServer(fakeupstream.NewModel(&fakeupstream.ModelOptions{Protocol: protocols[protocol]}).Answer)
	web := httptest.NewServer(upstream)
	t.Cleanup(func() {
		upstream.Close()
		web.Close()
	})
	var targets []string
	for range gateways {
		targets = append(targets, startServer(t, "/healthz", lab.gateway, "serve", "--config", gatewayConfig(t, protocol, web.URL)))
	}
	return &codexStage{
		t: t, lab: lab, surface: surface, provider: asCustomProvider,
		tap:      newTap(t, targets),
		upstream: upstream,
		before:   len(upstream.Requests()),
		home:     t.TempDir(),
		work:     t.TempDir(),
	}
}

// gatewayConfig writes the configuration of a gateway over one upstream. Every
// gateway has the same key, so that each opens what another one sealed.
func gatewayConfig(t *testing.T, protocol, upstream string) string {
	t.Helper()
	if protocol == "native" {
		protocol = "responses"
	}
	file := filepath.Join(t.TempDir(), "antiphon.yaml")
	text := fmt.Sprintf("upstreams:\n  small: { protocol: %s, url: %q }\nseal_keys: [%q]\n",
		protocol, upstream+"/v1", "Y29uZm9ybWFuY2UgdGVzdHMgc2VhbCB3aXRoIHRoaXM=")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// codexSettings keep Codex from asking anybody but the gateway.
const codexSettings = `
check_for_update_on_startup = false

[model_providers.gateway]
name = "gateway"
base_url = "%[1]s/v1"
wire_api = "responses"
env_key = "GATEWAY_KEY"
request_max_retries = %[3]d
stream_max_retries = %[3]d

[analytics]
enabled = false

[features]
plugins = false
apps = false

[mcp_servers.toy]
command = "%[2]s"
`

// Ways for Codex to see the gateway: as a provider of the user's, or as the one
// that it has built in, of which it expects more.
const (
	asCustomProvider  = "model_provider = \"gateway\"\n"
	asBuiltInProvider = "openai_base_url = \"%[1]s/v1\"\n"
)

// configure writes the settings of Codex.
func (s *codexStage) configure() error {
	settings := fmt.Sprintf(s.provider+codexSettings, s.tap.url, s.lab.toy, s.retries)
	return errors.Join(
		os.WriteFile(filepath.Join(s.home, "config.toml"), []byte(settings), 0o600),
		os.WriteFile(filepath.Join(s.home, "auth.json"), []byte(`{"OPENAI_API_KEY":"conformance"}`), 0o600),
	)
}

// exec runs "codex exec" with arguments to its end. Only that it cannot be run
// is an error.
func (s *codexStage) exec(arguments ...string) (*codexRun, error) {
	if err := s.configure(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), codexLimit)
	defer cancel()
	arguments = append([]string{
		"exec", "--json", "--skip-git-repo-check", "--sandbox", "danger-full-access", "-m", s.surface.model,
	}, arguments...)
	cmd := exec.CommandContext(ctx, s.lab.codex, arguments...)
	ownGroup(cmd, syscall.SIGKILL)
	cmd.Dir = s.work
	// Whatever Codex asks for beyond this machine ends at a closed port.
	const nowhere = "http://127.0.0.1:9"
	cmd.Env = []string{
		"CODEX_HOME=" + s.home, "HOME=" + s.home, "GATEWAY_KEY=conformance", "PATH=" + os.Getenv("PATH"),
		"HTTP_PROXY=" + nowhere, "HTTPS_PROXY=" + nowhere, "NO_PROXY=127.0.0.1",
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && (!exited || ctx.Err() != nil) {
		return nil, fmt.Errorf("codex %s: %w\n%s%s", strings.Join(arguments, " "), errors.Join(err, ctx.Err()), stdout.String(), stderr.String())
	}
	result := &codexRun{exit: cmd.ProcessState.ExitCode(), stderr: stderr.String()}
	for line := range strings.Lines(stdout.String()) {
		var e codexEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return nil, fmt.Errorf("codex wrote %q: %w", line, err)
		}
		result.events = append(result.events, e)
	}
	return result, nil
}

// arrived returns the requests for responses that came to the upstream since
// Codex began.
func (s *codexStage) arrived() []*fakeupstream.Exchange {
	var list []*fakeupstream.Exchange
	for _, x := range s.upstream.Requests()[s.before:] {
		if x.Method == http.MethodPost {
			list = append(list, x)
		}
	}
	return list
}

// codexRun is what one run of Codex wrote.
type codexRun struct {
	events []codexEvent
	exit   int
	stderr string
}

// codexEvent is a line that Codex writes, as far as the scenarios look at it.
type codexEvent struct {
	Type    string    `json:"type"`
	Message string    `json:"message"`
	Item    codexItem `json:"item"`
	Error   struct {
		Message string `json:"message"`
	} `json:"error"`
}

type codexItem struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Status  string `json:"status"`
	Output  string `json:"aggregated_output"`
	Server  string `json:"server"`
	Tool    string `json:"tool"`
	Changes []struct {
		Path string `json:"path"`
		Kind string `json:"kind"`
	} `json:"changes"`
}

// items returns the finished items of a type.
func (r *codexRun) items(kind string) []codexItem {
	var list []codexItem
	for _, e := range r.events {
		if e.Type == "item.completed" && e.Item.Type == kind {
			list = append(list, e.Item)
		}
	}
	return list
}

// answer returns the last message of the agent, or "".
func (r *codexRun) answer() string {
	messages := r.items("agent_message")
	if len(messages) == 0 {
		return ""
	}
	return messages[len(messages)-1].Text
}

// failure returns why the turn failed, or "".
func (r *codexRun) failure() string {
	for _, e := range r.events {
		if e.Type == "turn.failed" {
			return e.Error.Message
		}
	}
	return ""
}

// check returns an error unless the turn ended well.
func (r *codexRun) check() error {
	if r.exit != 0 || r.failure() != "" {
		return fmt.Errorf("codex exits with %d: %s\n%s", r.exit, r.failure(), r.stderr)
	}
	return nil
}
