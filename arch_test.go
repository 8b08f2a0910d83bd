package antiphon_test

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/antiphon-dev/antiphon"

// A row of the layer table names a package and everything of ours that its
// non-test code may import. What a row does not name is forbidden, so two
// packages of one layer never import each other. docs/architecture.md explains
// the table and changes with it.
type row struct {
	layer   int
	pkg     string   // below the module; "." is the root, "x/*" each child of x that has no row of its own
	imports []string // pkg fields of other rows
	helper  bool     // for tests: other packages' non-test code needs to name it to import it
	planned bool     // drawn, and not in the tree yet
	why     string
}

var (
	base      = []string{"responses", "config", "internal/sse", "internal/seal", "internal/netguard"}
	contracts = []string{"upstream", "store", "tool"}
	engines   = []string{"upstream/*", "upstream/codex", "store/*", "tool/*", "tool/mcptool"}
	inner     = []string{"internal/route", "internal/engine", "internal/server", "internal/relay"}
)

var layers = []row{
	{layer: 0, pkg: "responses", why: "the model is what all others agree on"},
	{layer: 0, pkg: "config", why: "a file becomes a value; what is built from it is decided in standard"},
	{layer: 0, pkg: "internal/sse", why: "framing does not know what the events mean"},
	{layer: 0, pkg: "internal/seal", why: "sealed envelopes carry bytes"},
	{layer: 0, pkg: "internal/stdiorpc", why: "carries calls to a process and back, whatever they mean"},
	{layer: 0, pkg: "internal/promtext", why: "reads metrics, whatever they measure"},
	{layer: 0, pkg: "internal/netguard", why: "guarded dialling knows addresses only"},

	{layer: 1, pkg: "upstream", imports: []string{"responses"}, why: "a contract speaks the model and names no driver"},
	{layer: 1, pkg: "store", imports: []string{"responses"}, why: "a contract speaks the model and names no backend"},
	{layer: 1, pkg: "tool", imports: []string{"responses"}, why: "a contract speaks the model and names no tool"},

	{layer: 2, pkg: "upstream/*", imports: with(base, "upstream"), why: "one protocol each: N drivers are N packages"},
	{layer: 2, pkg: "upstream/codex", imports: with(base, "upstream", "internal/stdiorpc"), why: "the one protocol that is spoken with a process"},
	{layer: 2, pkg: "store/*", imports: with(base, "store"), why: "one engine each"},
	{layer: 2, pkg: "tool/mcptool", imports: with(base, "tool", "internal/stdiorpc"), why: "the one kind of tool that may be a process"},
	{layer: 2, pkg: "tool/*", imports: with(base, "tool"), why: "one way to run a tool each"},
	{layer: 2, pkg: "upstream/upstreamtest", imports: with(base, "upstream", "internal/fakeupstream"), helper: true, why: "the suite that every driver passes"},
	{layer: 2, pkg: "store/storetest", imports: with(base, "store"), helper: true, why: "the suite that every store passes"},
	{layer: 1, pkg: "internal/fakeupstream", helper: true, why: "scripted providers write the foreign wire by hand, so that they cannot share our mistakes"},

	{layer: 0, pkg: "internal/pgtest", helper: true, why: "a schema, or a whole PostgreSQL, for each test"},
	{layer: 0, pkg: "internal/redistest", helper: true, why: "a Redis, or a cluster of them, for each test"},
	{layer: 1, pkg: "internal/fakemcp", helper: true, why: "a real server of tools, built with the SDK alone"},

	{layer: 2, pkg: "internal/openapitest", imports: []string{"responses"}, helper: true, why: "checks what we send against the published document"},

	{layer: 3, pkg: "internal/route", imports: with(base, contracts...), why: "chooses among targets that it is given"},
	{layer: 3, pkg: "internal/engine", imports: with(base, contracts...), why: "appends to a log; sees no writer, no concrete driver, no concrete store"},

	{layer: 3, pkg: "internal/relay", imports: []string{"responses", "internal/sse"}, why: "the byte path knows bytes: neither who sent them nor who gets them"},

	{layer: 4, pkg: "internal/server", imports: []string{"responses", "store", "upstream", "internal/engine", "internal/route", "internal/relay", "internal/sse"}, why: "reads logs; never sees a concrete driver"},

	{layer: 5, pkg: ".", imports: with(base, with(contracts, inner...)...), why: "an embedder links only the engines that it hands over"},
	{layer: 5, pkg: "internal/telemetry", imports: with(base, with(contracts, inner...)...), why: "implements the hooks that the lower layers declare, so they import no metrics library"},

	{layer: 6, pkg: "standard", imports: with(base, with(contracts, with(engines, with(inner, ".", "internal/telemetry")...)...)...), why: "the only place that names concrete drivers, stores and tools"},

	{layer: 7, pkg: "cmd/antiphon", imports: []string{"standard", ".", "config", "internal/promtext"}, why: "flags, signals and exit codes"},
	{layer: 7, pkg: "cmd/fakeupstream", imports: []string{"standard", ".", "config", "internal/fakeupstream"}, why: "the scripted provider as a process"},
	{layer: 7, pkg: "bench", imports: []string{".", "responses", "upstream", "upstream/*", "store", "store/*", "tool", "internal/pgtest"}, why: "measures the gateway as it is shipped, and counts allocations as an embedder who hands over a transport"},
	{layer: 7, pkg: "conformance", imports: []string{"standard", ".", "config", "internal/promtext", "internal/fakeupstream"}, why: "looks at a running gateway from outside"},
	{layer: 7, pkg: "deploy/release", why: "builds what is published, with the go command"},
	{layer: 7, pkg: "deploy", why: "files; its code is the tests that keep them true"},
	{layer: 7, pkg: "examples/*", imports: with(contracts, with(engines, "responses", "config", ".", "standard")...), why: "an embedder cannot import internal packages, so an example must not"},
}

