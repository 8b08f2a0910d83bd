package antiphon_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// phrases must not occur in a committed text file. They are written in two
// halves so that this file passes its own test.
var phrases = []struct{ text, why string }{
	{"/wo" + "rk/", "a path of one machine is wrong on every other"},
	{"/ro" + "ot/", "a path of one machine is wrong on every other"},
	{"/ho" + "me/", "a path of one machine is wrong on every other"},
	{"proxy." + "golang.org", "where modules come from is the builder's choice"},
	{"sum." + "golang.org", "where modules come from is the builder's choice"},
	{"registry." + "npmjs.org", "where packages come from is the builder's choice"},
}

// hostileInput are the trees whose code reads what a peer sends.
var hostileInput = []string{"internal", "upstream", "responses"}

func TestEveryPackageHasOneComment(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		files := p.GoFiles
		if len(files) == 0 {
			files = slices.Concat(p.TestGoFiles, p.XTestGoFiles)
		}
		var comments []string
		for _, name := range files {
			if f := parse(t, filepath.Join(p.Dir, name)); f.Doc != nil {
				comments = append(comments, f.Doc.Text())
			}
		}
		if len(comments) != 1 {
			t.Errorf("%s has %d package comments, want 1", p.ImportPath, len(comments))
			continue
		}
		if want := "Package " + p.Name + " "; p.Name != "main" && !strings.HasPrefix(comments[0], want) {
			t.Errorf("%s: its comment must begin with %q", p.ImportPath, want)
		}
	}
}

// TestNoScannerOnHostileInput: a bufio.Scanner ends without a word at a line
// that is longer than its buffer, which cuts a stream in the middle.
func TestNoScannerOnHostileInput(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		top, _, _ := strings.Cut(relative(p.ImportPath), "/")
		if !slices.Contains(hostileInput, top) {
			continue
		}
		for _, name := range p.GoFiles {
			if usesScanner(parse(t, filepath.Join(p.Dir, name))) {
				t.Errorf("%s/%s uses bufio.Scanner: read with a bound that is an error when passed", relative(p.ImportPath), name)
			}
		}
	}
}

func usesScanner(f *ast.File) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			pkg, ok := sel.X.(*ast.Ident)
			found = found || ok && pkg.Name == "bufio" && (sel.Sel.Name == "Scanner" || sel.Sel.Name == "NewScanner")
		}
		return !found
	})
	return found
}

func TestUsesScanner(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, src string
		want      bool
	}{
		{"type", `package p; import "bufio"; var s *bufio.Scanner`, true},
		{"constructor", `package p; import "bufio"; var s = bufio.NewScanner(nil)`, true},
		{"reader", `package p; import "bufio"; var r = bufio.NewReader(nil)`, false},
		{"other scanner", `package p; import "text/scanner"; var s scanner.Scanner`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, err := parser.ParseFile(token.NewFileSet(), "p.go", tt.src, 0)
			if err != nil {
				t.Fatal(err)
			}
			if got := usesScanner(f); got != tt.want {
				t.Errorf("usesScanner(%s) = %t, want %t", tt.src, got, tt.want)
			}
		})
	}
}

// chatWords are names of the Chat Completions wire that occur in no other. Its path
// is not among them: requests for it pass as bytes.
var chatWords = []string{"finish_reason", `"choices`}

// TestOnlyTheChatDriverKnowsChatCompletions: requests and answers never travel
// through that shape; one driver speaks it to its upstream (R1).
func TestOnlyTheChatDriverKnowsChatCompletions(t *testing.T) {
	t.Parallel()
	found := false
	for _, p := range packages(t) {
		rel := relative(p.ImportPath)
		for _, name := range p.GoFiles {
			src, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			for _, word := range chatWords {
				if !bytes.Contains(src, []byte(word)) {
					continue
				}
				switch rel {
				case "upstream/chat":
					found = true
				case "internal/fakeupstream", "cmd/fakeupstream", "bench": // they play such upstreams
				case "internal/relay":
					if name != "published.go" { // which names what may pass, and translates nothing
						t.Errorf("%s/%s speaks of %s", rel, name, word)
					}
				default:
					t.Errorf("%s/%s speaks of %s", rel, name, word)
				}
			}
		}
	}
	if !found {
		t.Error("upstream/chat does not use these words: this test looks for the wrong ones")
	}
}

func TestTextFilesNameNoMachine(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("git", "ls-files", "-z").Output()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("git ls-files: %v", err)
		}
		t.Skipf("not a git checkout: %v", err)
	}
	if len(out) == 0 {
		t.Fatal("git ls-files lists no file")
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // removed, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range textProblems(text) {
			t.Errorf("%s %s", name, problem)
		}
	}
}

// textProblems returns the phrases that text contains, unless it is binary.
func textProblems(text []byte) []string {
	if bytes.IndexByte(text, 0) >= 0 {
		return nil
	}
	var problems []string
	for _, p := range phrases {
		if bytes.Contains(text, []byte(p.text)) {
			problems = append(problems, fmt.Sprintf("contains %s: %s", p.text, p.why))
		}
	}
	return problems
}

func TestTextProblems(t *testing.T) {
	t.Parallel()
	for _, p := range phrases {
		t.Run(p.text, func(t *testing.T) {
			t.Parallel()
			if p.why == "" {
				t.Error("the phrase has no reason")
			}
			line := []byte("see " + p.text + "x\n")
			if got := textProblems(line); len(got) != 1 {
				t.Errorf("text with the phrase: got %q, want one problem", got)
			}
			if got := textProblems(append(line, 0)); got != nil {
				t.Errorf("binary with the phrase: got %q, want none", got)
			}
		})
	}
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
