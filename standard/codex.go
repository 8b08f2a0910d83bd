package standard

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/codex"
)

// newCodex returns the driver of a Codex app-server. Nothing is started.
func newCodex(u config.Upstream, logger *slog.Logger) (upstream.Driver, error) {
	opts := &codex.Options{
		Degrade: u.Degrade, SkipMalformed: u.OnMalformed == config.MalformedSkip, Env: map[string]string{}, Logger: logger,
	}
	for name, v := range u.Env {
		opts.Env[name] = v.Reveal()
	}
	for _, k := range u.Keys() {
		opts.APIKeys = append(opts.APIKeys, k.Reveal())
	}
	for _, dir := range u.Logins {
		dir, err := fromHome(dir)
		if err != nil {
			return nil, err
		}
		opts.Logins = append(opts.Logins, dir)
	}
	if opts.Logins == nil && opts.APIKeys == nil {
		opts.Logins = ownLogin()
	}
	return codex.New(u.Command, opts)
}

// fromHome returns dir with a ~ at its beginning replaced, and absolute: the
// program runs elsewhere.
func fromHome(dir string) (string, error) {
	if rest, ok := strings.CutPrefix(dir, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, rest)
	}
	return filepath.Abs(dir)
}

// ownLogin returns the directory of the login of whoever started the gateway; none
// if there is none. A provider that the command names may need none.
func ownLogin() []string {
	dir := os.Getenv("CODEX_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil
		}
		dir = filepath.Join(home, ".codex")
	}
	if _, err := os.Stat(filepath.Join(dir, "auth.json")); err != nil {
		return nil
	}
	return []string{dir}
}

// askProgram learns what can be learned of an upstream that is a program. What
// follows its arguments may be secret, so it is not shown.
func (s *surveyor) askProgram(ctx context.Context, found Upstream, u config.Upstream) Upstream {
	found.Engine = "Codex"
	found.URL = strings.Join(u.Command[:slices.Index(u.Command, "app-server")+1], " ")
	var err error
	if found.Models, err = listModels(ctx, u, s.client); err != nil {
		found.Err = fmt.Errorf("it could not be started: %s", strings.TrimSuffix(responses.AsError(err).Message, "."))
	}
	return found
}
