//go:build unix

package conformance_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A client is a program under clients/ that runs its scenarios against the server
// in its environment and exits with 0 if all of them passed.
type client struct {
	name    string
	dir     string
	command []string
}

// TestClients runs every client against a gateway over every kind of upstream
// that the small model of cmd/fakeupstream can play (R62).
func TestClients(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: real clients need npm, module downloads and half a minute")
	}
	t.Parallel()
	clients := installClients(t)
	bin := buildCommands(t)

	for _, tt := range []struct {
		name, protocol string
		settings       string // of the model
		store          string // what clients say; "" is what they do by themselves
	}{
		{"chat", "chat", "", "false"},
		{"chat, remembered", "chat", "", ""},
		{"responses, relayed", "responses", "", "false"},
		// A request that is to be changed cannot pass as it came: it is run.
		{"responses, run", "responses", "defaults: { service_tier: auto }", "false"},
		{"responses, remembered", "responses", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			upstream := startServer(t, "/v1/models", filepath.Join(bin, "fakeupstream"), "--protocol", tt.protocol)
			file := filepath.Join(t.TempDir(), "antiphon.yaml")
			config := fmt.Sprintf("upstreams: { small: { url: %q } }\nmodels:\n  \"*\": { upstream: small, %s }\n", upstream+"/v1", tt.settings)
			if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			gateway := startServer(t, "/healthz", filepath.Join(bin, "antiphon"), "serve", "--config", file)
			environment := append(os.Environ(),
				"ANTIPHON_BASE_URL="+gateway+"/v1",
				"ANTIPHON_MODEL=tiny",
				"ANTIPHON_API_KEY=conformance",
				"ANTIPHON_STORE="+tt.store,
			)
			for _, client := range clients {
				t.Run(client.name, func(t *testing.T) {
					t.Parallel()
					output := run(t, client.dir, environment, client.command...)
					t.Logf("%s", lastLine(output))
				})
			}
		})
	}
}

// The clients come from whichever registry npm is configured for: a lock file
// that names the one of its author would fail everywhere else.
func TestLockFileNamesNoRegistry(t *testing.T) {
	t.Parallel()
	lock, err := os.ReadFile("clients/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(lock), `"resolved"`) {
		t.Error(`clients/package-lock.json has "resolved" addresses; run npm in clients/, where .npmrc leaves them out`)
	}
}

// installClients fetches the client libraries, unless they are there already, and
// returns the clients.
func installClients(t *testing.T) []client {
	t.Helper()
	const dir = "clients"
	if _, err := exec.LookPath("npm"); err != nil {
		unavailable(t, "npm is not installed")
	}
	node, err := filepath.Abs(filepath.Join(dir, "node_modules/node/bin/node"))
	if err != nil {
		t.Fatal(err)
	}
	if !installed(node, dir) {
		if output, err := command(t, dir, nil, "npm", "ci").CombinedOutput(); err != nil {
			unavailable(t, "npm ci: %v\n%s", err, output)
		}
	}
	goDir := filepath.Join(dir, "go")
	if output, err := command(t, goDir, nil, "go", "mod", "download").CombinedOutput(); err != nil {
		unavailable(t, "go mod download: %v\n%s", err, output)
	}
	return []client{
		{name: "openai", dir: dir, command: []string{node, "openai.mjs"}},
		{name: "agents", dir: dir, command: []string{node, "agents.mjs"}},
		{name: "ai-openai", dir: dir, command: []string{node, "ai-openai.mjs"}},
		{name: "ai-open-responses", dir: dir, command: []string{node, "ai-open-responses.mjs"}},
		{name: "openai-go", dir: goDir, command: []string{"go", "test", "-count=1", "./..."}},
	}
}

// installed reports whether npm has installed what the lock file says now: a
// changed version must not be tested with the old library.
func installed(node, dir string) bool {
	if _, err := os.Stat(node); err != nil {
		return false
	}
	have, err := os.Stat(filepath.Join(dir, "node_modules/.package-lock.json"))
	if err != nil {
		return false
	}
	want, err := os.Stat(filepath.Join(dir, "package-lock.json"))
	return err == nil && !want.ModTime().After(have.ModTime())
}

// unavailable ends the test because this machine lacks something: a visible skip
// on a laptop, a failure in CI.
func unavailable(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// buildCommands builds the commands under test and returns their directory.
func buildCommands(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	run(t, "..", nil, "go", "build", "-o", bin+"/", "./cmd/antiphon", "./cmd/fakeupstream")
	return bin
}

// run runs a command to its end, fails the test with its output if it does not
// succeed, and returns the output if it does.
func run(t *testing.T, dir string, environment []string, name ...string) string {
	t.Helper()
	output, err := command(t, dir, environment, name...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(name, " "), err, output)
	}
	return string(output)
}

// command returns a command that is killed with its whole process group if it
// takes too long.
func command(t *testing.T, dir string, environment []string, name ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name[0], name[1:]...)
	cmd.Dir = dir
	cmd.Env = environment
	ownGroup(cmd, syscall.SIGKILL)
	return cmd
}

func lastLine(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return lines[len(lines)-1]
}
