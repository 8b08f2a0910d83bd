//go:build !unix

package stdiorpc

import (
	"os"
	"os/exec"
)

// ownGroup does nothing: this system has no process groups.
func ownGroup(*exec.Cmd) {}

// termGroup kills the process: this system has no way to ask.
func termGroup(p *os.Process) { killGroup(p) }

// killGroup kills the process.
func killGroup(p *os.Process) { _ = p.Kill() } // it has ended: nothing to do
