package pgtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A Disk is a small file system of a test's own, in memory.
type Disk struct {
	Dir string
	t   testing.TB
}

// SmallDisk mounts a file system of so many bytes. Who may not mount skips the test,
// and fails it in CI.
func SmallDisk(t testing.TB, size int) *Disk {
	t.Helper()
	dir, err := os.MkdirTemp("", "antiphon-disk") // the server's user cannot look into t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	d := &Disk{dir, t}
	if err := syscall.Mount("tmpfs", d.Dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=1777", size)); err != nil {
		_ = os.Remove(dir)
		Missing(t, "a small file system cannot be mounted here (it takes root): %v", err)
	}
	t.Cleanup(func() {
		if err := errors.Join(syscall.Unmount(d.Dir, syscall.MNT_DETACH), os.Remove(d.Dir)); err != nil {
			t.Error(err)
		}
	})
	return d
}

// Fill takes all the room that is left.
func (d *Disk) Fill() {
	d.t.Helper()
	f, err := os.Create(filepath.Join(d.Dir, "ballast"))
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for len(block) > 0 {
		n, err := f.Write(block)
		if errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2] // the last bytes as well
		} else if err != nil || n != len(block) {
			d.t.Fatal(n, err)
		}
	}
}

// Empty gives back what Fill took.
func (d *Disk) Empty() {
	d.t.Helper()
	if err := os.Remove(filepath.Join(d.Dir, "ballast")); err != nil {
		d.t.Fatal(err)
	}
}
