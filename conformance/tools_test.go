//go:build unix

package conformance_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/fakemcp"
)

func TestMain(m *testing.M) {
	fakemcp.Main()
	os.Exit(m.Run())
}

// TestToolClients runs real clients against a gateway that runs the tools of real
// MCP servers, the public one and one of the Go SDK, over every kind of upstream
// that the small model can play, with and without memory (R43, R44, R62, R63).
func TestToolClients(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: real clients need npm and half a minute")
	}
	t.Parallel()
	installClients(t)
	bin := buildCommands(t)
	modules, err := filepath.Abs("clients/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	node := filepath.Join(modules, "node/bin/node")
	everything := filepath.Join(modules, "@modelcontextprotocol/server-everything/dist/index.js")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, protocol := range []string{"chat", "responses"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			upstream := startServer(t, "/v1/models", filepath.Join(bin, "fakeupstream"), "--protocol", protocol)
			file := filepath.Join(t.TempDir(), "antiphon.yaml")
			config := fmt.Sprintf(`
upstreams: { small: { protocol: %s, url: %q } }
tools:
  mcp:
    - { label: everything, command: [%q, %q], approval: never }
    - { label: guarded, command: [%q, %q] }
    - { label: go, command: [%q], env: { %s: "1" }, approval: never }
  requests: { mcp: true }
`, protocol, upstream+"/v1", node, everything, node, everything, self, fakemcp.Variable)
			if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			gateway := startServer(t, "/healthz", filepath.Join(bin, "antiphon"), "serve", "--config", file)
			for _, store := range []string{"true", "false"} {
				environment := append(os.Environ(), "ANTIPHON_BASE_URL="+gateway+"/v1", "ANTIPHON_MODEL=tiny", "ANTIPHON_API_KEY=conformance",
					"ANTIPHON_STORE="+store, "ANTIPHON_UPSTREAM="+protocol)
				for _, program := range []string{"tools-openai.mjs", "tools-agents.mjs"} {
					t.Run(program+", store "+store, func(t *testing.T) {
						output := run(t, "clients", environment, node, program)
						t.Logf("%s", lastLine(output))
					})
				}
			}
		})
	}
}
