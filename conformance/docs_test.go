package conformance_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// documents returns the Markdown files of the project, by their paths from its root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	out, err := exec.Command("git", "-C", "..", "ls-files", "-z", "-co", "--exclude-standard", "*.md").Output()
	if err != nil {
		unavailable(t, "git ls-files: %v", err)
	}
	texts := map[string]string{}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err == nil && !strings.Contains(name, "/testdata/") {
			texts[name] = string(text)
		}
	}
	if len(texts) < 5 {
		t.Fatalf("git lists %d documents", len(texts))
	}
	return texts
}

var (
	linkPattern = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codePattern = regexp.MustCompile("`[^`\n]*`")
)

// prose returns a document without its code blocks, and its headings' anchors as
// they are made where the project is read.
func prose(text string) (plain string, anchors map[string]bool) {
	var b strings.Builder
	anchors = map[string]bool{}
	fenced := false
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if fenced {
			continue
		}
		if title, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " "); ok && strings.HasPrefix(line, "#") {
			anchors[anchor(title)] = true
		}
		b.WriteString(line + "\n")
	}
	return b.String(), anchors
}

func anchor(title string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	return b.String()
}

// brokenLinks returns the links of a document that lead nowhere. Links to other
// sites are not followed.
func brokenLinks(name string, texts map[string]string) (broken []string) {
	plain, own := prose(texts[name])
	for _, m := range linkPattern.FindAllStringSubmatch(codePattern.ReplaceAllString(plain, ""), -1) {
		target, fragment, _ := strings.Cut(m[1], "#")
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		anchors := own
		if target != "" {
			file := path.Join(path.Dir(name), target)
			text, isDocument := texts[file]
			if _, err := os.Stat(filepath.Join("..", file)); err != nil && !isDocument {
				broken = append(broken, m[1])
				continue
			}
			_, anchors = prose(text)
		}
		if fragment != "" && !anchors[fragment] {
			broken = append(broken, m[1])
		}
	}
	return broken
}

// TestLinks: every link inside the project's documents leads somewhere.
func TestLinks(t *testing.T) {
	t.Parallel()
	texts := documents(t)
	for name := range texts {
		for _, link := range brokenLinks(name, texts) {
			t.Errorf("%s: %s leads nowhere", name, link)
		}
	}
}

func TestLinksCatches(t *testing.T) {
	t.Parallel()
	texts := map[string]string{
		"docs/a.md": "# A title: `code`\n[b](b.md#here) [self](#a-title-code) [out](https://x/y) `[no](link)`\n```\n[no](link)\n```\n" +
			"[gone](c.md) [lost](b.md#there) [own](#nothing) [up](../nowhere.md)",
		"docs/b.md": "## Here\n",
	}
	if got, want := strings.Join(brokenLinks("docs/a.md", texts), " "), "c.md b.md#there #nothing ../nowhere.md"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestREADMEIsShort: it is for the first minute.
func TestREADMEIsShort(t *testing.T) {
	t.Parallel()
	if n := strings.Count(documents(t)["README.md"], "\n"); n > 150 {
		t.Errorf("the README has %d lines, more than 150", n)
	}
}

// sources returns the Go code of the project, without its tests, in one piece.
func sources(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git" || d.Name() == "testdata"):
			return filepath.SkipDir
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			text, err := os.ReadFile(name)
			b.Write(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var metricPattern = regexp.MustCompile(`\b(antiphon|gen_ai)_[a-z_]+(_total|_seconds|_bytes|_info|_flight|_open|_up|_usage)\b`)

// TestDocumentsNameMetrics: a metric that a document names is one that there is
// (R35).
func TestDocumentsNameMetrics(t *testing.T) {
	t.Parallel()
	code := sources(t)
	found := 0
	for name, text := range documents(t) {
		for _, metric := range metricPattern.FindAllString(text, -1) {
			found++
			if !strings.Contains(code, `"`+metric+`"`) {
				t.Errorf("%s: there is no metric %s", name, metric)
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d metrics are named", found)
	}
}

// TestTroubleshootingQuotes: each text that docs/troubleshooting.md quotes is one
// that the program says; "…" stands for what differs (R8).
func TestTroubleshootingQuotes(t *testing.T) {
	t.Parallel()
	code := strings.NewReplacer(`\"`, `"`, "\"+\n\t\t\t\"", "", "\"+\n\t\t\"", "").Replace(sources(t))
	text := documents(t)["docs/troubleshooting.md"]
	quotes := 0
	for line := range strings.SplitSeq(text, "\n") {
		quote, isQuote := strings.CutPrefix(line, "### ")
		if !isQuote {
			continue
		}
		quotes++
		for part := range strings.SplitSeq(quote, "…") {
			if part = strings.TrimSpace(part); part != "" && !strings.Contains(code, part) {
				t.Errorf("nothing says %q (in %q)", part, quote)
			}
		}
	}
	if quotes < 15 {
		t.Errorf("only %d texts are quoted", quotes)
	}
}
