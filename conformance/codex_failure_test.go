//go:build unix

package conformance_test

import (
	"fmt"
	"strings"
	"testing"
)

// A codexFailure is something that an upstream does to Codex.
type codexFailure struct {
	name      string
	directive string // to the small model
	want      turnEnd
	// relayed is the end where the answer passes as it came, if it is another.
	relayed turnEnd
}

// wantOver is how Codex ends over the protocol: its requests to a native upstream
// are relayed.
func (f *codexFailure) wantOver(protocol string) turnEnd {
	if protocol == "native" && f.relayed != (turnEnd{}) {
		return f.relayed
	}
	return f.want
}

// turnEnd is how Codex ends a turn that went wrong. With one retry before the
// stream and one in it, a failure of which it expects nothing better takes one
// request, one in the stream two, and one before it four.
type turnEnd struct {
	Requests int // that Codex made
	Exit     int
	Shows    string // a part of what the user reads
}

func (e turnEnd) String() string {
	if e.Requests == 0 {
		return notRun
	}
	return fmt.Sprintf("%d, exit %d: %s", e.Requests, e.Exit, e.Shows)
}

var codexFailures = []codexFailure{
	{"answers 400", "[[status 400]]", turnEnd{1, 1, "The prompt asked for this error."}, turnEnd{}},
	{
		"answers 401", "[[status 401]]", turnEnd{4, 1, "502 Bad Gateway: The upstream refused the gateway's request (status 401)."},
		turnEnd{2, 1, "401 Unauthorized: Incorrect API key provided."},
	},
	{"answers 429", "[[status 429]]", turnEnd{1, 1, "429 Too Many Requests"}, turnEnd{}},
	{
		"answers 500", "[[status 500]]", turnEnd{4, 1, "502 Bad Gateway: The server had an error while processing your request."},
		turnEnd{4, 1, "currently experiencing high demand, which may cause temporary errors."},
	},
	{"answers 503", "[[status 503]]", turnEnd{2, 1, "Selected model is at capacity."}, turnEnd{}},
	{"fails in the stream", "[[error]]", turnEnd{2, 1, "The server had an error while processing your request."}, turnEnd{}},
	{"fails in the stream: rate limit", "[[error rate_limit_exceeded]]", turnEnd{2, 1, "rate limit exceeded: Rate limit reached."}, turnEnd{}},
	{"fails in the stream: context too long", "[[error context_length_exceeded]]", turnEnd{1, 1, "Codex ran out of room in the model's context window."}, turnEnd{}},
	{"fails in the stream: invalid prompt", "[[error invalid_prompt]]", turnEnd{1, 1, "The prompt asked for this error."}, turnEnd{}},
	{"stops at its token limit", "[[limit 2]]", turnEnd{1, 1, "Incomplete response returned, reason: max_output_tokens"}, turnEnd{}},
	{
		"cuts the connection", "[[cut]]", turnEnd{2, 1, "The upstream's answer broke off."},
		turnEnd{2, 1, "stream disconnected before completion"},
	},
}

func (f *codexFailure) run(t *testing.T, lab *codexLab, protocol string, report *codexReport) {
	t.Helper()
	stage := newCodexStage(t, lab, protocol, searchSurface, 1)
	stage.retries = 1
	result, err := stage.exec("no tool, one two three " + f.directive)
	if err != nil {
		t.Fatal(err)
	}
	want := f.wantOver(protocol)
	got := turnEnd{Requests: len(stage.tap.requests()), Exit: result.exit, Shows: want.Shows}
	if shown := result.failure(); !strings.Contains(shown, want.Shows) {
		got.Shows = shown
	}
	report.addFailure(protocol+"/"+f.name, got)
	if err := same("end", want, got); err != nil {
		t.Error(err)
	}
	// Whether to try again is the decision of Codex alone.
	if n := len(stage.arrived()); n != got.Requests {
		t.Errorf("%d requests arrived, Codex made %d", n, got.Requests)
	}
}
