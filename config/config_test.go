package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/config"
)

// environment is what the files under testdata may refer to.
var environment = map[string]string{
	"OPENAI_API_KEY": "sk-openai",
	"ORG":            "acme",
	"EMPTY":          "",
	"RPM":            "600",
	"TEAM_A_KEY":     "team-a-0123456789",
	"AZURE_KEY":      "az-1",
}

// secretFiles are the files that those under testdata may refer to.
var secretFiles = map[string]string{
	"/run/secrets/openai": "sk-file\n",
	"/run/secrets/empty":  "\n",
}

func parse(data []byte) (*config.Config, error) {
	return config.Parse(data, &config.ParseOptions{
		LookupEnv: func(name string) (string, bool) {
			v, ok := environment[name]
			return v, ok
		},
		ReadFile: func(path string) ([]byte, error) {
			if text, ok := secretFiles[path]; ok {
				return []byte(text), nil
			}
			return nil, &os.PathError{Op: "open", Path: path, Err: os.ErrNotExist}
		},
	})
}

// files returns the files under testdata with the ending; there must be some.
func files(t *testing.T, ending string) []string {
	t.Helper()
	names, err := filepath.Glob("testdata/*" + ending)
	if err != nil || len(names) == 0 {
		t.Fatalf("testdata/*%s: %v, %v", ending, names, err)
	}
	return names
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestBadFiles: the comment that a bad file begins with is what is said of it
// (R36).
func TestBadFiles(t *testing.T) {
	t.Parallel()
	for _, name := range files(t, ".bad.yaml") {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			data := read(t, name)
			var want []string
			for line := range strings.Lines(string(data)) {
				text, ok := strings.CutPrefix(line, "# ")
				if !ok {
					break
				}
				want = append(want, strings.TrimSpace(text))
			}
			c, err := parse(data)
			if err == nil {
				t.Fatalf("no error, and the configuration %+v", c)
			}
			if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestExamples: the examples that users copy from are valid.
func TestExamples(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("../examples/config/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			if _, err := parse(read(t, name)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Run("good", func(t *testing.T) {
		t.Parallel()
		c, err := config.Load(write("good.yaml", "upstreams: {a: {url: 'http://127.0.0.1'}}"))
		if err != nil || c.Upstreams["a"].URL != "http://127.0.0.1" {
			t.Errorf("got %+v, %v", c, err)
		}
	})
	t.Run("bad", func(t *testing.T) {
		t.Parallel()
		path := write("bad.yaml", "port: 80\n")
		_, err := config.Load(path)
		problem, ok := errors.AsType[*config.Error](err)
		if !ok || problem.Name != path || !strings.HasPrefix(err.Error(), path+":1:1: port: unknown key") {
			t.Errorf("got %v, want it to begin with the file and the place", err)
		}
	})
	t.Run("missing", func(t *testing.T) {
		t.Parallel()
		if _, err := config.Load(filepath.Join(dir, "none.yaml")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v, want that the file does not exist", err)
		}
	})
	t.Run("too large", func(t *testing.T) {
		t.Parallel()
		_, err := config.Load(write("large.yaml", strings.Repeat("#", config.MaxBytes+1)))
		if err == nil || !strings.Contains(err.Error(), "larger than") {
			t.Errorf("got %v, want that it is too large", err)
		}
	})
}

func TestBase(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"http://127.0.0.1:8000":           "http://127.0.0.1:8000/v1",
		"http://127.0.0.1:8000/":          "http://127.0.0.1:8000/v1",
		"http://[::1]:8000":               "http://[::1]:8000/v1",
		"https://api.openai.com/v1":       "https://api.openai.com/v1",
		"https://api.openai.com/v1/":      "https://api.openai.com/v1",
		"https://x.example/openai":        "https://x.example/openai",
		"https://x.example/a%2Fb/openai/": "https://x.example/a%2Fb/openai",
	} {
		got, err := config.Upstream{URL: url}.Base()
		if err != nil || got.String() != want {
			t.Errorf("Base of %s: got %v, %v; want %s", url, got, err, want)
		}
	}
}

// TestValidateWithoutFile: a configuration that a program made has no places and
// may leave everything but its upstreams zero.
func TestValidateWithoutFile(t *testing.T) {
	t.Parallel()
	good := config.Config{Upstreams: map[string]config.Upstream{"a": {URL: "http://127.0.0.1"}}}
	if err := good.Validate(); err != nil {
		t.Errorf("zero values: %v", err)
	}
	bad := config.Config{
		Listen:    "4100",
		Mode:      "loose",
		Upstreams: map[string]config.Upstream{"a": {}},
		Timeouts:  config.Timeouts{Idle: -time.Second},
	}
	want := `listen: "4100" is not an address; write host:port, such as 127.0.0.1:4100
mode: "loose" is not a mode; use transparent or strict
upstreams.a.url: is missing; write the address of the upstream, such as http://127.0.0.1:8000/v1
timeouts.idle: -1s is shorter than nothing; leave it out for the default`
	if diff := cmp.Diff(want, fmt.Sprint(bad.Validate())); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestListen(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{ // a part of the problem; empty means none
		"127.0.0.1:4100": "",
		"127.9.9.9:80":   "",
		"localhost:0":    "",
		"[::1]:4100":     "",
		":4100":          "can be reached from other machines",
		"0.0.0.0:4100":   "can be reached from other machines",
		"[::]:4100":      "can be reached from other machines",
		"10.0.0.1:4100":  "can be reached from other machines",
		"example.com:80": "can be reached from other machines",
		"127.0.0.1":      "is not an address",
		"127.0.0.1:http": "is not a port",
		"127.0.0.1:-1":   "is not a port",
	} {
		c := config.Config{Listen: addr, Upstreams: map[string]config.Upstream{"a": {URL: "http://127.0.0.1"}}}
		err := c.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("listen %s: got %v, want %q", addr, err, want)
		}
	}
}

// TestSecretsStaySecret: neither a problem nor a printed configuration shows a
// credential.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	const secret = "sk-very-secret"
	c := config.Config{Upstreams: map[string]config.Upstream{
		"a": {URL: "http://u:" + secret + "@host:bad/", APIKey: secret + "\n", Auth: config.AuthNone, Headers: map[string]config.Secret{"X-Key": secret + "\x00"}},
		"b": {URL: "http://u:" + secret + "@host/?k=" + secret},
	}}
	if err := c.Validate(); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("problems: %v", err)
	}
	a := c.Upstreams["a"]
	a.URL = ""
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if got := fmt.Sprintf(format, a); strings.Contains(got, secret) || !strings.Contains(got, "[redacted]") {
			t.Errorf("%s: %s", format, got)
		}
	}
	if got := a.APIKey.Reveal(); got != secret+"\n" {
		t.Errorf("Reveal: got %q", got)
	}
}

// FuzzParse: whatever the bytes are, there is a valid configuration or a list of
// problems.
func FuzzParse(f *testing.F) {
	names, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parse(data)
		if err != nil {
			if e, ok := errors.AsType[*config.Error](err); !ok || len(e.Problems) == 0 {
				t.Fatalf("not a list of problems: %v", err)
			}
			return
		}
		if err := c.Validate(); err != nil {
			t.Fatalf("the configuration is not valid: %v", err)
		}
	})
}
