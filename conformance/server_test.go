//go:build unix

package conformance_test

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const (
	startLimit = 30 * time.Second // for a server to answer its first request
	stopLimit  = 10 * time.Second // for a server to leave by itself
)

// startServer starts a server that takes --listen, waits until it answers path,
// and returns its base URL. It is stopped and waited for when the test ends; if
// the test failed, what it wrote is shown.
//
// The server sees nothing of this process's environment: a configuration or an
// API key of whoever runs the test would change what is tested.
func startServer(t *testing.T, path string, name ...string) string {
	t.Helper()
	address := freeAddress(t)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, name[0], append(name[1:], "--listen", address)...)
	cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
	ownGroup(cmd, syscall.SIGTERM)
	var output bytes.Buffer // the command's until exited is closed
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	exited := make(chan struct{})
	var exit error // readable once exited is closed
	go func() {
		defer close(exited)
		exit = cmd.Wait()
	}()
	t.Cleanup(func() {
		cancel()
		<-exited
		if t.Failed() {
			t.Logf("%s wrote:\n%s", filepath.Base(name[0]), output.String())
		}
	})
	base := "http://" + address
	if !awaitAnswer(t, base+path, exited) {
		select {
		case <-exited:
			t.Fatalf("%s exited before it was ready: %v", filepath.Base(name[0]), exit)
		default:
			t.Fatalf("%s did not answer GET %s within %s", filepath.Base(name[0]), path, startLimit)
		}
	}
	return base
}

// awaitAnswer asks url until the answer is 200. It gives up when exited is closed
// or the time for a start is over.
func awaitAnswer(t *testing.T, url string, exited <-chan struct{}) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		if answers(ctx, url) {
			return true
		}
		select {
		case <-again.C:
		case <-exited:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// freeAddress returns a loopback address that nothing listens on. Another process
// may take it before the server does; then the server says so and the test fails.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// ownGroup makes the command lead a process group of its own, and makes the end of
// its context a signal to that group: npm and go have children, which would
// otherwise survive them. A command that stays is killed after stopLimit.
func ownGroup(cmd *exec.Cmd, signal syscall.Signal) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = stopLimit
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, signal) }
}
