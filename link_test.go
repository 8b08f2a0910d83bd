package antiphon_test

import (
	"os/exec"
	"strings"
	"testing"
)

// unlinked are modules that a program which embeds the gateway must not carry
// because of it: who wants one of them imports the package that brings it.
var unlinked = []struct{ path, why string }{
	{"github.com/jackc/pgx/v5", "an embedder without PostgreSQL hands over another store"},
	{"github.com/redis/rueidis", "an embedder without Redis hands over another store"},
	{"go.opentelemetry.io/otel", "an embedder has traces of its own: Options.Observer is the way to them"},
	{"github.com/prometheus", "a second metrics library registers a second set of process metrics"},
	{"github.com/modelcontextprotocol/go-sdk", "tools over MCP are handed over like drivers"},
	{"github.com/spf13/cobra", "a library has no command line"},
	{"github.com/spf13/pflag", "a library has no command line"},
	{"github.com/goccy/go-yaml", "Options are Go values: the file format is the command's"},
}

// linked returns the import paths of everything that a program with the package
// links.
func linked(t *testing.T, pkg string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-deps", pkg).Output()
	if err != nil {
		t.Fatalf("go list -deps %s: %v", pkg, err)
	}
	return strings.Fields(string(out))
}

// banned returns those of the import paths that belong to the module.
func banned(imports []string, module string) (found []string) {
	for _, imp := range imports {
		if imp == module || strings.HasPrefix(imp, module+"/") {
			found = append(found, imp)
		}
	}
	return found
}

func TestEmbeddersLinkOnlyWhatTheyHandOver(t *testing.T) {
	t.Parallel()
	imports := linked(t, ".")
	for _, m := range unlinked {
		if m.why == "" {
			t.Errorf("%s: no reason", m.path)
		}
		if found := banned(imports, m.path); len(found) > 0 {
			t.Errorf("the root package links %s: %s", strings.Join(found, ", "), m.why)
		}
	}
}

// TestLinkRuleCatches: the command does link some of them, so a rule that sees
// nothing there is blind.
func TestLinkRuleCatches(t *testing.T) {
	t.Parallel()
	imports := linked(t, "./cmd/antiphon")
	for _, path := range []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/goccy/go-yaml"} {
		if len(banned(imports, path)) == 0 {
			t.Errorf("cmd/antiphon seems not to link %s", path)
		}
	}
	if found := banned([]string{"github.com/spf13/cobrax"}, "github.com/spf13/cobra"); found != nil {
		t.Errorf("another module with the same beginning is taken for it: %s", found)
	}
}
