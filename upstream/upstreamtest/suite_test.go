package upstreamtest_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"

	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/upstreamtest"
)

// faultVariable tells the test binary, when it runs itself, which fault the
// driver under test has.
const faultVariable = "UPSTREAMTEST_FAULT"

// dirVariable tells it where the goldens are.
const dirVariable = "UPSTREAMTEST_DIR"

func TestMain(m *testing.M) {
	if os.Getenv(faultVariable) != "" {
		os.Exit(m.Run()) // it is meant to fail, and for its own reason
	}
	goleak.VerifyTestMain(m)
}

func driverUnderTest(e upstream.Endpoint) upstream.Driver {
	return newSmall(e, fault(os.Getenv(faultVariable)))
}

func harness() upstreamtest.Harness {
	h := upstreamtest.Harness{
		New:    driverUnderTest,
		Stream: "data: {\"text\":\"Hel\"}\n\ndata: {\"text\":\"lo\"}\n\ndata: {\"done\":true}\n\n",
		Text:   "Hello",
		Endless: func(n int) string {
			return fmt.Sprintf("data: {\"text\":\"%d \"}\n\n", n)
		},
	}
	if os.Getenv(faultVariable) == string(lacksNothing) {
		h.Lacks = map[string]string{"no such check": "no such thing"}
	}
	return h
}

func TestGoldens(t *testing.T) {
	upstreamtest.Goldens(t, cmp.Or(os.Getenv(dirVariable), "testdata"), driverUnderTest)
}

func TestRun(t *testing.T) { upstreamtest.Run(t, harness()) }

// TestSuiteNoticesFaults runs the suite on drivers that each breach the
// contract in one way, in a process of its own because the suite must fail
// there, and by the check that is there for it.
func TestSuiteNoticesFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		fault fault
		check string // the subtest that must fail
	}{
		{endsOnEOF, "TestGoldens/text/cuts"},
		{twoErrors, "TestGoldens/text/cuts"},
		{stopsSilently, "TestGoldens/text/cuts"},
		{ignoresBadFrame, "TestRun/content_type"},
		{sendsTwice, "TestGoldens/text/exchange"},
		{keepsBody, "TestGoldens/text"},
		{hidesCause, "TestRun/cancel_while_streaming"},
		{outlivesClose, "TestRun/close_driver"},
		{wrapsStatus, "TestRun/status"},
		{illegal, "TestGoldens/text"},
		{refusesLate, "TestGoldens/refused"},
		{losesLoss, "TestGoldens/loss/exchange"},
		{leaks, "TestRun/nothing_left_behind"},
		{lacksNothing, "TestRun"},
	}
	for _, tt := range tests {
		t.Run(string(tt.fault), func(t *testing.T) {
			t.Parallel()
			test, _, _ := strings.Cut(tt.check, "/")
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+strings.ReplaceAll(tt.check, "/", "$/^")+"$")
			cmd.Env = append(os.Environ(), faultVariable+"="+string(tt.fault))
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("%s passes", test)
			}
			if !strings.Contains(string(out), "--- FAIL: "+tt.check+" ") && !strings.Contains(string(out), "--- FAIL: "+tt.check+"/") {
				t.Errorf("%s does not fail:\n%s", tt.check, out)
			}
		})
	}
}

// TestUpdate: a file without its expected sections gets them, and they are those
// that the suite expects.
func TestUpdate(t *testing.T) {
	t.Parallel()
	goldens, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, path := range goldens {
		a, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		a.Files = slices.DeleteFunc(a.Files, func(f txtar.File) bool {
			return slices.Contains([]string{"upstream_request.json", "losses.json", "events.jsonl"}, f.Name)
		})
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), txtar.Format(a), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestGoldens$", "-update")
	cmd.Env = append(os.Environ(), dirVariable+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, path := range goldens {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, filepath.Base(path)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	const request = "-- request.json --\n{}\n"
	tests := []struct{ name, file, want string }{
		{"no prose", request + "-- upstream_stream.sse --\n", "prose"},
		{"no request", "Prose.\n-- upstream_stream.sse --\n", "request.json"},
		{"no answer", "Prose.\n" + request, "upstream_stream.sse"},
		{"answer to a refused request", "Prose.\n" + request + "-- refused.json --\n{}\n-- upstream_stream.sse --\n", "refused"},
		{"misspelt section", "Prose.\n" + request + "-- event.jsonl --\n", "event.jsonl"},
		{"misspelt refusal", "Prose.\n" + request + "-- refused.json --\n{\"kode\":1}\n", "kode"},
		{"header without colon", "Prose.\n" + request + "-- upstream_head --\n200\nX\n", "colon"},
		{"status that is none", "Prose.\n" + request + "-- upstream_head --\nOK\n", "OK"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "x.txtar"), []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := upstreamtest.Load(dir); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
	if _, err := upstreamtest.Load(t.TempDir()); err == nil {
		t.Error("a folder without goldens is no error")
	}
}
