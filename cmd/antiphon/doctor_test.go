package main

import (
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/standard"
)

// TestExaminationOnTerminal: people see signs, columns stay aligned, and what
// upstreams call their models does not command the terminal.
func TestExaminationOnTerminal(t *testing.T) {
	t.Parallel()
	e := standard.Examination{
		Diagnoses: []standard.Diagnosis{
			{Upstream: "a", Model: "m", Protocol: "chat", Reachable: standard.Yes, Tools: standard.No, Advice: []string{"Same."}},
			{Upstream: "a", Model: "\x1b[2J", Protocol: "chat", ContextWindow: 4096, UpTo: true, Reachable: standard.No, Advice: []string{"Same.", "Other."}},
		},
		Skipped: []string{"x", "y"},
	}
	var b strings.Builder
	if err := printExamination(&b, &e, true); err != nil {
		t.Fatal(err)
	}
	want := `upstream  model      protocol  context  reachable  streaming  tools  parallel  structured  reasoning
a         m          chat      –        ✓          –          ✗      –         –           –
a         "\x1b[2J"  chat      ≤ 4096   ✗          –          –      –         –           –

m, "\x1b[2J"
  Same.

"\x1b[2J"
  Other.

Not looked at: 2 models that do not answer in text or are too many. --model looks at one.
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestProgressOnTerminal(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	p := progress{w: &b, terminal: true}
	p.say("m\n", "text")
	p.done()
	if got, want := b.String(), "\r\x1b[Kasking \"m\\n\" for text …\r\x1b[K"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
