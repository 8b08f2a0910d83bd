package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/antiphon-dev/antiphon/standard"
)

// An announcement is what the gateway says of itself when it starts: what it
// found, where it is, and how to use it.
type announcement struct {
	settings *settings
	report   *standard.Report
	address  string // host:port, as clients reach it
	admin    string // host:port for those who look after it, "" if there is none
}

// print writes the announcement for people. What upstreams say of themselves is
// quoted if a terminal might obey it.
func (a *announcement) print(w io.Writer) {
	var b strings.Builder
	fmt.Fprintf(&b, "antiphon %s\n\n", currentVersion())
	for _, u := range a.report.Upstreams {
		printUpstream(&b, u)
	}
	for _, note := range a.notes() {
		fmt.Fprintf(&b, "  Note: %s\n", note)
	}
	fmt.Fprintf(&b, "\nListening on http://%s\n", a.address)
	if a.admin != "" {
		fmt.Fprintf(&b, "Admin on http://%s\n", a.admin)
	}
	if model := a.exampleModel(); model != "" {
		fmt.Fprintf(&b, "\n  %s\n\n  %s\n\n", curlLine(a.address, model), sdkLine(a.address, model))
	} else {
		fmt.Fprintf(&b, "No model is known yet. When an upstream answers, http://%s/v1/models lists them.\n\n", a.address)
	}
	_, _ = io.WriteString(w, b.String()) // nobody to tell
}

// log writes the announcement for machines.
func (a *announcement) log(logger *slog.Logger) {
	for _, u := range a.report.Upstreams {
		attrs := []any{"upstream", u.Name, "url", u.URL, "protocol", u.Protocol, "models", len(u.Models)}
		if u.Why != "" {
			attrs = append(attrs, "why", u.Why)
		}
		if u.Err != nil {
			attrs = append(attrs, "error", u.Err.Error())
		}
		logger.Info("upstream", attrs...)
	}
	for _, note := range a.notes() {
		logger.Warn(note)
	}
	attrs := []any{"address", a.address, "version", currentVersion()}
	if a.admin != "" {
		attrs = append(attrs, "admin", a.admin)
	}
	logger.Info("listening", attrs...)
}

func printUpstream(b *strings.Builder, u standard.Upstream) {
	where := u.URL
	if u.Engine != "" {
		where = u.Engine + " at " + u.URL
	}
	protocol := string(u.Protocol)
	if u.Why != "" {
		protocol += " (" + u.Why + ")"
	}
	fmt.Fprintf(b, "  %s\n    at        %s\n    protocol  %s\n    models    %s\n", u.Name, where, protocol, modelsOf(u))
}

// modelsOf lists the first models of an upstream with their context windows.
func modelsOf(u standard.Upstream) string {
	const most = 6
	if u.Err != nil {
		return fmt.Sprintf("not known: %s. Requests are sent to it all the same.", strings.TrimSuffix(u.Err.Error(), "."))
	}
	if len(u.Models) == 0 {
		return "none yet"
	}
	var list []string
	for _, m := range u.Models[:min(len(u.Models), most)] {
		text := printable(m.ID)
		if m.ContextWindow > 0 {
			text += fmt.Sprintf(" (context up to %d tokens)", m.ContextWindow)
		}
		list = append(list, text)
	}
	if more := len(u.Models) - most; more > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(list, ", ")
}

// notes are what else is worth knowing.
func (a *announcement) notes() []string {
	var notes []string
	if d := a.settings.discovered; d != nil {
		for _, look := range d.Looks {
			if look.Notable {
				notes = append(notes, look.Where+": "+look.Result)
			}
		}
	}
	const most = 3
	for _, s := range a.report.Shadowed[:min(len(a.report.Shadowed), most)] {
		notes = append(notes, fmt.Sprintf("%s is at %s and at %s; %s serves it", printable(s.Model), s.Serves, s.Hidden, s.Serves))
	}
	if more := len(a.report.Shadowed) - most; more > 0 {
		notes = append(notes, fmt.Sprintf("and %s more at several upstreams", count(more, "model")))
	}
	if c := a.settings.config; len(c.Models) == 0 && len(c.Upstreams) > 1 {
		for _, u := range a.report.Upstreams {
			if u.Err != nil {
				notes = append(notes, fmt.Sprintf("the models of %s cannot be asked for before a restart, unless a configuration file names them", u.Name))
			}
		}
	}
	return notes
}

// exampleModel returns a model for the lines to paste; empty if there is none.
func (a *announcement) exampleModel() string {
	down := map[string]bool{}
	for _, u := range a.report.Upstreams {
		down[u.Name] = u.Err != nil
	}
	best := ""
	for _, name := range a.report.Models(a.settings.config) {
		if m, ok := a.settings.config.Models[name]; ok && down[m.Upstream] || !pasteable(name) || !standard.GeneratesText(name) {
			continue
		}
		// A provider with many models has some that are for special purposes.
		if best == "" || strings.HasPrefix(name, "gpt-4o") && !strings.HasPrefix(best, "gpt-4o") {
			best = name
		}
	}
	return best
}

// pasteable: the name of a model comes from an upstream and is put into a line
// that people paste into a shell.
func pasteable(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:/@+-", r))
	})
}

// printable quotes text that is more than visible characters.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

func curlLine(address, model string) string {
	return fmt.Sprintf(`curl http://%s/v1/responses -H 'Content-Type: application/json' -d '{"model":"%s","input":"Say hello."}'`, address, model)
}

func sdkLine(address, model string) string {
	return fmt.Sprintf(`python3 -c 'from openai import OpenAI; print(OpenAI(base_url="http://%s/v1", api_key="none").responses.create(model="%s", input="Say hello.").output_text)'`, address, model)
}

// nothingFound tells where was looked and how to go on.
func nothingFound(d *standard.Discovery) error {
	var b strings.Builder
	b.WriteString("found no model server. Looked for\n\n")
	table := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for _, look := range d.Looks {
		fmt.Fprintf(table, "  %s\t%s\n", look.Where, look.Result)
	}
	_ = table.Flush() // into memory
	b.WriteString(`
Start one of them, or say where yours is:

  antiphon serve --upstream http://HOST:PORT
  antiphon serve --upstream https://api.openai.com --key-env OPENAI_API_KEY
  antiphon serve --config FILE`)
	return errors.New(b.String())
}