// modules says which directories may import a third-party module in non-test
// code: one job, one place to replace it. No directory means tests and test
// helpers only. A module that is missing here needs a decision record first.
var modules = []struct {
	path string
	dirs []string
	why  string
}{
	{"github.com/spf13/cobra", []string{"cmd/antiphon", "cmd/fakeupstream"}, "command line"},
	{"github.com/goccy/go-yaml", []string{"config"}, "strict YAML with line numbers"},
	{"github.com/coder/websocket", []string{"internal/server"}, "WebSocket readers"},
	{"github.com/jackc/pgx/v5", []string{"store/pgstore", "internal/pgtest", "bench"}, "PostgreSQL, and its bare rows to compare with"},
	{"github.com/pressly/goose/v3", []string{"store/pgstore"}, "migrations"},
	{"github.com/redis/rueidis", []string{"store/redisstore"}, "Redis and Valkey"},
	{"github.com/klauspost/compress", []string{"store", "internal/server"}, "zstd for stored bodies; zstd and gzip for request bodies"},
	{"github.com/modelcontextprotocol/go-sdk", []string{"tool/mcptool", "internal/fakemcp"}, "MCP, and a server of it for tests"},
	{"github.com/sony/gobreaker/v2", []string{"internal/route"}, "circuit breaker"},
	{"golang.org/x/time", []string{"internal/route", "internal/server"}, "local limits, per target and per key"},
	{"github.com/santhosh-tekuri/jsonschema/v6", nil, "checks what we send against the published schema"},
	{"github.com/prometheus/client_golang", []string{"internal/telemetry"}, "metrics"},
	{"go.opentelemetry.io/otel", []string{"internal/telemetry"}, "traces"},
	{"go.opentelemetry.io/proto/otlp", nil, "reads the traces that we send"},
	{"google.golang.org/protobuf", nil, "reads the traces that we send"},
	{"github.com/google/go-cmp", nil, "diffs"},
	{"github.com/rogpeppe/go-internal", nil, "txtar goldens and command scripts"},
	{"go.uber.org/goleak", nil, "leaked goroutines"},
	{"pgregory.net/rapid", nil, "properties"},
}

func with(list []string, more ...string) []string { return slices.Concat(list, more) }

