package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestChangeIsSeen: every change of the file is seen at once, also one that leaves
// its size and its time as they were while it is young; a file that has settled is
// not read each time, but is now and then.
func TestChangeIsSeen(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "antiphon.yaml")
	write := func(text string, at time.Time) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, at, at); err != nil {
			t.Fatal(err)
		}
	}
	r := &reloader{path: file}
	expect := func(what string, want bool) {
		t.Helper()
		if got := r.changed(); got != want {
			t.Errorf("%s: changed is %t", what, got)
		}
	}
	expect("no file", false)
	now, old := time.Now(), time.Now().Add(-time.Hour)
	write("aaaa", now)
	expect("a file", true)
	expect("the same", false)
	write("bbbb", now)
	expect("a young file, of the same size and time", true)
	write("cccc", old)
	expect("an older file", true)
	write("dddd", old)
	expect("a settled file with the same size and time", false) // nothing that writes files does that
	r.seen.at = r.seen.at.Add(-rereadTime)
	expect("the same after a while", true)
	write("ddddd", old)
	expect("another size", true)
	write("eeeee", old.Add(time.Millisecond))
	expect("another time", true)
	if err := os.Rename(file, file+"~"); err != nil {
		t.Fatal(err)
	}
	expect("no file any more", false)
	write("fffff", old.Add(time.Millisecond))
	expect("another file with the same size and time", true)
}
