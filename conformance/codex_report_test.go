//go:build unix

package conformance_test

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
)

var codexTable = flag.String("codex-table", "", "write what TestCodex has found into this Markdown `file`, for instance ../docs/coverage.md")

// notRun marks what a run that was asked for a part of the scenarios left out.
const notRun = "not run"

// codexReport collects what the scenarios found. The zero value is empty; it is
// safe for concurrent use.
type codexReport struct {
	mu       sync.Mutex
	passed   map[string]bool    // by upstream/model/scenario
	failures map[string]turnEnd // by upstream/failure
}

func (r *codexReport) addScenario(key string, passed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.passed == nil {
		r.passed = map[string]bool{}
	}
	r.passed[key] = passed
}

func (r *codexReport) addFailure(key string, end turnEnd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failures == nil {
		r.failures = map[string]turnEnd{}
	}
	r.failures[key] = end
}

// publish logs the report and puts it into the file that the flag names.
func (r *codexReport) publish(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	text := r.markdown()
	t.Log("\n" + text)
	switch {
	case *codexTable == "":
		return
	case strings.Contains(text, notRun):
		t.Errorf("%s is left as it is: only a whole run is published", *codexTable)
		return
	}
	old, err := os.ReadFile(*codexTable)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.WriteFile(*codexTable, []byte(putSection(string(old), text)), 0o644)
	}
	if err != nil {
		t.Error(err)
	}
}

// putSection returns doc with text between the marks of the Codex section, which
// is put at the end if there is none yet.
func putSection(doc, text string) string {
	section := codexBegin + "\n" + text + codexEnd + "\n"
	from, to := strings.Index(doc, codexBegin), strings.Index(doc, codexEnd+"\n")
	if from < 0 || to < from {
		return doc + "\n" + section
	}
	return doc[:from] + section + doc[to+len(codexEnd+"\n"):]
}

func (r *codexReport) markdown() string {
	var b strings.Builder
	b.WriteString("## Codex\n\nThe Codex CLI through a running gateway, by `go test ./conformance -run TestCodex -v -codex-table ../docs/coverage.md`. " +
		"The tools that it gives a model depend on the model's name.\n\n")
	r.writeScenarios(&b)
	b.WriteString("\nWhen something goes wrong: the number of requests that Codex makes, with one retry allowed before the stream and one in it, its exit code and what it shows.\n\n")
	r.writeFailures(&b)
	return b.String()
}

func (r *codexReport) writeScenarios(b *strings.Builder) {
	b.WriteString("| Codex does |")
	for _, upstream := range codexUpstreams {
		for _, surface := range codexSurfaces {
			fmt.Fprintf(b, " %s, %s |", upstream, surface.name)
		}
	}
	b.WriteString("\n|---" + strings.Repeat("|---", len(codexUpstreams)*len(codexSurfaces)) + "|\n")
	for _, scenario := range codexScenarios {
		fmt.Fprintf(b, "| %s |", scenario.name)
		for _, upstream := range codexUpstreams {
			for _, surface := range codexSurfaces {
				fmt.Fprintf(b, " %s |", r.cell(&scenario, upstream, surface))
			}
		}
		b.WriteString("\n")
	}
}

// cell says how a scenario went.
func (r *codexReport) cell(s *codexScenario, upstream string, surface codexSurface) string {
	passed, ran := r.passed[s.key(upstream, surface)]
	switch {
	case !s.runs(upstream, surface):
		return "–"
	case !ran:
		return notRun
	case passed:
		return "yes"
	}
	return "no"
}

func (r *codexReport) writeFailures(b *strings.Builder) {
	b.WriteString("| the upstream |")
	for _, upstream := range codexUpstreams {
		fmt.Fprintf(b, " %s |", upstream)
	}
	b.WriteString("\n|---" + strings.Repeat("|---", len(codexUpstreams)) + "|\n")
	for _, failure := range codexFailures {
		fmt.Fprintf(b, "| %s |", failure.name)
		for _, upstream := range codexUpstreams {
			fmt.Fprintf(b, " %s |", r.failures[upstream+"/"+failure.name])
		}
		b.WriteString("\n")
	}
}

func TestCodexSectionIsPutInPlace(t *testing.T) {
	t.Parallel()
	const section = codexBegin + "\nnew\n" + codexEnd + "\n"
	for name, tt := range map[string]struct{ doc, want string }{
		"no file":    {"", "\n" + section},
		"no section": {"# Doc\n", "# Doc\n\n" + section},
		"section":    {"# Doc\n\n" + codexBegin + "\nold\n" + codexEnd + "\n", "# Doc\n\n" + section},
		"text after": {codexBegin + "\n" + codexEnd + "\nafter\n", section + "after\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := putSection(tt.doc, "new\n"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
