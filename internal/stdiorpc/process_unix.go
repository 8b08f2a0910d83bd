//go:build unix

package stdiorpc

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup makes the process lead a group, so that one signal reaches all that it
// starts.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// termGroup asks the process and its group to end.
func termGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) } // nobody there: nothing to do

// killGroup kills the process and its group.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) } // nobody there: nothing to do