// goPackage is what we ask of go list.
type goPackage struct {
	Dir, ImportPath, Name              string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

// tree lists the packages of the module once for all tests. The go command does
// not see that a test depends on its answer, so a cached result may be stale:
// make test passes -shuffle=on, which is never cached.
var tree = sync.OnceValues(func() ([]goPackage, error) {
	cmd := exec.Command("go", "list", "-json=Dir,ImportPath,Name,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	var pkgs []goPackage
	dec := jsontext.NewDecoder(bytes.NewReader(out))
	for {
		var p goPackage
		switch err := json.UnmarshalDecode(dec, &p); {
		case errors.Is(err, io.EOF):
			return pkgs, nil
		case err != nil:
			return nil, fmt.Errorf("go list output: %w", err)
		}
		pkgs = append(pkgs, p)
	}
})

func packages(t *testing.T) []goPackage {
	t.Helper()
	pkgs, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	if len(pkgs) == 0 {
		t.Fatal("go list found no package")
	}
	return pkgs
}

func TestImportsFollowTheLayers(t *testing.T) {
	t.Parallel()
	for _, p := range packages(t) {
		for _, problem := range importProblems(p) {
			t.Errorf("%s %s", p.ImportPath, problem)
		}
	}
}

// TestLayerRulesCatch feeds the rules packages that break them, so that a rule
// that stopped working is noticed while the tree is clean.
func TestLayerRulesCatch(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, pkg, imp string
		inTest         bool
		want           string // a part of the only problem; empty means allowed
	}{
		{name: "model imported by driver", pkg: "upstream/chat", imp: "responses"},
		{name: "package without a row", pkg: "internal/util", imp: "responses", want: "no row"},
		{name: "import without a row", pkg: "internal/engine", imp: "internal/util", want: "no row"},
		{name: "contract imports driver", pkg: "upstream", imp: "upstream/chat", want: "layer 2"},
		{name: "engine imports concrete store", pkg: "internal/engine", imp: "store/memstore", want: "layer 2"},
		{name: "engine test imports concrete store", pkg: "internal/engine", imp: "store/memstore", inTest: true},
		{name: "driver imports other contract", pkg: "upstream/chat", imp: "store", want: "layer 1"},
		{name: "sibling drivers", pkg: "upstream/chat", imp: "upstream/native", want: "sibling"},
		{name: "sibling layers", pkg: "internal/engine", imp: "internal/route", want: "sibling"},
		{name: "root links driver", pkg: ".", imp: "upstream/native", want: "layer 2"},
		{name: "standard links driver", pkg: "standard", imp: "upstream/native"},
		{name: "standard links suite", pkg: "standard", imp: "upstream/upstreamtest", want: "test helper"},
		{name: "driver test runs suite", pkg: "upstream/chat", imp: "upstream/upstreamtest", inTest: true},
		{name: "test looks up", pkg: "responses", imp: "internal/engine", inTest: true, want: "layer 3"},
		{name: "example reaches inside", pkg: "examples/embed", imp: "internal/engine", want: "layer 3"},
		{name: "first JSON package", pkg: "config", imp: "encoding/json", want: "encoding/json/v2"},
		{name: "first JSON package in test", pkg: "config", imp: "encoding/json", inTest: true},
		{name: "module in its place", pkg: "config", imp: "github.com/goccy/go-yaml/ast"},
		{name: "module elsewhere", pkg: "standard", imp: "github.com/goccy/go-yaml", want: "only config"},
		{name: "module elsewhere in test", pkg: "standard", imp: "github.com/goccy/go-yaml", inTest: true},
		{name: "test module in code", pkg: "responses", imp: "github.com/google/go-cmp/cmp", want: "only tests"},
		{name: "test module in suite", pkg: "store/storetest", imp: "github.com/google/go-cmp/cmp"},
		{name: "unknown module", pkg: "responses", imp: "github.com/tidwall/gjson", want: "decision record"},
		{name: "unknown module in test", pkg: "responses", imp: "github.com/stretchr/testify", inTest: true, want: "decision record"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			imp := tt.imp
			if _, ok := rowOf(imp); ok || strings.HasPrefix(imp, "internal/") {
				imp = path.Join(module, imp)
			}
			p := goPackage{ImportPath: path.Join(module, tt.pkg), Imports: []string{imp}}
			if tt.inTest {
				p.Imports, p.XTestImports = nil, p.Imports
			}
			got := importProblems(p)
			switch {
			case tt.want == "" && len(got) > 0:
				t.Errorf("%s importing %s: got %q, want no problem", tt.pkg, tt.imp, got)
			case tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)):
				t.Errorf("%s importing %s: got %q, want one problem with %q", tt.pkg, tt.imp, got, tt.want)
			}
		})
	}
}

// importProblems returns what p's imports break, ready to follow its path.
func importProblems(p goPackage) []string {
	from, ok := rowOf(relative(p.ImportPath))
	if !ok {
		return []string{"has no row in the layer table of arch_test.go"}
	}
	var problems []string
	for _, imp := range p.Imports {
		if problem := codeProblem(from, relative(p.ImportPath), imp); problem != "" {
			problems = append(problems, problem)
		}
	}
	for _, imp := range slices.Concat(p.TestImports, p.XTestImports) {
		if problem := testProblem(from, imp); problem != "" {
			problems = append(problems, "(test) "+problem)
		}
	}
	return problems
}

