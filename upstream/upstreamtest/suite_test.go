package upstreamtest_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/upstreamtest"
)

// faultVariable tells the test binary, when it runs itself, which fault the
// driver under test has.
const faultVariable = "UPSTREAMTEST_FAULT"

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
	return upstreamtest.Harness{
		New:    driverUnderTest,
		Stream: "data: {\"text\":\"Hel\"}\n\ndata: {\"text\":\"lo\"}\n\ndata: {\"done\":true}\n\n",
		Text:   "Hello",
		Endless: func(n int) string {
			return fmt.Sprintf("data: {\"text\":\"%d \"}\n\n", n)
		},
	}
}

func TestGoldens(t *testing.T) { upstreamtest.Goldens(t, "testdata", driverUnderTest) }

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
