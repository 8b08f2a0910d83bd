package mcptool_test

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/antiphon-dev/antiphon/internal/fakemcp"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/tool"
	"github.com/antiphon-dev/antiphon/tool/mcptool"
)

func TestMain(m *testing.M) {
	fakemcp.Main()
	var servers []goleak.Option
	for _, f := range fakemcp.ServerSide {
		servers = append(servers, goleak.IgnoreAnyFunction(f))
	}
	goleak.VerifyTestMain(m, servers...)
}

func never() *responses.MCPApproval { return &responses.MCPApproval{Mode: responses.ApprovalNever} }

// command is this test binary as a server.
func command(label string) mcptool.Server {
	return mcptool.Server{Label: label, Command: []string{os.Args[0]}, Env: map[string]string{fakemcp.Variable: "1"}, Approval: never()}
}

// overHTTP is a server that speaks HTTP.
func overHTTP(t *testing.T, label string) mcptool.Server {
	t.Helper()
	web := httptest.NewServer(fakemcp.Handler(nil))
	t.Cleanup(web.Close)
	return mcptool.Server{Label: label, URL: web.URL, Approval: never()}
}

func newExecutor(t *testing.T, opts *mcptool.Options) *mcptool.Executor {
	t.Helper()
	opts.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	e, err := mcptool.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func entry(t *testing.T, text string) responses.Tool {
	t.Helper()
	r, err := responses.DecodeRequest([]byte(`{"tools":[`+text+`]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.Tools[0]
}

func open(t *testing.T, e *mcptool.Executor, owner, text string) (*tool.Set, error) {
	t.Helper()
	ask := &tool.Ask{Owner: owner, Tool: entry(t, text), Param: "tools[0]"}
	if !e.Runs(ask.Tool) {
		t.Fatalf("%s is not run", text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return e.Open(ctx, ask)
}

func mustOpen(t *testing.T, e *mcptool.Executor, owner, text string) *tool.Set {
	t.Helper()
	set, err := open(t, e, owner, text)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func call(ctx context.Context, set *tool.Set, name, arguments string) (string, error) {
	res, err := set.Run(ctx, &tool.Call{Name: name, Arguments: jsontext.Value(arguments), MaxBytes: 1 << 20})
	if err != nil {
		return "", err
	}
	text := responses.TextOf(res.Content)
	if res.IsError {
		text = "failed: " + text
	}
	return text, nil
}

// TestServers uses a real server in both ways to reach one (R43, R63).
func TestServers(t *testing.T) {
	t.Parallel()
	for name, server := range map[string]func(t *testing.T) mcptool.Server{
		"command": func(*testing.T) mcptool.Server { return command("s") },
		"HTTP":    func(t *testing.T) mcptool.Server { return overHTTP(t, "s") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExecutor(t, &mcptool.Options{Servers: []mcptool.Server{server(t)}, MaxMessage: 1 << 20})
			set := mustOpen(t, e, "me", `{"type":"mcp","server_label":"s"}`)
			if set.Label != "s" || !set.Listed || len(set.Tools) != 9 {
				t.Fatalf("got %+v", set)
			}
			for _, tt := range []struct{ name, arguments, want string }{
				{"echo", `{"text":"hello"}`, "hello"},
				{"fail", `{"text":"no"}`, "failed: no"},
				{"nothing", `{}`, `error: protocol -32602 unknown tool "nothing"`},
				{"huge", `{"bytes":1000}`, strings.Repeat("x", 1000)},
				{"huge", `{"bytes":5000000}`, "error: "},
				{"echo", `{"text":"still there"}`, "still there"},
			} {
				got, err := call(t.Context(), set, tt.name, tt.arguments)
				if e, ok := errors.AsType[*tool.Error](err); ok && e.Protocol && e.Code != 0 {
					got = fmt.Sprintf("error: protocol %d %s", e.Code, e.Message)
				} else if err != nil {
					got = "error: "
				}
				if got != tt.want {
					t.Errorf("%s(%s): got %.200q, want %.200q", tt.name, tt.arguments, got, tt.want)
				}
			}
			res, err := set.Run(t.Context(), &tool.Call{Name: "image"})
			if err != nil || len(res.Content) != 2 {
				t.Fatalf("an image: %v, %v", res, err)
			}
			if img, ok := res.Content[1].(*responses.InputImage); !ok || !strings.HasPrefix(img.ImageURL, "data:image/png;base64,") {
				t.Errorf("an image: got %v", res.Content[1])
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, errors.New("too slow"))
			defer cancel()
			if _, err := call(ctx, set, "never", `{}`); err == nil || err.Error() != "too slow" {
				t.Errorf("a tool that never ends: %v", err)
			}
			if got, err := call(t.Context(), set, "echo", `{"text":"after"}`); got != "after" {
				t.Errorf("after a tool that never ends: %q, %v", got, err)
			}
		})
	}
}

// TestOffers: the operator's limits hold, and a request can only tighten them
// (R43, R45).
func TestOffers(t *testing.T) {
	t.Parallel()
	some := overHTTP(t, "some")
	some.AllowedTools, some.Approval = []string{"echo", "fail", "slow"}, nil
	open1 := overHTTP(t, "open")
	open1.StandsFor = []string{"file_search"}
	picky := overHTTP(t, "picky")
	picky.Approval = &responses.MCPApproval{Never: &responses.MCPFilter{ToolNames: []string{"echo"}}}
	e := newExecutor(t, &mcptool.Options{Servers: []mcptool.Server{some, open1, picky}})
	for text, want := range map[string]string{
		`{"type":"mcp","server_label":"some"}`:                                                                                          "echo! fail! slow!",
		`{"type":"mcp","server_label":"some","require_approval":"never"}`:                                                               "echo! fail! slow!",
		`{"type":"mcp","server_label":"some","allowed_tools":["fail","die"]}`:                                                           "fail!",
		`{"type":"mcp","server_label":"some","allowed_tools":[]}`:                                                                       "",
		`{"type":"mcp","server_label":"open","allowed_tools":["echo","fail"]}`:                                                          "echo fail",
		`{"type":"mcp","server_label":"open","allowed_tools":{"read_only":false}}`:                                                      "die fail spawn",
		`{"type":"mcp","server_label":"open","allowed_tools":["echo","fail"],"require_approval":"always"}`:                              "echo! fail!",
		`{"type":"mcp","server_label":"open","allowed_tools":["echo","fail"],"require_approval":{"never":{"tool_names":["fail"]}}}`:     "echo! fail",
		`{"type":"mcp","server_label":"picky","allowed_tools":["echo","fail"]}`:                                                         "echo fail!",
		`{"type":"mcp","server_label":"picky","allowed_tools":["echo","fail"],"require_approval":{"always":["echo"],"never":["fail"]}}`: "echo! fail!",
		`{"type":"file_search"}`: "die echo environment fail huge image never slow spawn",
	} {
		var got []string
		for _, offered := range mustOpen(t, e, "me", text).Tools {
			name := offered.Name
			if offered.Approval {
				name += "!"
			}
			got = append(got, name)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got)\n%s", text, diff)
		}
	}
	for _, text := range []string{
		`{"type":"mcp","server_label":"other"}`,
		`{"type":"mcp","server_label":"some","server_url":"https://x.example"}`,
		`{"type":"mcp","server_label":"some","connector_id":"connector_gmail"}`,
		`{"type":"function","name":"some"}`,
		`{"type":"web_search"}`,
	} {
		if e.Runs(entry(t, text)) {
			t.Errorf("%s is run", text)
		}
	}
}

// TestRequestedServers: a server that a request names is reached through the
// guard, and gets the headers that the request has for it (R43).
func TestRequestedServers(t *testing.T) {
	t.Parallel()
	var secrets atomic.Int64
	handler := fakemcp.Handler(nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") == "k" && r.Header.Get("Authorization") == "Bearer token" {
			secrets.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	defer web.Close()
	ask := `{"type":"mcp","server_label":"mine","server_url":"` + web.URL + `","headers":{"x-key":"k"},"authorization":"token"}`
	guarded := newExecutor(t, &mcptool.Options{Requests: true})
	_, err := open(t, guarded, "me", ask)
	if e := responses.AsError(err); e == nil || e.Param != "tools[0].server_url" || e.Origin != responses.OriginClient {
		t.Errorf("loopback: got %v, want a refusal of the URL", err)
	}
	if secrets.Load() != 0 {
		t.Error("the server was reached")
	}
	e := newExecutor(t, &mcptool.Options{Requests: true, Allow: []string{strings.TrimPrefix(web.URL, "http://")}})
	set := mustOpen(t, e, "me", ask)
	if got, err := call(t.Context(), set, "echo", `{"text":"hi"}`); got != "hi" || secrets.Load() == 0 {
		t.Errorf("got %q, %v after %d requests with the secrets", got, err, secrets.Load())
	}
	if !set.Tools[0].Approval {
		t.Error("what a request does not say needs approval")
	}
	for header, param := range map[string]string{
		`"headers":{"Host":"x"}`:           "tools[0].headers",
		`"headers":{"Mcp-Session-Id":"x"}`: "tools[0].headers",
		`"headers":{"a b":"x"}`:            "tools[0].headers",
		`"headers":{"A":"x\r\nEvil: y"}`:   "tools[0].headers",
		`"authorization":"x\r\nEvil: y"`:   "tools[0].authorization",
	} {
		_, err := open(t, e, "me", `{"type":"mcp","server_label":"mine","server_url":"`+web.URL+`",`+header+`}`)
		if e := responses.AsError(err); e == nil || e.Param != param {
			t.Errorf("%s: got %v", header, err)
		}
	}
}

// TestDeath: a command that ends during a call fails that call, and is started
// again for the next.
func TestDeath(t *testing.T) {
	t.Parallel()
	e := newExecutor(t, &mcptool.Options{Servers: []mcptool.Server{command("s")}})
	set := mustOpen(t, e, "me", `{"type":"mcp","server_label":"s"}`)
	if _, err := call(t.Context(), set, "die", `{}`); err == nil || !strings.Contains(err.Error(), "ended the connection") {
		t.Errorf("got %v", err)
	}
	if got, err := call(t.Context(), set, "echo", `{"text":"again"}`); got != "again" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestCommands: a command gets no secret of the gateway, no shell, and leaves no
// process behind.
func TestCommands(t *testing.T) {
	t.Setenv("GATEWAY_SECRET", "s3cret")
	e := newExecutor(t, &mcptool.Options{Servers: []mcptool.Server{
		command("s"),
		{Label: "shell", Command: []string{"echo hello; true"}},
		{Label: "gone", Command: []string{"/no/such/file"}},
		{Label: "silent", Command: []string{"sleep", "600"}},
	}})
	set := mustOpen(t, e, "me", `{"type":"mcp","server_label":"s"}`)
	names, err := call(t.Context(), set, "environment", `{}`)
	if err != nil || strings.Contains(names, "SECRET") || !strings.Contains(names, "PATH") || !strings.Contains(names, fakemcp.Variable) {
		t.Errorf("the environment is %q, %v", names, err)
	}
	text, err := call(t.Context(), set, "spawn", `{}`)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, label := range []string{"shell", "gone"} {
		if _, err := open(t, e, "me", `{"type":"mcp","server_label":"`+label+`"}`); err == nil || !strings.Contains(err.Error(), "could not be started") {
			t.Errorf("%s: got %v", label, err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, errors.New("too slow"))
	defer cancel()
	if _, err := e.Open(ctx, &tool.Ask{Owner: "me", Tool: entry(t, `{"type":"mcp","server_label":"silent"}`)}); err == nil || err.Error() != "too slow" {
		t.Errorf("a command that says nothing: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if syscall.Kill(pid, 0) != nil || zombie(pid) {
			return
		}
		time.Sleep(20 * time.Millisecond) // the kernel takes its time
	}
	t.Errorf("the process %d that the server started is still there", pid)
}

// zombie reports whether a process has ended and only waits to be noticed by its
// parent, which in a container may be nobody.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z")
}

// TestSessions: one for each owner, as many as are allowed, none for longer than
// it is used, and a list is asked for once.
func TestSessions(t *testing.T) {
	t.Parallel()
	var connects, lists atomic.Int64
	busy := make(chan struct{}, 2)
	handler := fakemcp.Handler(func(string) { busy <- struct{}{} })
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), `"initialize"`), strings.Contains(string(body), `"server/discover"`):
			connects.Add(1)
		case strings.Contains(string(body), `"tools/list"`):
			lists.Add(1)
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		handler.ServeHTTP(w, r)
	}))
	defer web.Close()
	e := newExecutor(t, &mcptool.Options{
		Servers: []mcptool.Server{{Label: "s", URL: web.URL, Approval: never()}}, MaxSessions: 2, IdleTime: 50 * time.Millisecond,
	})
	ask := `{"type":"mcp","server_label":"s"}`
	kept := newExecutor(t, &mcptool.Options{Servers: []mcptool.Server{{Label: "s", URL: web.URL, Approval: never()}}})
	mustOpen(t, kept, "a", ask)
	each := connects.Load()
	mustOpen(t, kept, "a", ask)
	if connects.Load() != each || lists.Load() != 1 {
		t.Errorf("a second response of an owner: connected %d times, listed %d times", connects.Load()/each, lists.Load())
	}
	mustOpen(t, kept, "b", ask)
	if connects.Load() != 2*each {
		t.Errorf("another owner: connected %d times in all", connects.Load()/each)
	}
	// Both in use: no room for a third.
	done := make(chan error, 2)
	b := mustOpen(t, e, "b", ask)
	for _, set := range []*tool.Set{mustOpen(t, e, "a", ask), b} {
		go func() {
			_, err := call(t.Context(), set, "slow", `{"text":"x","delay":"500ms"}`)
			done <- err
		}()
		<-busy
	}
	time.Sleep(100 * time.Millisecond) // longer than a session is kept that is not in use
	if _, err := open(t, e, "c", ask); err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("a third owner: got %v", err)
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Errorf("a session that was in use: %v", err)
		}
	}
	before := connects.Load()
	for began := time.Now(); connects.Load() == before; time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("a session that nobody used was kept")
		}
		mustOpen(t, e, "a", ask)
	}
}

func TestRefusedServers(t *testing.T) {
	t.Parallel()
	ok := mcptool.Server{Label: "s", URL: "https://x.example/mcp", StandsFor: []string{"x"}}
	for want, list := range map[string][]mcptool.Server{
		"two of that label":         {ok, ok},
		"either a command or a URL": {{Label: "s"}},
		"either a command or a":     {{Label: "s", URL: "https://x.example", Command: []string{"x"}}},
		"must begin with http":      {{Label: "s", URL: "file:///x"}},
		`stands for x, as "s" does`: {ok, {Label: "t", URL: "https://x.example/mcp", StandsFor: []string{"x"}}},
	} {
		if _, err := mcptool.New(&mcptool.Options{Servers: list}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := mcptool.New(&mcptool.Options{Allow: []string{"0x7f.1"}}); err == nil {
		t.Error("an odd address is allowed")
	}
}

// TestLargeLists: all that a server says of its tools is kept for a while, and
// counts (R43).
func TestLargeLists(t *testing.T) {
	t.Parallel()
	s := mcp.NewServer(&mcp.Implementation{Name: "large", Version: "1"}, nil)
	s.AddTool(&mcp.Tool{Name: "t", InputSchema: map[string]any{"type": "object"}, Meta: mcp.Meta{"long": strings.Repeat("x", 3<<20)}},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, errors.New("not called")
		})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	defer web.Close()
	e := newExecutor(t, &mcptool.Options{Servers: []mcptool.Server{{Label: "large", URL: web.URL}}})
	if _, err := open(t, e, "me", `{"type":"mcp","server_label":"large"}`); err == nil || !strings.Contains(err.Error(), "bytes of them") {
		t.Errorf("got %v", err)
	}
}