// codeProblem judges one import of non-test code.
func codeProblem(from row, dir, imp string) string {
	switch {
	case imp == "encoding/json":
		return "imports encoding/json: use encoding/json/v2, two parsers that disagree are a way around a check"
	case isOurs(imp):
		to, ok := rowOf(relative(imp))
		switch {
		case !ok:
			return fmt.Sprintf("imports %s, which has no row in the layer table", imp)
		case slices.Contains(from.imports, to.pkg):
			return ""
		case to.helper:
			return fmt.Sprintf("imports %s, a test helper", imp)
		case to.layer == from.layer:
			return fmt.Sprintf("imports its sibling %s (%s)", imp, from.why)
		default:
			return fmt.Sprintf("(layer %d) must not import %s (layer %d): %s", from.layer, imp, to.layer, from.why)
		}
	case isThirdParty(imp):
		dirs, ok := moduleDirs(imp)
		switch {
		case !ok:
			return fmt.Sprintf("imports %s: a new module needs a decision record and a row", imp)
		case slices.Contains(dirs, dir), from.helper && dirs == nil:
			return ""
		case dirs == nil:
			return fmt.Sprintf("imports %s: only tests may", imp)
		default:
			return fmt.Sprintf("imports %s: only %s may", imp, strings.Join(dirs, " and "))
		}
	}
	return ""
}

// testProblem judges one import of a test: it may look down and sideways in the
// layers and use every module that is listed.
func testProblem(from row, imp string) string {
	switch {
	case isOurs(imp):
		to, ok := rowOf(relative(imp))
		switch {
		case !ok:
			return fmt.Sprintf("imports %s, which has no row in the layer table", imp)
		case to.layer > from.layer && !to.helper:
			return fmt.Sprintf("(layer %d) must not look up to %s (layer %d)", from.layer, imp, to.layer)
		}
	case isThirdParty(imp):
		if _, ok := moduleDirs(imp); !ok {
			return fmt.Sprintf("imports %s: a new module needs a decision record and a row", imp)
		}
	}
	return ""
}

func isOurs(imp string) bool { return imp == module || strings.HasPrefix(imp, module+"/") }

func isThirdParty(imp string) bool {
	host, _, _ := strings.Cut(imp, "/")
	return strings.Contains(host, ".")
}

// relative turns an import path of ours into the name that the table uses.
func relative(imp string) string {
	if imp == module {
		return "."
	}
	return strings.TrimPrefix(imp, module+"/")
}

// rowOf finds the row of a package: its own, or else that of its parent's "*".
func rowOf(rel string) (row, bool) {
	for _, name := range []string{rel, path.Dir(rel) + "/*"} {
		if i := slices.IndexFunc(layers, func(r row) bool { return r.pkg == name }); i >= 0 {
			return layers[i], true
		}
	}
	return row{}, false
}

func moduleDirs(imp string) (dirs []string, ok bool) {
	for _, m := range modules {
		if imp == m.path || strings.HasPrefix(imp, m.path+"/") {
			return m.dirs, true
		}
	}
	return nil, false
}

// TestTablesAreSound checks the tables themselves: rows point downwards, are
// not forgotten when a package goes, and every rule says why it is there.
func TestTablesAreSound(t *testing.T) {
	t.Parallel()
	inTree := map[string]bool{}
	for _, p := range packages(t) {
		if r, ok := rowOf(relative(p.ImportPath)); ok {
			inTree[r.pkg] = true
		}
	}
	for _, r := range layers {
		if r.why == "" {
			t.Errorf("row %s: no reason", r.pkg)
		}
		for _, name := range r.imports {
			to, ok := rowOf(name)
			if !ok || to.pkg != name {
				t.Errorf("row %s: %s has no row", r.pkg, name)
			} else if to.layer >= r.layer {
				t.Errorf("row %s (layer %d): %s is not below it (layer %d)", r.pkg, r.layer, name, to.layer)
			}
		}
		switch {
		case !inTree[r.pkg] && !r.planned:
			t.Errorf("row %s: no such package in the tree", r.pkg)
		case inTree[r.pkg] && r.planned:
			t.Logf("row %s: has arrived, drop its planned mark", r.pkg)
		}
	}
	for _, m := range modules {
		if m.why == "" {
			t.Errorf("module %s: no reason", m.path)
		}
	}
}

func TestArchitectureDocNamesEveryRow(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range layers {
		name := r.pkg
		if name == "." {
			name = "antiphon"
		}
		if !bytes.Contains(doc, []byte("`"+name+"`")) {
			t.Errorf("docs/architecture.md does not name `%s`", name)
		}
	}
}
