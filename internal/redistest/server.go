// Package redistest starts Redis servers of a test's own: on loopback, in a
// directory of their own, ended with the test. They may be killed and started
// again, which the server that tests share may not.
package redistest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a server has to start.
const patience = 30 * time.Second

// A Server is a redis-server process.
type Server struct {
	// Addr is host and port. They stay the same when the server is started again.
	Addr string

	t      testing.TB
	args   []string
	cmd    *exec.Cmd
	ended  chan struct{} // closed when cmd has ended
	output bytes.Buffer
}

// Start runs a server with the given arguments, such as "--appendonly", "yes".
// Where there is no redis-server, the test is skipped, but fails with CI set.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, nil, args)
}

// StartSentinel runs a Sentinel with the given lines of configuration.
func StartSentinel(t testing.TB, lines ...string) *Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sentinel.conf") // it writes to it
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return start(t, []string{file, "--sentinel"}, nil)
}

// start runs a server with arguments before and after those that all have.
func start(t testing.TB, before, after []string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("redis-server is not installed: %v", err)
		}
		t.Skipf("redis-server is not installed: %v", err)
	}
	s := &Server{t: t}
	dir := t.TempDir()
	t.Cleanup(s.Kill)
	var err error
	for range 3 { // somebody else may take the port before the server does
		s.Addr = freeAddr(t)
		host, port, _ := net.SplitHostPort(s.Addr)
		common := []string{"--bind", host, "--port", port, "--dir", dir, "--save", "", "--daemonize", "no"}
		s.args = slices.Concat(before, common, after)
		if err = s.run(); err == nil {
			return s
		}
	}
	t.Fatal(err)
	return nil
}

// freeAddr returns an address that nobody listens on, and that is not given to
// outgoing connections.
func freeAddr(t testing.TB) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port on 127.0.0.1")
	return ""
}

// Restart starts the server with what it had on disk, after [Server.Kill].
func (s *Server) Restart() {
	s.t.Helper()
	if err := s.run(); err != nil {
		s.t.Fatal(err)
	}
}

// run starts the process and returns when it answers.
func (s *Server) run() error {
	s.output.Reset()
	cmd := exec.Command("redis-server", s.args...)
	cmd.Stdout, cmd.Stderr = &s.output, &s.output
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.ended = cmd, make(chan struct{})
	go func() {
		cmd.Wait()
		close(s.ended)
	}()
	return s.await("PING", func(answer string) bool {
		// One that wants a password is up as well.
		return strings.HasPrefix(answer, "+PONG") || strings.HasPrefix(answer, "-NOAUTH")
	})
}

// Kill ends the server at once, as a power cut does.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Kill()
	<-s.ended
	s.cmd = nil
}

// Pause stops the process where it is; it keeps its connections and says nothing.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Error(err)
	}
}

// await asks until the answer is right.
func (s *Server) await(command string, right func(answer string) bool) error {
	var answer string
	for end := time.Now().Add(patience); time.Now().Before(end); {
		var err error
		if answer, err = s.ask(command); err == nil && right(answer) {
			return nil
		}
		select {
		case <-s.ended:
			s.cmd = nil
			return fmt.Errorf("redis-server at %s ended: %s", s.Addr, s.output.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	s.Kill()
	return fmt.Errorf("redis-server at %s: %s answers %q; it says: %s", s.Addr, command, answer, s.output.String())
}

// Do sends a command that has no binary arguments, and returns the answer as it
// comes. An error answer fails the test.
func (s *Server) Do(command string) string {
	s.t.Helper()
	answer, err := s.ask(command)
	if err != nil || strings.HasPrefix(answer, "-") {
		s.t.Fatalf("%s: %q %v", command, answer, err)
	}
	return answer
}

// ask speaks the inline form of the protocol, and reads what comes until Redis
// hangs up.
func (s *Server) ask(command string) (string, error) {
	conn, err := net.DialTimeout("tcp", s.Addr, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := conn.Write([]byte(command + "\r\n")); err != nil {
		return "", err
	}
	conn.(*net.TCPConn).CloseWrite() // nothing more comes, so Redis hangs up after the answer
	var answer bytes.Buffer
	_, err = answer.ReadFrom(conn)
	return answer.String(), err
}
