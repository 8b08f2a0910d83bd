package codex

import (
	"cmp"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A credential is what one process logs in with: the directory of a login, a key,
// or nothing where the command names a provider that needs nothing.
type credential struct {
	login string
	key   string
}

// settings switch off what Codex would add to the model's input, run, or call by
// itself. With them, and with the catalog, what reaches the model is ours.
var settings = []string{
	`check_for_update_on_startup = false`,
	`include_permissions_instructions = false`,
	`include_environment_context = false`,
	`include_apps_instructions = false`,
	`include_collaboration_mode_instructions = false`,
	`project_doc_max_bytes = 0`,
	`web_search = "disabled"`,
	// The history is the client's: Codex must not shorten it.
	`tool_output_token_limit = 1000000000`,
	`model_auto_compact_token_limit = 1000000000000`,
	`[analytics]`, `enabled = false`,
	`[skills]`, `include_instructions = false`,
	`[skills.bundled]`, `enabled = false`,
	`[tools.experimental_request_user_input]`, `enabled = false`,
	`[tools.update_plan]`, `enabled = false`,
	`[features]`,
	`shell_tool = false`, `unified_exec = false`, `multi_agent = false`, `multi_agent_v2 = false`, `goals = false`, `view_image = false`,
	`image_generation = false`, `sleep_tool = false`, `tool_suggest = false`, `skill_search = false`, `apps = false`, `plugins = false`,
	`memories = false`, `hooks = false`, `code_mode_host = false`, `browser_use = false`, `computer_use = false`, `workspace_dependencies = false`,
}

const (
	authFile    = "auth.json"
	homePattern = "antiphon-codex-" // what the names of homes begin with
	lockFile    = "lock"            // in a home; locked for as long as its gateway lives
)

// A home is a directory for one process, and the lock that says that its gateway
// lives.
type home struct {
	dir  string
	lock io.Closer
}

// newHome makes a home with nothing in it but its lock, which is there before any
// secret is. The caller removes it.
func newHome(temp string) (*home, error) {
	dir, err := os.MkdirTemp(temp, homePattern)
	if err != nil {
		return nil, err
	}
	lock, err := lockHome(dir)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &home{dir: dir, lock: lock}, nil
}

func (h *home) remove() error { return errors.Join(os.RemoveAll(h.dir), h.lock.Close()) }

// removeAbandoned removes the homes of gateways that were killed: there may be a
// key in them. It leaves what it cannot judge alone.
func removeAbandoned(temp string, logger *slog.Logger) {
	temp = cmp.Or(temp, os.TempDir())
	entries, err := os.ReadDir(temp)
	if err != nil {
		return // making a home will say so
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), homePattern) {
			continue
		}
		dir := filepath.Join(temp, entry.Name())
		lock := lockAbandoned(dir)
		if lock == nil {
			continue
		}
		if err := (&home{dir: dir, lock: lock}).remove(); err != nil {
			logger.Warn("the home that a killed gateway left could not be removed", "home", dir, "error", err)
			continue
		}
		logger.Info("the home that a killed gateway left is removed", "home", dir)
	}
}

// makeHome makes a CODEX_HOME for one process: its settings, the catalog, and what
// it logs in with. The login stays where it is, because Codex renews it: the home
// only points to it. The caller removes it.
func makeHome(temp string, c credential, catalog []byte) (*home, error) {
	h, err := newHome(temp)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(configure(h.dir, catalog), c.put(h.dir)); err != nil {
		return nil, errors.Join(err, h.remove())
	}
	return h, nil
}

// configure writes the settings and the catalog.
func configure(dir string, catalog []byte) error {
	lines := settings
	if catalog != nil {
		path := filepath.Join(dir, "catalog.json")
		if err := os.WriteFile(path, catalog, 0o600); err != nil {
			return err
		}
		lines = append([]string{"model_catalog_json = " + strconv.Quote(path)}, lines...)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	return os.Mkdir(workDir(dir), 0o700)
}

// workDir is where a process with that home runs: a directory with nothing in it.
func workDir(home string) string { return filepath.Join(home, "work") }

// put gives a home what its process logs in with.
func (c credential) put(home string) error {
	there := filepath.Join(home, authFile)
	switch {
	case c.key != "":
		auth, err := json.Marshal(map[string]string{"auth_mode": "apikey", "OPENAI_API_KEY": c.key})
		if err != nil {
			return err
		}
		return os.WriteFile(there, auth, 0o600)
	case c.login != "":
		login := filepath.Join(c.login, authFile)
		if _, err := os.Stat(login); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is no Codex login in %s: run codex login", c.login)
		} else if err != nil {
			return err
		}
		return os.Symlink(login, there)
	}
	return nil
}

// passed are the variables of our own environment that a process gets: where
// programs and certificates are, and how the network is reached.
var passed = []string{
	"PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "CODEX_CA_CERTIFICATE",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
}

// environment is all that a process with that home sees of the environment.
func environment(home string, own map[string]string) []string {
	env := []string{"CODEX_HOME=" + home, "HOME=" + home, "NO_COLOR=1"} // what it writes goes into a log
	for _, name := range passed {
		if v, ok := os.LookupEnv(name); ok && own[name] == "" {
			env = append(env, name+"="+v)
		}
	}
	for name, v := range own {
		env = append(env, name+"="+v)
	}
	slices.Sort(env)
	return env
}
