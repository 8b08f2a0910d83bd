package stdiorpc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// A Command says which process to start.
type Command struct {
	// Args are the program and its arguments. A program without a slash is looked
	// for in the PATH of this process.
	Args []string
	// Env is the whole environment of the process: nothing is inherited.
	Env []string
	// Dir is where it runs.
	Dir string
}

const (
	// drainTime is how long what a process wrote before it ended may take to be
	// read, and how long those may live that it started and that still hold its
	// output.
	drainTime = time.Second
	// maxTail is how much of what a process wrote to standard error is kept.
	maxTail = 4 << 10
)

// Start starts a process and returns the connection to it. The process leads a
// group of its own, which ends with it.
func Start(cmd Command, opts *Options) (*Conn, error) {
	p, err := StartProcess(cmd)
	if err != nil {
		return nil, err
	}
	return New(p, opts), nil
}

// A Process is the transport to a child process. Whoever has one and speaks to it in
// another way than with a [Conn] calls Wait in the end.
type Process struct {
	cmd    *exec.Cmd
	in     *os.File // its standard input
	out    *os.File // its standard output
	stderr tail
	closed sync.Once // in

	exited chan struct{} // closed when it has been waited for
	// Set before exited is closed.
	err   error       // what came of waiting
	drain *time.Timer // closes out
}

// StartProcess starts a process, which leads a group of its own.
func StartProcess(c Command) (*Process, error) {
	if len(c.Args) == 0 {
		return nil, errors.New("there is no command")
	}
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, childIn.Close(), in.Close())
	}
	p := &Process{cmd: exec.Command(c.Args[0], c.Args[1:]...), in: in, out: out, exited: make(chan struct{})}
	p.cmd.Env, p.cmd.Dir = c.Env, c.Dir
	if p.cmd.Env == nil {
		p.cmd.Env = []string{}
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = childIn, childOut, &p.stderr
	p.cmd.WaitDelay = drainTime // for standard error
	ownGroup(p.cmd)
	err = p.cmd.Start()
	err = errors.Join(err, childIn.Close(), childOut.Close())
	if err != nil {
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	go p.wait()
	return p, nil
}

// wait waits for the process. What it started dies with it, and what has escaped
// that does not keep the reader waiting.
func (p *Process) wait() {
	p.err = p.cmd.Wait()
	killGroup(p.cmd.Process)
	p.drain = time.AfterFunc(drainTime, func() { _ = p.out.Close() })
	close(p.exited)
}

// Read implements [Transport].
func (p *Process) Read(b []byte) (int, error) {
	n, err := p.out.Read(b)
	if errors.Is(err, os.ErrClosed) {
		err = io.EOF // the process is gone, and nobody else's words count
	}
	return n, err
}

// Write implements [Transport].
func (p *Process) Write(b []byte) (int, error) { return p.in.Write(b) }

// CloseWrite implements [Transport].
func (p *Process) CloseWrite() (err error) {
	p.closed.Do(func() { err = p.in.Close() })
	return err
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Terminate asks the process, and what it has started, to end.
func (p *Process) Terminate() {
	select {
	case <-p.exited:
	default:
		termGroup(p.cmd.Process)
	}
}

// Kill implements [Transport].
func (p *Process) Kill() {
	select {
	case <-p.exited: // its number may be another's by now
	default:
		killGroup(p.cmd.Process)
	}
}

// Wait implements [Transport]. A process that has closed its output and stays is
// killed.
func (p *Process) Wait() error {
	patience := time.NewTimer(drainTime)
	defer patience.Stop()
	select {
	case <-p.exited:
	case <-patience.C:
		p.Kill()
		<-p.exited
	}
	p.drain.Stop()
	_ = p.CloseWrite()
	_ = p.out.Close()
	said := p.stderr.String()
	switch {
	case p.err == nil && said == "":
		return nil
	case said == "":
		return p.err
	case p.err == nil:
		return errors.New(said)
	}
	return fmt.Errorf("%w: %s", p.err, said)
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
	cut bool
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b[max(0, len(b)-maxTail):]...)
	if over := len(t.buf) - maxTail; over > 0 {
		t.buf, t.cut = append(t.buf[:0], t.buf[over:]...), true
	}
	return len(b), nil
}

// String returns what was kept, from the first whole line on.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := string(t.buf)
	if t.cut {
		if _, whole, ok := strings.Cut(s, "\n"); ok {
			s = whole
		}
	}
	return strings.TrimSpace(strings.ToValidUTF8(s, "\uFFFD"))
}
