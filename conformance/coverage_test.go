package conformance_test

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite docs/coverage.md")

const coverageFile = "../docs/coverage.md"

// requirements is what the gateway must do, in a few words each. A number that no
// test, golden or client names is not in this build.
var requirements = []struct{ number, words string }{
	{"R1", "the endpoint is native: no Chat Completions shape on the way in or out"},
	{"R2", "`messages` is refused"},
	{"R3", "every form of `input`"},
	{"R4", "instructions and system messages reach the model as what they are"},
	{"R5", "types and ranges are checked, errors name the field, null is absent"},
	{"R6", "unknown fields and kinds are kept"},
	{"R7", "the client's `stream` decides the form of the answer"},
	{"R8", "error bodies and statuses"},
	{"R10", "the response object is whole"},
	{"R11", "tool calls are items, arguments are encoded once"},
	{"R12", "the JSON answer is the fold of the stream"},
	{"R13", "order, numbers, one terminal event, `[DONE]`"},
	{"R14", "a failure after the stream began"},
	{"R15", "an answer that just stops is a failure; `incomplete` is said"},
	{"R16", "usage is whole or null, also when it comes late"},
	{"R17", "ids"},
	{"R18", "extensions only for clients that asked"},
	{"R19", "output modes"},
	{"R20", "utility prompts to a cheap model"},
	{"R30", "transparent and strict mode"},
	{"R31", "what an upstream cannot express is refused or reported"},
	{"R32", "pools, weights, failover"},
	{"R33", "upstream errors are sanitised"},
	{"R34", "requests can be transformed"},
	{"R35", "keys, limits, CORS, access log, metrics, health"},
	{"R36", "configuration file, checked and reloaded"},
	{"R40", "who remembers"},
	{"R41", "stores"},
	{"R42", "retrieve, delete, cancel, list, count, compact, conversations"},
	{"R43", "tools that the gateway runs"},
	{"R44", "the tool loop"},
	{"R45", "`allowed_tools` is a hard limit"},
	{"R46", "background runs and resume"},
	{"R50", "the Codex app-server as an upstream"},
	{"R51", "its tools that cannot be forwarded"},
	{"R52", "its streaming is invisible"},
	{"R60", "every case of the official suite"},
	{"R61", "goldens for every kind of answer and every driver"},
	{"R62", "real clients"},
	{"R63", "real servers"},
}

// goldenRows are the rows of R61, and how the goldens that prove them are named.
var goldenRows = []struct{ name, pattern string }{
	{"text", `^text|^whole_text|^text_whole`},
	{"one tool call", `^call|^whole_call$`},
	{"parallel calls", `^calls|^whole_calls`},
	{"streamed arguments", `^call$|^calls_interleaved|^call_streamed`},
	{"free-form tools", `^custom`},
	{"reasoning", `^reasoning`},
	{"refusal", `^refusal|^whole_refusal`},
	{"incomplete", `^incomplete|^whole_incomplete`},
	{"failure", `^failure|^failed|^error|^whole_error|^whole_failure|^no_end|^malformed`},
	{"requests", `^request|^tools|^refused`},
}

