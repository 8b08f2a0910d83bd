package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"sync"
	"time"
)

// patience is how long a process may take for what should take no time.
const patience = 30 * time.Second

// A process is an antiphon that a test started.
type process struct {
	cmd    *exec.Cmd
	kill   func()
	exited chan struct{} // closed when it has ended; err is then set
	err    error

	mu    sync.Mutex
	wrote bytes.Buffer  // guarded by mu
	more  chan struct{} // closed and replaced by every write; guarded by mu
}

// startProcess starts antiphon in dir with nothing but env in its environment.
func startProcess(dir string, env, args []string) (*process, error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{exited: make(chan struct{}), more: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, "antiphon", args...)
	p.cmd.Dir, p.cmd.Env = dir, env
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	go func() {
		defer close(p.exited)
		p.err = p.cmd.Wait()
	}()
	p.kill = func() {
		cancel()
		<-p.exited
	}
	return p, nil
}

// Write takes what the process writes.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.more)
	p.more = make(chan struct{})
	return p.wrote.Write(b)
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wrote.String()
}

// listening is how the process says where it is, to people and to machines.
var listening = regexp.MustCompile(`Listening on http://(\S+)|"msg":"listening","address":"([^"]+)"`)

// stopping is how the process says that it has taken notice of a signal.
var stopping = regexp.MustCompile(`stopping: open responses may finish`)

// awaitAddress returns the address when the process has said it.
func (p *process) awaitAddress() (string, error) {
	m, err := p.awaitOutput(listening)
	if err != nil {
		return "", err
	}
	return m[1] + m[2], nil
}

// awaitOutput waits until the process has written what the pattern says.
func (p *process) awaitOutput(pattern *regexp.Regexp) ([]string, error) {
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for {
		p.mu.Lock()
		more, m := p.more, pattern.FindStringSubmatch(p.wrote.String())
		p.mu.Unlock()
		if m != nil {
			return m, nil
		}
		select {
		case <-more:
		case <-p.exited:
			return nil, fmt.Errorf("antiphon ended before it wrote %s: %w", pattern, p.err)
		case <-timeout.C:
			return nil, fmt.Errorf("antiphon did not write %s", pattern)
		}
	}
}

// wait returns the exit code, -1 if a signal ended the process.
func (p *process) wait() (int, error) {
	select {
	case <-p.exited:
	case <-time.After(patience):
		return 0, errors.New("antiphon does not end")
	}
	if exit, ok := errors.AsType[*exec.ExitError](p.err); ok {
		return exit.ExitCode(), nil
	}
	return 0, p.err
}
