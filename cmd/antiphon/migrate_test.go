package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/pgtest"
)

// TestMigrate: the schema can be made before a gateway starts, once (R41).
func TestMigrate(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	file := filepath.Join(t.TempDir(), "antiphon.yaml")
	text := "upstreams: { a: { protocol: chat, url: \"http://127.0.0.1:1/v1\" } }\nstate: { store: \"" + url + "\" }\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args         []string
		code         int
		stdout, want string
	}{
		{args: []string{"--config", file}, stdout: "00001_state.sql"},
		{args: []string{"--store", url}, stdout: "nothing to do"},
		{code: exitUsage, want: "say which store"},
		{args: []string{"--store", "memory"}, code: exitUsage, want: `a store in "memory" has no schema`},
		{args: []string{"--store", url, "--config", file}, code: exitUsage, want: "--config and --store exclude each other"},
		{args: []string{"--store", "postgres://u:hunter2@127.0.0.1:1/db"}, code: exitFail, want: "127.0.0.1:1/db"},
	} {
		var stdout, stderr bytes.Buffer
		p := &program{stdout: &stdout, stderr: &stderr, lookupEnv: func(string) (string, bool) { return "", false }}
		code := p.run(t.Context(), append([]string{"migrate"}, tt.args...))
		if code != tt.code || !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.want) || strings.Contains(stderr.String(), "hunter2") {
			t.Errorf("migrate %q: code %d, want %d; stdout %q, stderr %q", tt.args, code, tt.code, &stdout, &stderr)
		}
	}
}
