package main

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
)

// TestLaunchForwardsSignals: Codex decides when to end, and nothing is left behind.
func TestLaunchForwardsSignals(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(fakeupstream.NewServer(fakeupstream.NewModel(nil).Answer))
	t.Cleanup(upstream.Close)
	stub, err := exec.LookPath("stubcodex")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	env := []string{"HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	p, err := startProcess(dir, env, []string{"launch", "codex", "--upstream", upstream.URL, "--codex", stub, "--", "await"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	if _, err := p.awaitOutput(regexp.MustCompile("stubcodex waits")); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	code, err := p.wait()
	if err != nil || code != 5 {
		t.Errorf("exit code %d, error %v; want Codex's own, 5; it wrote:\n%s", code, err, p.output())
	}
}

// TestRealCodex runs the scripts in testdata/codex with the Codex that the
// conformance tests install.
func TestRealCodex(t *testing.T) {
	t.Parallel()
	const dir = "../../conformance/codex"
	codex, err := filepath.Abs(filepath.Join(dir, "node_modules/.bin/codex"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(codex); err != nil {
		_, noPackage := os.Stat(filepath.Join(dir, "package.json"))
		if os.Getenv("CI") == "true" && noPackage == nil {
			t.Fatalf("Codex is not installed: %v", err)
		}
		t.Skipf("Codex is not installed (npm ci in conformance/codex): %v", err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/codex",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			hurry(env)
			env.Setenv("CODEX", codex)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"upstream": cmdUpstream},
	})
}

func TestOtherTables(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", ""},
		{"ours", "model = \"m\"\n[features]\napps = true\n[model_providers.antiphon]\nname = \"x\"\n[analytics]\nenabled = true\n", ""},
		{"a project", "model = \"m\"\n[projects.\"/a b\"]\ntrust_level = \"trusted\"\n[features]\nx = 1\n", "\n[projects.\"/a b\"]\ntrust_level = \"trusted\"\n"},
		{"like ours", "[features.x]\na = 1\n[model_providers.antiphon2]\nb = 2\n", "\n[features.x]\na = 1\n\n[model_providers.antiphon2]\nb = 2\n"},
		{"list of tables", "[[hooks]]\na = 1\n\n[[hooks]]\na = 2", "\n[[hooks]]\na = 1\n\n[[hooks]]\na = 2\n"},
		{"other line ends", "[features]\r\na = 1\r\n[tui]\r\nb = 2\r\n", "\n[tui]\nb = 2\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := otherTables(tt.text)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			if again := otherTables("[features]\n" + got); again != got {
				t.Errorf("the next time it is %q, was %q", again, got)
			}
		})
	}
}

func TestTOMLString(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"qwen3:8b":     `"qwen3:8b"`,
		`a"b\c`:        `"a\"b\\c"`,
		"a\nb\x00\x7f": `"a\nb\u0000\u007f"`,
		"ü\xff":        `"ü` + "\uFFFD" + `"`,
	} {
		if got := tomlString(s); got != want {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
	}
}

// TestChoose: a model that Codex can use is chosen, and what is odd about it is
// said in words that do not command the terminal.
func TestChoose(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		models []listedModel
		flag   string
		want   string // empty means none
		window int64
		note   string
	}{
		{"first", []listedModel{{ID: "a", ContextWindow: 32768}, {ID: "b"}}, "", "a", 32768, "the first of 2 models"},
		{"only", []listedModel{{ID: "a"}}, "", "a", 0, "the only model"},
		{"one that answers in text", []listedModel{{ID: "a-embed"}, {ID: "b"}}, "", "b", 0, "the only model"},
		{"one that is a name", []listedModel{{ID: "\x1b[2J"}, {ID: "b"}}, "", "b", 0, "the only model"},
		{"named", []listedModel{{ID: "a"}, {ID: "b", ContextWindow: 4096}}, "b", "b", 4096, "too small for Codex"},
		{"not listed", []listedModel{{ID: "a"}}, "\x1b[2J", "\x1b[2J", 0, `does not list "\x1b[2J"`},
		{"none", nil, "", "", 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := codexGateway{models: tt.models}
			m, err := g.choose(tt.flag)
			if (err != nil) != (tt.want == "") || m.name != tt.want || m.window != tt.window {
				t.Fatalf("got %q with %d tokens, error %v; want %q with %d", m.name, m.window, err, tt.want, tt.window)
			}
			if notes := strings.Join(m.notes, "\n"); !strings.Contains(notes, tt.note) || strings.Contains(notes, "\x1b") {
				t.Errorf("notes: got %q, want %q", notes, tt.note)
			}
		})
	}
}

// TestProfileForKnownModels: without a catalog of ours Codex uses its own, and is
// told the window alone.
func TestProfileForKnownModels(t *testing.T) {
	t.Parallel()
	p := profile{Dir: t.TempDir(), Base: "http://127.0.0.1:1/v1", Model: "gpt-5.5", Window: 272000}
	if err := p.write(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(p.Dir, "config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\nmodel_context_window = 272000\n") || strings.Contains(string(text), "model_catalog_json") {
		t.Errorf("got\n%s", text)
	}
	left, err := os.ReadDir(p.Dir)
	if err != nil || len(left) != 1 {
		t.Errorf("the directory has %v (%v), want the configuration alone", left, err)
	}
}
