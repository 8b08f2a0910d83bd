package mcptool

import (
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/antiphon-dev/antiphon/internal/stdiorpc"
)

// errCommand: the command of a server could not be run.
var errCommand = errors.New("the command of the tool server could not be started")

// passedOn are the variables of the gateway's environment that a command gets. All
// others may be secrets of the gateway.
var passedOn = []string{"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"}

// leaveTime is how long a command may take to end, by itself after its input was
// closed, and again after it was asked to.
const leaveTime = 2 * time.Second

// A process is the running command of a server.
type process struct {
	*stdiorpc.Process
	label  string
	logger *slog.Logger
	closed sync.Once
}

// start runs the command of a server.
func start(s *Server, logger *slog.Logger) (*process, error) {
	p, err := stdiorpc.StartProcess(stdiorpc.Command{Args: s.Command, Env: environment(s.Env)})
	if err != nil {
		logger.Warn("a tool server could not be started", "label", s.Label, "error", err)
		return nil, errCommand
	}
	return &process{Process: p, label: s.Label, logger: logger}, nil
}

func environment(own map[string]string) []string {
	var env []string
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

// Close ends the command: it closes its input, then asks, then kills it with all that
// it started. It returns when that is done.
func (p *process) Close() error {
	p.closed.Do(p.end)
	return nil
}

func (p *process) end() {
	alone := p.exitsWithin(0)
	_ = p.CloseWrite()
	if !p.exitsWithin(leaveTime) {
		p.Terminate()
		if !p.exitsWithin(leaveTime) {
			p.Kill()
		}
	}
	if err := p.Wait(); alone {
		p.logger.Warn("a tool server ended on its own", "label", p.label, "error", err)
	}
}

func (p *process) exitsWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-p.Exited():
		return true
	case <-t.C:
		select {
		case <-p.Exited(): // both at once
			return true
		default:
			return false
		}
	}
}
