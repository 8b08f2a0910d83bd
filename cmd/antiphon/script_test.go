package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
)

// TestScripts drives the real command. Beside the usual commands a script has
//
//	exits CODE COMMAND…         run a command that must end with the exit code
//	upstream VAR PROTOCOL       play a model server, chat, responses or both, and set VAR to its URL
//	locked VAR                  play a server that wants a key
//	flawed VAR FLAW             play one with a flaw: toolless, parseless, narrow, ollama
//	closed VAR                  set VAR to a URL at which nothing listens
//	taken VAR                   set VAR to an address that is in use
//	impostor VAR                set VAR to an address at which something says that it is healthy
//	addressof URLVAR VAR        set VAR to the host and port of a URL
//	start VAR ARGS…             start antiphon serve ARGS and set VAR to its URL
//	post URL BODY [HEADER]      print the status, our headers and the body of the answer
//	adminof VAR                 set VAR to the URL of antiphon's admin address
//	get URL [HEADER]            the same for a GET
//	paste curl                  send what the curl line in antiphon's announcement says
//	open URL BODY               begin a stream and wait for its first text
//	finish                      print the rest of the stream
//	signal SIGNAL               send TERM or INT to antiphon and wait until it has taken notice
//	stop [SIGNAL|-1]            wait for antiphon's good end, or its end by a signal (-1), after sending
//	                            one; its stderr is then what stderr looks at
//
// $BIN is the directory with antiphon, stubcodex and nothing else.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Values[stateKey{}] = &state{}
			hurry(env)
			antiphon, err := exec.LookPath("antiphon")
			env.Setenv("BIN", filepath.Dir(antiphon))
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": cmdExits, "upstream": cmdUpstream, "locked": cmdLocked, "flawed": cmdFlawed, "closed": cmdClosed, "taken": cmdTaken, "impostor": cmdImpostor, "addressof": cmdAddressOf,
			"start": cmdStart, "adminof": cmdAdminOf, "get": cmdGet, "post": cmdPost, "paste": cmdPaste, "open": cmdOpen, "finish": cmdFinish, "signal": cmdSignal, "hangup": cmdHangup, "says": cmdSays, "stop": cmdStop,
		},
	})
}

// hurry: with the race detector every process waits a second before it ends.
func hurry(env *testscript.Env) { env.Setenv("GORACE", "atexit_sleep_ms=20") }

type stateKey struct{}

// state is what a script has running.
type state struct {
	gateway *process
	stream  *http.Response
}

func stateOf(ts *testscript.TestScript) *state { return ts.Value(stateKey{}).(*state) }

// need stops a script that calls a command wrongly.
func need(ts *testscript.TestScript, neg, ok bool, usage string) {
	if neg || !ok {
		ts.Fatalf("usage: %s", usage)
	}
}

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) >= 2, "exits CODE COMMAND ARGS…")
	code := 0
	err := ts.Exec(args[1], args[2:]...)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code, err = exit.ExitCode(), nil
	}
	ts.Check(err)
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

func cmdUpstream(ts *testscript.TestScript, neg bool, args []string) {
	protocols := map[string]fakeupstream.Protocol{
		"chat": fakeupstream.Chat, "responses": fakeupstream.Responses, "both": fakeupstream.Chat | fakeupstream.Responses,
	}
	need(ts, neg, len(args) == 2 && protocols[args[1]] != 0, "upstream VAR chat|responses|both")
	model := fakeupstream.NewModel(&fakeupstream.ModelOptions{Protocol: protocols[args[1]]})
	ts.Setenv(args[0], play(ts, model.Answer))
}

func cmdLocked(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 1, "locked VAR")
	model := fakeupstream.NewModel(&fakeupstream.ModelOptions{Protocol: fakeupstream.Chat})
	ts.Setenv(args[0], play(ts, func(x *fakeupstream.Exchange) fakeupstream.Reply {
		if x.Header.Get("Authorization") != "Bearer open-sesame" {
			return fakeupstream.JSON(http.StatusUnauthorized, `{"error":{"message":"no key"}}`)
		}
		return model.Answer(x)
	}))
}

func play(ts *testscript.TestScript, answer func(*fakeupstream.Exchange) fakeupstream.Reply) (url string) {
	srv := fakeupstream.NewServer(answer)
	web := httptest.NewServer(srv)
	ts.Defer(func() {
		srv.Close()
		web.Close()
	})
	return web.URL
}

func cmdClosed(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 1, "closed VAR")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Check(l.Close())
	ts.Setenv(args[0], "http://"+l.Addr().String())
}

func cmdTaken(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 1, "taken VAR")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) >= 1, "start VAR ARGS…")
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "TEST_PLACES", "OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTIPHON_CONFIG", "ANTIPHON_LISTEN", "KEY"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	p, err := startProcess(ts.MkAbs("."), env, append([]string{"serve"}, args[1:]...))
	ts.Check(err)
	ts.Defer(p.kill)
	stateOf(ts).gateway = p
	address, err := p.awaitAddress()
	if err != nil {
		ts.Fatalf("%v; it wrote:\n%s", err, p.output())
	}
	ts.Setenv(args[0], "http://"+address)
}

