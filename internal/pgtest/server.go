//go:build unix

package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Server is a PostgreSQL of the caller's own.
type Server struct {
	dir, bin string
	port     int
	as       *syscall.Credential // nil means as we are
	options  []string
	process  *exec.Cmd // nil while it is stopped
	ended    chan error
	log      bytes.Buffer // of the process; read it when that has ended
}

// Start starts a server that ends with the test. options are settings, such as
// "max_connections=20". Without the programs the test is skipped, and fails in CI.
func Start(t testing.TB, options ...string) *Server {
	t.Helper()
	return StartIn(t, "", options...)
}

// StartIn is Start with the server's files below dir.
func StartIn(t testing.TB, dir string, options ...string) *Server {
	t.Helper()
	s, err := newServer(dir, options)
	if errors.Is(err, exec.ErrNotFound) {
		Missing(t, "no PostgreSQL to start: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	return s
}

// NewServer makes the files of a server, which is not started yet. Call Remove.
func NewServer(options ...string) (*Server, error) { return newServer("", options) }

func newServer(dir string, options []string) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, options: options}
	if s.dir, err = os.MkdirTemp(dir, "antiphon-pg"); err != nil {
		return nil, err
	}
	if err := s.init(); err != nil {
		return nil, errors.Join(err, s.Remove())
	}
	return s, nil
}

// programs finds the directory of initdb and postgres, which Debian keeps out of
// the PATH.
func programs() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", fmt.Errorf("initdb: %w", exec.ErrNotFound)
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1]), nil
}

// init makes the files, which must not belong to root.
func (s *Server) init() error {
	if os.Geteuid() == 0 {
		u, err := user.Lookup("nobody")
		if err != nil {
			return err
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(s.dir, uid, gid); err != nil {
			return err
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.port = free.Addr().(*net.TCPAddr).Port
	free.Close()
	if out, err := s.command("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions").CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as, Setpgid: true}
	return cmd
}

// URL is that of its database.
func (s *Server) URL() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres", s.port)
}

// Port is where it listens, on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// Start starts it, or starts it again, and returns when it answers.
func (s *Server) Start() error {
	args := []string{"-D", s.data(), "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="}
	for _, o := range s.options {
		args = append(args, "-c", o)
	}
	s.log.Reset()
	s.process = s.command("postgres", args...)
	s.process.Stdout, s.process.Stderr = &s.log, &s.log
	if err := s.process.Start(); err != nil {
		s.process = nil
		return err
	}
	s.ended = make(chan error, 1)
	go func() { s.ended <- s.process.Wait() }()
	for range 600 {
		if s.answers() {
			return nil
		}
		select {
		case err := <-s.ended:
			s.process = nil
			return fmt.Errorf("PostgreSQL ended: %w\n%s", err, s.log.Bytes())
		case <-time.After(50 * time.Millisecond):
		}
	}
	return errors.Join(errors.New("PostgreSQL does not answer"), s.Stop(syscall.SIGQUIT))
}

func (s *Server) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return false
	}
	conn.Close(ctx)
	return true
}

// Stop ends it and waits: SIGINT as an operator does, cutting connections, and
// SIGQUIT like a crash, after which it recovers from its log.
func (s *Server) Stop(signal syscall.Signal) error {
	if s.process == nil {
		return nil
	}
	if err := s.process.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.ended:
	case <-time.After(30 * time.Second):
		syscall.Kill(-s.process.Process.Pid, syscall.SIGKILL) // its own group
		<-s.ended
	}
	s.process = nil
	return nil
}

// Remove stops it and removes its files.
func (s *Server) Remove() error {
	return errors.Join(s.Stop(syscall.SIGQUIT), os.RemoveAll(s.dir))
}
