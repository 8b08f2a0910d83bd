//go:build unix

package stdiorpc_test

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/internal/stdiorpc"
)

// start starts a peer of the named kind. It is closed when the test ends.
func start(t *testing.T, kind string, opts *stdiorpc.Options) *stdiorpc.Conn {
	t.Helper()
	c, err := stdiorpc.Start(stdiorpc.Command{Args: []string{os.Args[0]}, Env: []string{asPeer + "=" + kind}}, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestCallsBothWays(t *testing.T) {
	t.Parallel()
	notes, questions := make(chan string, 8), make(chan *stdiorpc.Request, 1)
	c := start(t, "polite", &stdiorpc.Options{
		Notify: func(method string, params jsontext.Value) { notes <- method + string(params) },
		Handle: func(r *stdiorpc.Request) { questions <- r },
	})
	var got struct{ A string }
	if err := c.Call(t.Context(), "echo", map[string]string{"A": "ü\n"}, &got); err != nil || got.A != "ü\n" {
		t.Errorf("echo gives %+v and %v", got, err)
	}
	if n := <-notes; n != `got{"A":"ü\n"}` {
		t.Errorf("the notification is %s", n)
	}
	var refused *stdiorpc.Error
	if err := c.Call(t.Context(), "refuse", nil, nil); !errors.As(err, &refused) || refused.Code != -32000 || refused.Message != "No." {
		t.Errorf("refuse gives %v", err)
	}
	if err := c.Call(t.Context(), "ask", 7, nil); err != nil {
		t.Error(err)
	}
	q := <-questions
	if q.Method != "question" || string(q.Params) != "7" {
		t.Errorf("the peer asked %s %s", q.Method, q.Params)
	}
	q.Reply("fine")
	if n := <-notes; n != `answered{"id":"mine","result":"fine"}` {
		t.Errorf("the peer was answered %s", n)
	}
	big := strings.Repeat("b", 10<<20)
	var back string
	if err := c.Call(t.Context(), "echo", big, &back); err != nil || back != big {
		t.Errorf("a line of 10 MB gives %d bytes and %v", len(back), err)
	}
	if err := c.Call(t.Context(), "echo", "x", &got); err == nil || !strings.Contains(err.Error(), "echo") {
		t.Errorf("an answer of another shape gives %v", err)
	}
}

// TestUnknownRequest: a peer whose questions nobody handles is told so.
func TestUnknownRequest(t *testing.T) {
	t.Parallel()
	notes := make(chan string, 1)
	c := start(t, "polite", &stdiorpc.Options{Notify: func(method string, params jsontext.Value) { notes <- string(params) }})
	if err := c.Call(t.Context(), "ask", nil, nil); err != nil {
		t.Fatal(err)
	}
	if n := <-notes; !strings.Contains(n, `"code":-32601`) || !strings.Contains(n, `"id":"mine"`) {
		t.Errorf("the peer was answered %s", n)
	}
}

func TestManyCallsAtOnce(t *testing.T) {
	t.Parallel()
	c := start(t, "polite", nil)
	var calls sync.WaitGroup
	for i := range 200 {
		calls.Go(func() {
			var got int
			if err := c.Call(t.Context(), "echo", i, &got); err != nil || got != i {
				t.Errorf("call %d gives %d and %v", i, got, err)
			}
		})
	}
	calls.Wait()
}

// TestDeath: every call that waits fails, with what is known of why.
func TestDeath(t *testing.T) {
	t.Parallel()
	c := start(t, "polite", nil)
	err := c.Call(t.Context(), "die", nil, nil)
	for _, want := range []string{"exit status 3", "the peer is tired", "in the middle of a line"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the call fails with %v, which does not say %q", err, want)
		}
	}
	<-c.Done()
	if again := c.Call(t.Context(), "echo", nil, nil); !errors.Is(again, c.Err()) {
		t.Errorf("a call afterwards fails with %v", again)
	}
	if err := c.Notify(t.Context(), "echo", nil); !errors.Is(err, c.Err()) {
		t.Errorf("a notification afterwards fails with %v", err)
	}
}

func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	c := start(t, "deaf", nil)
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(gone) })
	if err := c.Call(ctx, "echo", nil, nil); !errors.Is(err, gone) {
		t.Errorf("the call fails with %v, want the cause of its context", err)
	}
}

// TestDeafPeer: one that does not read is ended, and does not hold its callers.
func TestDeafPeer(t *testing.T) {
	t.Parallel()
	c := start(t, "deaf", &stdiorpc.Options{WriteTime: 50 * time.Millisecond})
	err := c.Call(t.Context(), "echo", strings.Repeat("x", 1<<20), nil)
	if err == nil || !strings.Contains(err.Error(), "did not read") {
		t.Errorf("the call fails with %v", err)
	}
}

func TestAskerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	c := start(t, "asker", nil)
	<-c.Done()
	if err := c.Err(); !strings.Contains(err.Error(), "without reading") {
		t.Errorf("it ended with %v", err)
	}
}

func TestEndlessLine(t *testing.T) {
	t.Parallel()
	c := start(t, "shouter", &stdiorpc.Options{MaxLine: 1 << 20})
	<-c.Done()
	if err := c.Err(); !strings.Contains(err.Error(), "longer than 1048576 bytes") {
		t.Errorf("it ended with %v", err)
	}
}

// TestTreeDies: what the process started dies with it, and what has left its
// group does not keep us waiting.
func TestTreeDies(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"parent", "orphan"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			child := make(chan int, 1)
			c := start(t, kind, &stdiorpc.Options{Notify: func(_ string, params jsontext.Value) {
				pid, err := strconv.Atoi(string(params))
				if err != nil {
					t.Error(err)
				}
				child <- pid
			}})
			pid := <-child
			began := time.Now()
			if kind == "orphan" {
				<-c.Done()
				defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
			}
			c.Close()
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			if kind == "parent" {
				awaitDeath(t, pid)
			}
		})
	}
}

// awaitDeath waits until there is no process of that number but a dead one.
func awaitDeath(t *testing.T, pid int) {
	t.Helper()
	for range 200 {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("process %d lives", pid)
}

func TestCloseIsPolite(t *testing.T) {
	t.Parallel()
	c := start(t, "polite", &stdiorpc.Options{CloseTime: time.Minute})
	c.Close()
	c.Close()
	if err := c.Err(); err == nil || !strings.Contains(err.Error(), "the process ended") {
		t.Errorf("the connection ended with %v, want that the process left by itself", err)
	}
}

func TestNoSuchProgram(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"/does/not/exist"}} {
		if c, err := stdiorpc.Start(stdiorpc.Command{Args: args}, nil); err == nil {
			c.Close()
			t.Errorf("%q started", args)
		}
	}
}

// TestNothingIsInherited: the environment is what the command says.
func TestNothingIsInherited(t *testing.T) {
	t.Parallel()
	c, err := stdiorpc.Start(stdiorpc.Command{Args: []string{"/usr/bin/env"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	<-c.Done()
	if err := c.Err(); err.Error() != "the process ended" {
		t.Errorf("env printed something: %v", err)
	}
}
