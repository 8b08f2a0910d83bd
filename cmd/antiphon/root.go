package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/standard"
)

// Exit codes.
const (
	exitOK    = 0
	exitFail  = 1
	exitUsage = 2
)

// A program is the command and what it sees of the world.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	lookupEnv      func(name string) (string, bool)
	places         []standard.Place // to look for model servers; nil means the usual ones

	running bool // the command line was understood
}

// A usageError is a mistake in how the command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// An exitError ends the command with that exit code and without a word: what there
// was to say has been said.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// run runs the command line and returns the exit code.
func (p *program) run(ctx context.Context, args []string) int {
	root := p.rootCommand()
	root.SetArgs(args)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	fmt.Fprintln(p.stderr, "antiphon: "+describe(err))
	if !p.running {
		fmt.Fprintf(p.stderr, "%q tells more.\n", cmd.CommandPath()+" --help")
	}
	return p.exitCode(err)
}

// exitCode: what cobra refuses before a command runs is the caller's mistake too.
func (p *program) exitCode(err error) int {
	_, isUsage := errors.AsType[usageError](err)
	_, isConfig := errors.AsType[*config.Error](err)
	if isUsage || isConfig || !p.running {
		return exitUsage
	}
	return exitFail
}

// describe puts the problems of a configuration on lines of their own, so that
// editors and terminals can jump to their places.
func describe(err error) string {
	if e, ok := errors.AsType[*config.Error](err); ok && len(e.Problems) > 1 {
		return fmt.Sprintf("the configuration has %d problems:\n%s", len(e.Problems), e)
	}
	return strings.TrimPrefix(err.Error(), "antiphon: ") // errors of the root package name it
}

func (p *program) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:               "antiphon",
		Short:             "One Responses API in front of every model",
		SilenceUsage:      true,
		SilenceErrors:     true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		PersistentPreRun:  func(*cobra.Command, []string) { p.running = true },
	}
	root.AddCommand(p.serveCommand(), p.launchCommand(), p.doctorCommand(), p.configCommand(), p.migrateCommand(), p.topCommand(), p.manualCommand(), p.versionCommand())
	return root
}
