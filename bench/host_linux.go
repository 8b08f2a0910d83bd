package main

import "syscall"

// ownGroup puts a child into a process group of its own, so that a signal from
// the terminal reaches it only through us, and lets the kernel end it if we die
// without a chance to.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killGroup ends the process group that pid leads.
func killGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }

// maxOpenFiles is how many descriptors a child may have. The Go runtime raises
// the soft limit to the hard one by itself, in every program that imports os.
func maxOpenFiles() (uint64, error) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return limit.Max, err
}
