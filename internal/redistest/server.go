// Package redistest starts Redis servers of a test's own: on loopback, in a
// directory of their own, ended with the test. They may be killed and started
// again, which the server that tests share may not.
package redistest

import (
	"bytes"
	"net"
	"os"
	"os/exec"
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
	output bytes.Buffer
}

// Start runs a server with the given arguments, such as "--appendonly", "yes".
// Where there is no redis-server, the test is skipped, but fails with CI set.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("redis-server is not installed: %v", err)
		}
		t.Skipf("redis-server is not installed: %v", err)
	}
	s := &Server{Addr: freeAddr(t), t: t}
	host, port, _ := net.SplitHostPort(s.Addr)
	s.args = append([]string{"--bind", host, "--port", port, "--dir", t.TempDir(), "--save", "", "--daemonize", "no"}, args...)
	s.Restart()
	t.Cleanup(s.Kill)
	return s
}

// freeAddr returns an address that nobody listens on.
func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Restart starts the server with what it had on disk, after [Server.Kill].
func (s *Server) Restart() {
	s.t.Helper()
	s.output.Reset()
	s.cmd = exec.Command("redis-server", s.args...)
	s.cmd.Stdout, s.cmd.Stderr = &s.output, &s.output
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.wait("PING", func(answer string) bool {
		// One that wants a password, or TLS, is up as well.
		return strings.HasPrefix(answer, "+PONG") || strings.HasPrefix(answer, "-NOAUTH")
	})
}

// Kill ends the server at once, as a power cut does.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Kill()
	s.cmd.Wait()
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

// wait asks until the answer is right.
func (s *Server) wait(command string, right func(answer string) bool) {
	s.t.Helper()
	var answer string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var err error
		if answer, err = s.ask(command); err == nil && right(answer) {
			return
		}
	}
	s.Kill()
	s.t.Fatalf("redis-server at %s: %s answers %q; it says:\n%s", s.Addr, command, answer, s.output.String())
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
	if _, err := conn.Write([]byte(command + "\r\nQUIT\r\n")); err != nil {
		return "", err
	}
	var answer bytes.Buffer
	_, err = answer.ReadFrom(conn)
	return strings.TrimSuffix(answer.String(), "+OK\r\n"), err
}
