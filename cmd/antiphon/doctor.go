package main

import (
	"cmp"
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/antiphon-dev/antiphon/standard"
)

// doctorFlags are the flags of antiphon doctor as they were given.
type doctorFlags struct {
	serveFlags
	model   string
	timeout time.Duration
	json    bool
}

func (p *program) doctorCommand() *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find out what the models can do, and what to change",
		Long: `Find out what the models can do, and what to change.

It makes a few short calls to each model through the gateway, as Codex would, and
says in words what is wrong. Models behind paid keys cost a little. It exits with 1
if something does not answer.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.doctor(cmd.Context(), &f) },
	}
	f.registerUpstreams(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.model, "model", "", "look at this `MODEL` only; default all, at most 20")
	flags.DurationVar(&f.timeout, "timeout", time.Minute, "wait so long for each answer")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

func (p *program) doctor(ctx context.Context, f *doctorFlags) error {
	if f.timeout <= 0 {
		return usagef("--timeout: %s is no time at all", f.timeout)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := p.settings(ctx, &f.serveFlags)
	if err != nil {
		return err
	}
	progress := progress{w: p.stderr, terminal: isTerminal(p.stderr)}
	found, err := standard.Examine(ctx, s.config, &standard.ExamineOptions{
		Model: f.model, Timeout: f.timeout, Progress: progress.say, Discovered: s.discovered != nil,
	})
	progress.done()
	if err != nil {
		return err
	}
	if f.json {
		err = printJSON(p.stdout, found)
	} else {
		err = printExamination(p.stdout, found, isTerminal(p.stdout))
	}
	if err == nil && !found.Healthy() {
		err = exitError(exitFail)
	}
	return err
}

// progress says on a terminal what is being done, in one line, and elsewhere in
// lines.
type progress struct {
	w        io.Writer
	terminal bool
}

const clearLine = "\r\x1b[K"

func (p *progress) say(model, what string) {
	line := fmt.Sprintf("asking %s for %s", printable(model), what)
	if p.terminal {
		fmt.Fprint(p.w, clearLine+line+" …")
	} else {
		fmt.Fprintln(p.w, line)
	}
}

func (p *progress) done() {
	if p.terminal {
		fmt.Fprint(p.w, clearLine)
	}
}

func printJSON(w io.Writer, e *standard.Examination) error {
	err := json.MarshalWrite(w, struct {
		Healthy bool                 `json:"healthy"`
		Models  []standard.Diagnosis `json:"models"`
		Skipped []string             `json:"skipped,omitzero"`
	}{e.Healthy(), e.Diagnoses, e.Skipped}, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w)
	return err
}

// printExamination prints a table and then the advice.
func printExamination(w io.Writer, e *standard.Examination, terminal bool) error {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "upstream\tmodel\tprotocol\tcontext\treachable\tstreaming\ttools\tparallel\tstructured\treasoning")
	for _, d := range e.Diagnoses {
		row := []string{d.Upstream, cmp.Or(printable(d.Model), "–"), string(d.Protocol), window(d)}
		for _, m := range []standard.Mark{d.Reachable, d.Streaming, d.Tools, d.Parallel, d.Structured, d.Reasoning} {
			row = append(row, spell(m, terminal))
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	_ = table.Flush() // into memory
	printAdvice(&b, e)
	_, err := io.WriteString(w, b.String())
	return err
}

// window is how the table shows a context window.
func window(d standard.Diagnosis) string {
	switch {
	case d.ContextWindow == 0:
		return "–"
	case d.UpTo:
		return "≤ " + strconv.FormatInt(d.ContextWindow, 10)
	}
	return strconv.FormatInt(d.ContextWindow, 10)
}

// spell writes a mark: as a sign for people, and elsewhere in a word that can be
// searched for.
func spell(m standard.Mark, terminal bool) string {
	switch {
	case m == standard.Yes && terminal:
		return "✓"
	case m == standard.No && terminal:
		return "✗"
	case m == standard.Yes || m == standard.No:
		return string(m)
	}
	return "–"
}

// printAdvice prints each piece of advice once, with the models that it is about.
func printAdvice(b *strings.Builder, e *standard.Examination) {
	about := map[string][]string{}
	var order []string
	for _, d := range e.Diagnoses {
		for _, advice := range d.Advice {
			if about[advice] == nil {
				order = append(order, advice)
			}
			about[advice] = append(about[advice], cmp.Or(printable(d.Model), d.Upstream))
		}
	}
	for _, advice := range order {
		fmt.Fprintf(b, "\n%s\n  %s\n", strings.Join(about[advice], ", "), advice)
	}
	if n := len(e.Skipped); n > 0 {
		fmt.Fprintf(b, "\nNot looked at: %s that do not answer in text or are too many. --model looks at one.\n", count(n, "model"))
	}
	if len(order) == 0 {
		fmt.Fprintf(b, "\nNothing to advise.\n")
	}
}
