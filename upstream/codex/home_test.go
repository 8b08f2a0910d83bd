//go:build unix

package codex

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// gatewayWithHome starts another process that makes a home with a key in it.
func gatewayWithHome(t *testing.T, temp string) (cmd *exec.Cmd, home string) {
	t.Helper()
	cmd = exec.Command(os.Args[0], temp)
	cmd.Env = []string{asAppServer + "=gateway"}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd, strings.TrimSpace(line)
}

// TestAbandonedHomes: the key that a killed gateway left on the disk goes when the
// next one starts a process; the home of one that lives stays, and so does what
// only looks like a home (R50).
func TestAbandonedHomes(t *testing.T) {
	t.Parallel()
	temp, elsewhere := t.TempDir(), t.TempDir()
	killed, left := gatewayWithHome(t, temp)
	_, living := gatewayWithHome(t, temp)
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait()
	if _, err := os.Stat(filepath.Join(left, authFile)); err != nil {
		t.Fatalf("there is nothing to remove: %v", err)
	}
	link, foreign := filepath.Join(temp, homePattern+"link"), filepath.Join(temp, homePattern+"foreign")
	if err := errors.Join(os.WriteFile(filepath.Join(elsewhere, lockFile), nil, 0o600), os.Symlink(elsewhere, link), os.Mkdir(foreign, 0o700)); err != nil {
		t.Fatal(err)
	}
	d, err := New([]string{os.Args[0], "app-server"}, &Options{Env: map[string]string{asAppServer: ""}, TempDir: temp})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	mustAsk(t, d, "hello")
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the home of the killed gateway is still there: %v", err)
	}
	for _, path := range []string{filepath.Join(living, authFile), link, filepath.Join(elsewhere, lockFile), foreign} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("it went too: %v", err)
		}
	}
}
