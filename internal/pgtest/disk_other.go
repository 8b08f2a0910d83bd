//go:build unix && !linux

package pgtest

import "testing"

// A Disk is a small file system of a test's own.
type Disk struct{ Dir string }

// SmallDisk skips the test: only Linux mounts one.
func SmallDisk(t testing.TB, _ int) *Disk {
	Missing(t, "a small file system can be mounted on Linux only")
	return nil
}

// Fill takes all the room that is left.
func (d *Disk) Fill() {}

// Empty gives back what Fill took.
func (d *Disk) Empty() {}
