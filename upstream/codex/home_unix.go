//go:build unix

package codex

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// lockHome locks a new home. The lock ends with this process, however that ends,
// and is not passed on to those that it starts.
func lockHome(dir string) (io.Closer, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	if err := os.Rename(path+".new", path); err != nil { // whoever finds it finds it locked
		f.Close()
		return nil, err
	}
	return f, nil
}

// lockAbandoned locks a home of ours whose gateway is gone. It returns nil for any
// other, and for what is no home: the directory may be everybody's.
func lockAbandoned(dir string) io.Closer {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return nil
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		f.Close()
		return nil
	}
	return f
}