var signals = map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": os.Interrupt}

func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 1 && signals[args[0]] != nil, "signal TERM|INT")
	p := stateOf(ts).gateway
	ts.Check(p.cmd.Process.Signal(signals[args[0]]))
	if _, err := p.awaitOutput(stopping); err != nil {
		ts.Fatalf("%v; it wrote:\n%s", err, p.output())
	}
}

// cmdHangup asks the gateway to read its configuration again.
func cmdHangup(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 0, "hangup")
	ts.Check(stateOf(ts).gateway.cmd.Process.Signal(syscall.SIGHUP))
}

// cmdSays waits until the gateway has written what the pattern says.
func cmdSays(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 1, "says PATTERN")
	p := stateOf(ts).gateway
	if _, err := p.awaitOutput(regexp.MustCompile(args[0])); err != nil {
		ts.Fatalf("%v; it wrote:\n%s", err, p.output())
	}
}

func cmdStop(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) <= 1, "stop [TERM|INT|-1]")
	p := stateOf(ts).gateway
	want := 0
	switch arg := strings.Join(args, ""); {
	case signals[arg] != nil:
		ts.Check(p.cmd.Process.Signal(signals[arg]))
	case arg == "-1":
		want = -1
	}
	code, err := p.wait()
	ts.Check(err)
	_, err = io.WriteString(ts.Stderr(), p.output())
	ts.Check(err)
	if code != want {
		ts.Fatalf("exit code %d, want %d; it wrote:\n%s", code, want, p.output())
	}
}

func cmdPost(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 2 || len(args) == 3, "post URL BODY [HEADER]")
	resp, err := post(args[0], headerOf(args[2:]), args[1])
	ts.Check(err)
	printAnswer(ts, resp)
}

func cmdGet(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 1 || len(args) == 2, "get URL [HEADER]")
	req, err := http.NewRequest(http.MethodGet, args[0], nil)
	ts.Check(err)
	req.Header = headerOf(args[1:])
	resp, err := http.DefaultClient.Do(req)
	ts.Check(err)
	printAnswer(ts, resp)
}

// cmdAdminOf finds the admin address in what the gateway has written.
func cmdAdminOf(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 1, "adminof VAR")
	m, err := stateOf(ts).gateway.awaitOutput(regexp.MustCompile(`Admin on http://(\S+)|"admin":"([^"]+)"`))
	ts.Check(err)
	ts.Setenv(args[0], "http://"+m[1]+m[2])
}

// headerOf returns the headers of a request, with one that a script gives.
func headerOf(args []string) http.Header {
	header := http.Header{"Content-Type": {"application/json"}}
	if len(args) == 1 {
		name, value, _ := strings.Cut(args[0], ": ")
		header.Set(name, value)
	}
	return header
}

func post(url string, header http.Header, body string) (*http.Response, error) {
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewBufferString(body))
	if err != nil {
		return nil, err
	}
	req.Header = header
	return http.DefaultClient.Do(req)
}

func printAnswer(ts *testscript.TestScript, resp *http.Response) {
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "status: %d\nupstream: %s\n%s\n", resp.StatusCode, resp.Header.Get("Antiphon-Upstream"), body)
}

func cmdPaste(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 1 && args[0] == "curl", "paste curl")
	_, line, found := strings.Cut(stateOf(ts).gateway.output(), "\n  curl ")
	line, _, _ = strings.Cut(line, "\n")
	parts := strings.Split(line, "'") // url -H 'header' -d 'body'
	if !found || len(parts) != 5 || !strings.HasSuffix(parts[0], " -H ") || parts[2] != " -d " {
		ts.Fatalf("no curl line that a shell would understand: %q", line)
	}
	name, value, _ := strings.Cut(parts[1], ": ")
	resp, err := post(strings.TrimSuffix(parts[0], " -H "), http.Header{name: {value}}, parts[3])
	ts.Check(err)
	printAnswer(ts, resp)
}

func cmdOpen(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 2 || len(args) == 3, "open URL BODY [HEADER]")
	resp, err := post(args[0], headerOf(args[2:]), args[1])
	ts.Check(err)
	ts.Defer(func() { resp.Body.Close() })
	stateOf(ts).stream = resp
	var got bytes.Buffer
	for !bytes.Contains(got.Bytes(), []byte("output_text.delta")) {
		if _, err := io.CopyN(&got, resp.Body, 1); err != nil {
			ts.Fatalf("the stream ended before its first text: %v\n%s", err, got.Bytes())
		}
	}
}

func cmdFinish(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 0, "finish")
	printAnswer(ts, stateOf(ts).stream)
}
