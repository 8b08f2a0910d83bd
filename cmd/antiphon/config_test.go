package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// TestExamplesAreValid checks the files that users copy from with the command that
// the documentation names. It sets the environment, so it is not parallel.
func TestExamplesAreValid(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "AZURE_KEY", "TEAM_A_KEY"} {
		t.Setenv(name, "example-0123456789")
	}
	names, err := filepath.Glob("../../examples/config/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, name := range names {
		var stdout, stderr bytes.Buffer
		p := program{stdout: &stdout, stderr: &stderr, lookupEnv: func(string) (string, bool) { return "", false }}
		if code := p.run(t.Context(), []string{"config", "check", name}); code != exitOK || !strings.Contains(stdout.String(), "is valid: ") {
			t.Errorf("%s: exit code %d\n%s%s", name, code, &stdout, &stderr)
		}
	}
}
