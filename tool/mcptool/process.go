package mcptool

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// errCommand: the command of a server could not be run.
var errCommand = errors.New("the command of the tool server could not be started")

// passedOn are the variables of the gateway's environment that a command gets. All
// others may be secrets of the gateway.
var passedOn = []string{"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"}

// Times for a command to end: by itself after its input was closed, and after it
// was asked to.
const (
	leaveTime = 2 * time.Second
	termTime  = 2 * time.Second
)

// A process is a running command. Reading and writing are its output and input.
type process struct {
	cmd   *exec.Cmd
	in    *os.File
	out   *os.File
	gone  chan struct{} // closed when it has ended, with all that it started
	label string

	closing sync.Once
	quiet   chan struct{} // closed when we ended it
}

// start runs the command of a server.
func start(s *Server, logger *slog.Logger) (*process, error) {
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCommand, err)
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", errCommand, err), childIn.Close(), in.Close())
	}
	tail := new(tailBuffer)
	cmd := exec.Command(s.Command[0], s.Command[1:]...)
	cmd.Env = environment(s.Env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = childIn, childOut, tail
	cmd.WaitDelay = leaveTime // what it left behind may hold its error output open
	ownGroup(cmd)
	err = cmd.Start()
	_ = childIn.Close()
	_ = childOut.Close()
	if err != nil {
		logger.Warn("a tool server could not be started", "label", s.Label, "error", err)
		return nil, errors.Join(errCommand, in.Close(), out.Close())
	}
	p := &process{cmd: cmd, in: in, out: out, label: s.Label, gone: make(chan struct{}), quiet: make(chan struct{})}
	go p.wait(logger, tail)
	return p, nil
}

func environment(own map[string]string) []string {
	env := []string{} // not nil, which would mean all of ours
	for _, name := range passedOn {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	for name, v := range own {
		env = append(env, name+"="+v)
	}
	return env
}

// wait waits for the command to end, and then ends what it left behind.
func (p *process) wait(logger *slog.Logger, tail *tailBuffer) {
	defer close(p.gone)
	err := p.cmd.Wait()
	killGroup(p.cmd)
	select {
	case <-p.quiet:
	default:
		logger.Warn("a tool server ended on its own", "label", p.label, "error", err, "stderr", tail.String())
	}
}

// Read implements [io.Reader].
func (p *process) Read(b []byte) (int, error) { return p.out.Read(b) }

// Write implements [io.Writer].
func (p *process) Write(b []byte) (int, error) { return p.in.Write(b) }

// Close ends the command: it closes its input, then asks, then kills it with all
// that it started. It returns when that is done.
func (p *process) Close() error {
	p.closing.Do(func() {
		close(p.quiet)
		_ = p.in.Close()
		if !p.endsWithin(leaveTime) {
			termGroup(p.cmd)
			if !p.endsWithin(termTime) {
				killGroup(p.cmd)
				<-p.gone
			}
		}
		_ = p.out.Close()
	})
	return nil
}

func (p *process) endsWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.gone:
		return true
	case <-t.C:
		return false
	}
}

// tailBuffer keeps the end of what is written to it.
type tailBuffer struct {
	mu sync.Mutex
	b  []byte // guarded by mu
}

const maxTail = 4 << 10

// Write implements [io.Writer].
func (t *tailBuffer) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if n := len(t.b) - maxTail; n > 0 {
		t.b = slices.Delete(t.b, 0, n)
	}
	return len(p), nil
}

// String is what is kept.
func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
