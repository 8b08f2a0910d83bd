package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
)

// manualCommand writes the man pages, for packages. It is hidden: whoever reads
// them has them already.
func (p *program) manualCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "manual DIRECTORY",
		Short:  "Write the man pages into a directory",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeManual(cmd.Root(), args[0])
		},
	}
}

// writeManual writes a page for each command below c that is not hidden.
func writeManual(c *cobra.Command, dir string) error {
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	if err := os.WriteFile(filepath.Join(dir, name+".1"), []byte(manPage(c)), 0o644); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if sub.Hidden || sub.Name() == "help" {
			continue
		}
		if err := writeManual(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

// manPage is the page of a command, in man(7).
func manPage(c *cobra.Command) string {
	var b strings.Builder
	page := strings.ReplaceAll(c.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q\n", strings.ToUpper(page), "antiphon "+currentVersion())
	section := func(title, text string) {
		if text = strings.TrimSpace(text); text != "" {
			fmt.Fprintf(&b, ".SH %s\n%s\n", title, text)
		}
	}
	section("NAME", roff(page)+` \- `+roff(c.Short))
	section("SYNOPSIS", ".B "+roff(c.UseLine()))
	section("DESCRIPTION", paragraphs(c.Long))
	section("COMMANDS", commandList(c))
	section("OPTIONS", literally(strings.TrimRight(c.NonInheritedFlags().FlagUsages(), "\n")))
	section("EXAMPLES", literally(c.Example))
	section("EXIT STATUS", ".TP\n.B 0\nAll went well.\n.TP\n.B 1\nSomething failed while it ran.\n.TP\n.B 2\nThe command line or the configuration is wrong.")
	if c.HasParent() {
		section("SEE ALSO", fmt.Sprintf(".BR %s (1)", roff(strings.ReplaceAll(c.Parent().CommandPath(), " ", "-"))))
	}
	return b.String()
}

func commandList(c *cobra.Command) string {
	var b strings.Builder
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(sub.Name()), roff(sub.Short))
		}
	}
	return b.String()
}

// paragraphs is text with an empty line between paragraphs.
func paragraphs(text string) string {
	return strings.ReplaceAll(roff(strings.TrimSpace(text)), "\n\n", "\n.PP\n")
}

// literally is text whose lines stay as they are.
func literally(text string) string {
	if text == "" {
		return ""
	}
	return ".nf\n" + roff(text) + "\n.fi"
}

// roff is text in which nothing is a command of troff, and everything ASCII.
func roff(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\\':
			b.WriteString(`\e`)
		case r == '-':
			b.WriteString(`\-`)
		case r > unicode.MaxASCII:
			fmt.Fprintf(&b, `\[u%04X]`, r)
		default:
			b.WriteRune(r)
		}
	}
	lines := strings.Split(b.String(), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
