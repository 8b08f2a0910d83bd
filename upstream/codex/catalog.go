package codex

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/antiphon-dev/antiphon/upstream"
)

const (
	// catalogTime is how long Codex may take to print its catalog.
	catalogTime = 20 * time.Second
	maxCatalog  = 16 << 20
)

// A catalog is what Codex knows of models, without the tools and the habits that it
// would give them.
type catalog struct {
	file   []byte
	models []upstream.Model // those that Codex offers its users
	chatty map[string]bool  // the models that can be told how much to say
}

// appServer is the word that makes the program the app-server. What stands before
// it is the program itself.
const appServer = "app-server"

// readCatalog has Codex print the catalog that is built into it: no call leaves the
// machine.
func readCatalog(ctx context.Context, command []string, opts *Options) (*catalog, error) {
	program, _ := cutCommand(command)
	home, err := newHome(opts.TempDir)
	if err != nil {
		return nil, err
	}
	defer home.remove()
	ctx, cancel := context.WithTimeout(ctx, catalogTime)
	defer cancel()
	args := append(slices.Clone(program), "debug", "models", "--bundled")
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = environment(home.dir, opts.Env), home.dir, time.Second
	var stdout, stderr limited
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), errors.Join(err, context.Cause(ctx)), bytes.TrimSpace(stderr.Bytes()))
	}
	return newCatalog(stdout.Bytes())
}

// cutCommand divides a command into the program and what follows it.
func cutCommand(command []string) (program []string, ok bool) {
	i := slices.Index(command, appServer)
	if i < 1 {
		return nil, false
	}
	return command[:i], true
}

// limited keeps the beginning of what is written to it.
type limited struct{ bytes.Buffer }

// Write implements io.Writer.
func (l *limited) Write(b []byte) (int, error) {
	l.Buffer.Write(b[:min(len(b), max(0, maxCatalog-l.Len()))])
	return len(b), nil
}

// newCatalog makes bare models of the ones that Codex printed.
func newCatalog(printed []byte) (*catalog, error) {
	var all struct {
		Models []map[string]any `json:"models"`
	}
	if err := json.Unmarshal(printed, &all); err != nil {
		return nil, fmt.Errorf("the model catalog cannot be read: %w", err)
	}
	c := &catalog{chatty: map[string]bool{}}
	for _, m := range all.Models {
		slug, _ := m["slug"].(string)
		window, _ := m["context_window"].(float64)
		if m["visibility"] == "list" && slug != "" {
			c.models = append(c.models, upstream.Model{ID: slug, ContextWindow: int64(window), OwnedBy: "codex"})
		}
		c.chatty[slug] = m["support_verbosity"] == true
		bare(m)
	}
	file, err := json.Marshal(all, json.Deterministic(true))
	c.file = file
	return c, err
}

// bare takes from a model what Codex would add to a request: tools, another
// protocol, and settings that nobody asked for.
func bare(m map[string]any) {
	for _, name := range []string{"tool_mode", "multi_agent_version", "apply_patch_tool_type", "default_service_tier"} {
		delete(m, name)
	}
	m["use_responses_lite"], m["supports_search_tool"] = false, false
	m["experimental_supported_tools"] = []any{}
	m["default_reasoning_level"], m["default_verbosity"] = nil, nil
	m["truncation_policy"] = map[string]any{"mode": "tokens", "limit": 1_000_000_000}
}