// TestCoverageDoc: docs/coverage.md says what the tree proves, and nothing else.
// Run with -update after adding a test, a golden or a client.
func TestCoverageDoc(t *testing.T) {
	t.Parallel()
	old, err := os.ReadFile(coverageFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("# What is covered\n\nMade from the tree by `go test ./conformance -run TestCoverageDoc -update`; not written by hand.\n")
	writeRequirements(t, &b)
	writeGoldens(t, &b)
	writeClients(t, &b)
	b.WriteString(codexSection(string(old)))
	if *update {
		if err := os.WriteFile(coverageFile, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(old), b.String()); diff != "" {
		t.Errorf("docs/coverage.md is out of date; run with -update (-is +should):\n%s", diff)
	}
}

// The Codex table is written by TestCodex, which runs the real binary.
const codexBegin, codexEnd = "<!-- codex begin -->", "<!-- codex end -->"

func codexSection(doc string) string {
	from, to := strings.Index(doc, codexBegin), strings.Index(doc, codexEnd)
	if from < 0 || to < from {
		return ""
	}
	return "\n" + doc[from:to] + codexEnd + "\n"
}

var requirementNumber = regexp.MustCompile(`\bR[1-9][0-9]?\b`)

func writeRequirements(t *testing.T, b *strings.Builder) {
	t.Helper()
	places := map[string]map[string]bool{} // number → packages that name it
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".git" || d.Name() == "bin"):
			return filepath.SkipDir
		case d.IsDir() || d.Name() == "coverage_test.go" || !proves(name):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		pkg := strings.TrimSuffix(path.Dir(strings.TrimPrefix(filepath.ToSlash(name), "../")), "/testdata")
		for _, number := range requirementNumber.FindAllString(string(text), -1) {
			if places[number] == nil {
				places[number] = map[string]bool{}
			}
			places[number][pkg] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	b.WriteString("\n## Requirements\n\n| | | proven in |\n|---|---|---|\n")
	for _, r := range requirements {
		where := "not in this build"
		if pkgs := places[r.number]; len(pkgs) > 0 {
			where = "`" + strings.Join(slices.Sorted(maps.Keys(pkgs)), "`, `") + "`"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", r.number, r.words, strings.ReplaceAll(where, "`.`", "whole gateway"))
	}
}

// proves reports whether a file holds proofs: tests, goldens and clients.
func proves(name string) bool {
	return strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".txtar") || strings.HasSuffix(name, ".mjs") ||
		strings.Contains(name, "upstreamtest/") || strings.Contains(name, "storetest/") // suites are code of their own
}

func writeGoldens(t *testing.T, b *strings.Builder) {
	t.Helper()
	drivers, err := filepath.Glob("../upstream/*/testdata")
	if err != nil {
		t.Fatal(err)
	}
	drivers = slices.DeleteFunc(drivers, func(d string) bool { return strings.Contains(d, "upstreamtest") })
	b.WriteString("\n## Goldens\n\nHow many files prove each kind of answer, for each driver. Those of HTTP drivers also run through the whole gateway, streamed and not; behind codex the real program does (`TestCodexUpstream`).\n\n|")
	for _, d := range drivers {
		fmt.Fprintf(b, " | %s", path.Base(path.Dir(d)))
	}
	b.WriteString(" |\n|---" + strings.Repeat("|---", len(drivers)) + "|\n")
	for _, a := range goldenRows {
		pattern := regexp.MustCompile(a.pattern)
		fmt.Fprintf(b, "| %s", a.name)
		for _, d := range drivers {
			n := 0
			files, err := filepath.Glob(d + "/*.txtar")
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				if pattern.MatchString(strings.TrimSuffix(path.Base(f), ".txtar")) {
					n++
				}
			}
			if n == 0 && a.name != "requests" {
				t.Errorf("%s has no golden for %s (R61)", d, a.name)
			}
			fmt.Fprintf(b, " | %d", n)
		}
		b.WriteString(" |\n")
	}
}

var pinned = regexp.MustCompile(`(?m)^\s*"((?:@[\w-]+/)?[\w-]+)": "(\d[\w.-]*)"`)

func writeClients(t *testing.T, b *strings.Builder) {
	t.Helper()
	manifest, err := os.ReadFile("clients/package.json")
	if err != nil {
		t.Fatal(err)
	}
	gomod, err := os.ReadFile("clients/go/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	b.WriteString("\n## Clients\n\nRun against a running gateway over a Chat Completions and a Responses upstream: text, tool calls and their results, parallel calls,\n" +
		"structured output, images, reasoning, refusals, token limits, failures before and after the first token; streamed and not.\nThe OpenAI SDK and the Agents SDK also with tools that the gateway runs, of `@modelcontextprotocol/server-everything` and of a server of the Go SDK.\n\n| client | version |\n|---|---|\n")
	for _, m := range pinned.FindAllStringSubmatch(string(manifest), -1) {
		if m[1] == "node" || m[1] == "zod" || strings.HasPrefix(m[1], "@modelcontextprotocol/") {
			continue // what the clients need, not clients
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", m[1], m[2])
	}
	if m := regexp.MustCompile(`(github.com/openai/openai-go/v3) (v\S+)`).FindStringSubmatch(string(gomod)); m != nil {
		fmt.Fprintf(b, "| `%s` | %s |\n", m[1], m[2])
	}
	b.WriteString("\nNot run: the Python clients (openai-python, pydantic-ai, openai-agents-python). Their request shapes are covered by tests in our own words.\n")
}
