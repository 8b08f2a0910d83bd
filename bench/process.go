package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	// startTime is how long a server may take until it accepts connections. One
	// with a hundred thousand keys takes some seconds.
	startTime = time.Minute
	// keptOutput is how much of what a process printed is kept, to tell why it
	// ended.
	keptOutput = 4 << 10
)

// A process is a server that bench runs.
type process struct {
	name string
	addr string // where it listens
	cmd  *exec.Cmd
	said lastBytes

	exited chan struct{} // closed when it has been waited for
}

// startProcess runs a program, with a free loopback address as its flag
// --listen, until stop is called, and returns when it accepts connections.
func startProcess(ctx context.Context, name, program string, args ...string) (*process, error) {
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	return startAt(ctx, name, addr, program, append(args, "--listen", addr)...)
}

// startAt is startProcess for a program that has been told, in its own way, to
// listen at addr.
func startAt(ctx context.Context, name, addr, program string, args ...string) (*process, error) {
	p := &process{name: name, addr: addr, exited: make(chan struct{})}
	p.cmd = exec.Command(program, args...)
	p.cmd.SysProcAttr = ownGroup()
	p.cmd.Env = cleanEnviron()
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // it is killed in the end; what matters is what it said
		close(p.exited)
	}()
	if err := p.awaitListening(ctx); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

func (p *process) url() string { return "http://" + p.addr }
func (p *process) pid() int    { return p.cmd.Process.Pid }

// awaitListening returns when the process accepts a connection.
func (p *process) awaitListening(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("not listening after %v", startTime))
	defer cancel()
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "tcp", p.addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-retry.C:
		case <-p.exited:
			return p.explain(errors.New("ended at once"))
		case <-ctx.Done():
			return p.explain(context.Cause(ctx))
		}
	}
}

// explain adds the process and what it printed last to an error.
func (p *process) explain(err error) error {
	if said := p.said.String(); said != "" {
		return fmt.Errorf("%s: %w; it said: %s", p.name, err, said)
	}
	return fmt.Errorf("%s: %w", p.name, err)
}

// stop kills the process and waits for it. It may be repeated.
func (p *process) stop() {
	select {
	case <-p.exited: // its id may be somebody else's by now
		return
	default:
	}
	_ = killGroup(p.pid()) // fails only if it has just ended
	<-p.exited
}

// alive returns an error if the process has ended.
func (p *process) alive() error {
	select {
	case <-p.exited:
		return p.explain(errors.New("ended"))
	default:
		return nil
	}
}

// freeAddress returns a loopback address that nobody listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// cleanEnviron is our environment without what configures a gateway.
func cleanEnviron() []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "ANTIPHON_") {
			env = append(env, kv)
		}
	}
	return env
}

// lastBytes is a writer that keeps the end of what is written. It is safe for
// concurrent use.
type lastBytes struct {
	mu  sync.Mutex
	end []byte // guarded by mu
}

func (b *lastBytes) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.end = append(b.end, p...)
	if extra := len(b.end) - keptOutput; extra > 0 {
		b.end = append(b.end[:0], b.end[extra:]...)
	}
	return len(p), nil
}

func (b *lastBytes) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(string(b.end))
}
