package deploy_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json/v2"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestRelease: a release of this machine's platform is whole, says what it is made
// of, passes its checksums, and comes out the same a second time.
func TestRelease(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	build := func(out string) {
		cmd := exec.CommandContext(t.Context(), "go", "run", "./deploy/release", "-version", "v1.2.3", "-out", out, "-only", runtime.GOOS+"_"+runtime.GOARCH)
		cmd.Dir = ".."
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
	}
	build(dir)
	sums := exec.CommandContext(t.Context(), "sha256sum", "-c", "checksums.txt")
	sums.Dir = dir
	if said, err := sums.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
	base := "antiphon_1.2.3_" + runtime.GOOS + "_" + runtime.GOARCH
	archive, err := os.ReadFile(filepath.Join(dir, base+".tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	names := tarNames(t, archive)
	for _, want := range []string{"antiphon", "LICENSE", "README.md", "man/antiphon.1", "man/antiphon-serve.1", "completions/antiphon.bash"} {
		if !names[base+"/"+want] {
			t.Errorf("the archive has no %s", want)
		}
	}
	bill, err := os.ReadFile(filepath.Join(dir, base+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var parsed struct {
		BOMFormat  string                           `json:"bomFormat"`
		Components []struct{ Name, Version string } `json:"components"`
	}
	if err := json.Unmarshal(bill, &parsed, json.MatchCaseInsensitiveNames(true)); err != nil || parsed.BOMFormat != "CycloneDX" {
		t.Fatal(err, parsed.BOMFormat)
	}
	if !strings.Contains(string(bill), "pkg:golang/github.com/jackc/pgx/v5@v5") || len(parsed.Components) < 10 {
		t.Errorf("the bill names %d components", len(parsed.Components))
	}
	again := t.TempDir()
	build(again)
	second, err := os.ReadFile(filepath.Join(again, base+".tar.gz"))
	if err != nil || !bytes.Equal(archive, second) {
		t.Errorf("a second build differs: %v", err)
	}
}

func tarNames(t *testing.T, archive []byte) map[string]bool {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	tr := tar.NewReader(zr)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names[h.Name] = true
	}
}
