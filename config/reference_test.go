package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/config"
)

// TestReferencedFiles reads real files: a line break at the end is not part of
// the value, and no message shows what is in a file.
func TestReferencedFiles(t *testing.T) {
	t.Parallel()
	const secret = "sk-very-secret"
	for name, tt := range map[string]struct {
		content string
		want    string // the key, or a part of the problem
		bad     bool
	}{
		"plain":                 {content: secret, want: secret},
		"line break":            {content: secret + "\n", want: secret},
		"line break of DOS":     {content: secret + "\r\n", want: secret},
		"not looked at":         {content: "${HOME}", want: "${HOME}"},
		"two line breaks":       {content: secret + "\n\n", want: "has characters that cannot be sent", bad: true},
		"empty":                 {content: "\n", want: "is empty", bad: true},
		"largest":               {content: strings.Repeat("k", config.MaxReferencedBytes), want: strings.Repeat("k", config.MaxReferencedBytes)},
		"larger than that":      {content: strings.Repeat("k", config.MaxReferencedBytes+1), want: "it is larger than 65536 bytes", bad: true},
		"no characters to send": {content: secret + "\x00", want: "has characters that cannot be sent", bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := config.Parse([]byte(`upstreams: { a: { url: "http://h.test", api_key: "${file:`+path+`}" } }`), nil)
			switch {
			case tt.bad && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), secret)):
				t.Errorf("got %v, want %q and not the content", err, tt.want)
			case !tt.bad && err != nil:
				t.Error(err)
			case !tt.bad && c.Upstreams["a"].APIKey.Reveal() != tt.want:
				t.Errorf("got %q", c.Upstreams["a"].APIKey.Reveal())
			}
		})
	}
}

// TestReferencedDirectory: what is no file is not waited for.
func TestReferencedDirectory(t *testing.T) {
	t.Parallel()
	_, err := config.Parse([]byte(`upstreams: { a: { url: "http://h.test", api_key: "${file:`+t.TempDir()+`}" } }`), nil)
	if err == nil || !strings.Contains(err.Error(), "it is not a regular file") {
		t.Errorf("got %v", err)
	}
}
