package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// findCodex returns the path of Codex.
func findCodex(path string) (string, error) {
	if path != "" {
		found, err := exec.LookPath(path)
		if err != nil {
			return "", usagef("--codex: %w", err)
		}
		return found, nil
	}
	found, err := exec.LookPath("codex")
	if err != nil {
		return "", errors.New("codex is not on PATH. Install it with\n\n  npm install -g @openai/codex\n\nor say where it is with --codex PATH")
	}
	return found, nil
}

// runCodex runs Codex on our terminal to its end and returns its exit code. Signals
// that come to us go to it: when to end is its decision.
func (p *program) runCodex(path string, args []string, env ...string) (int, error) {
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.stdin, p.stdout, p.stderr
	cmd.Env = append(os.Environ(), env...)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start Codex: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	shared := sharesTerminal()
	for {
		select {
		case s := <-signals:
			// Ctrl-C goes to all programs of the terminal; twice would mean more.
			if s != os.Interrupt || !shared {
				_ = cmd.Process.Signal(s) // an error means that it has ended
			}
		case err := <-ended:
			return exitCodeOf(cmd.ProcessState, err)
		}
	}
}

// exitCodeOf returns the exit code of a program that has ended, or 128 and the
// number of the signal that ended it, as shells do.
func exitCodeOf(state *os.ProcessState, err error) (int, error) {
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return 0, fmt.Errorf("run Codex: %w", err)
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return state.ExitCode(), nil
}

// sharesTerminal reports whether we and the programs that we start have a terminal.
func sharesTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	_ = tty.Close() // it was only looked at
	return true
}
