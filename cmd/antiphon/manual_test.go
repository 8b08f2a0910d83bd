package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestManual: every command has a page, which groff, where it is, reads without a
// word (R35).
func TestManual(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := program{stdout: t.Output(), stderr: t.Output(), lookupEnv: os.LookupEnv}
	if code := p.run(t.Context(), []string{"manual", dir}); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	for _, name := range []string{"antiphon", "antiphon-serve", "antiphon-launch-codex", "antiphon-config-check", "antiphon-doctor", "antiphon-migrate"} {
		text, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, part := range []string{".TH", ".SH NAME", ".SH SYNOPSIS"} {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s has no %s", name, part)
			}
		}
		if groff, err := exec.LookPath("groff"); err == nil {
			cmd := exec.CommandContext(t.Context(), groff, "-man", "-Tutf8", "-ww", "-z")
			cmd.Stdin = strings.NewReader(string(text))
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%s: %v\n%s", name, err, out)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "antiphon-manual.1")); err == nil {
		t.Error("a hidden command has a page")
	}
}

// TestCompletions: there is a script for each shell that we ship one for, and
// bash's is bash.
func TestCompletions(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		var out strings.Builder
		p := program{stdout: &out, stderr: t.Output(), lookupEnv: os.LookupEnv}
		if code := p.run(t.Context(), []string{"completion", shell}); code != exitOK || !strings.Contains(out.String(), "antiphon") {
			t.Errorf("%s: exit code %d, %d bytes", shell, code, out.Len())
		}
		if bash, err := exec.LookPath("bash"); shell == "bash" && err == nil {
			cmd := exec.CommandContext(t.Context(), bash, "-n")
			cmd.Stdin = strings.NewReader(out.String())
			if said, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, said)
			}
		}
	}
}
