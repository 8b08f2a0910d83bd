package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// asCommand makes the test binary be the command.
const asCommand = "FAKEUPSTREAM_TEST_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestSignalEndsTheCommandCleanly(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			command := exec.CommandContext(t.Context(), os.Args[0], "--listen", "127.0.0.1:0")
			command.Env = append(os.Environ(), asCommand+"=1")
			command.Stderr = os.Stderr
			stdout, err := command.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			url := greeted(t, stdout)
			// A stream that would never end by itself.
			resp := post(t, url+"/v1/responses", `{"model":"tiny","stream":true,"input":"hi [[stall]]"}`)
			if err := command.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("the stream ended with %v, want %v", err, io.ErrUnexpectedEOF)
			}
			if err := command.Wait(); err != nil {
				t.Errorf("exit: %v", err)
			}
		})
	}
}

func TestProtocolFlag(t *testing.T) {
	t.Parallel()
	for protocol, want := range map[string]struct{ chat, responses int }{
		"chat":      {200, 404},
		"responses": {404, 200},
		"both":      {200, 200},
	} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			ctx, stop := context.WithCancel(t.Context())
			out, in := io.Pipe()
			code := make(chan int, 1)
			go func() {
				code <- run(ctx, []string{"--listen", "127.0.0.1:0", "--protocol", protocol, "--delay", "1ms"}, in, io.Discard)
			}()
			url := greeted(t, out)
			if got := post(t, url+"/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"hi"}]}`).StatusCode; got != want.chat {
				t.Errorf("chat: status %d, want %d", got, want.chat)
			}
			if got := post(t, url+"/v1/responses", `{"model":"tiny","input":"hi"}`).StatusCode; got != want.responses {
				t.Errorf("responses: status %d, want %d", got, want.responses)
			}
			stop()
			if got := <-code; got != 0 {
				t.Errorf("exit code %d, want 0", got)
			}
		})
	}
}

func TestWrongCommandLine(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	for name, tt := range map[string]struct {
		args []string
		code int
		says string
	}{
		"help":             {[]string{"--help"}, 0, "-listen"},
		"unknown flag":     {[]string{"--port", "1"}, 2, "-port"},
		"unknown protocol": {[]string{"--protocol", "messages"}, 2, `"messages"`},
		"argument":         {[]string{"serve"}, 2, `"serve"`},
		"negative delay":   {[]string{"--delay", "-1s"}, 2, "-1s"},
		"address in use":   {[]string{"--listen", taken.Addr().String()}, 1, "address already in use"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			if got := run(t.Context(), tt.args, io.Discard, &stderr); got != tt.code || !strings.Contains(stderr.String(), tt.says) {
				t.Errorf("exit code %d, stderr %q; want %d and %q", got, stderr.String(), tt.code, tt.says)
			}
		})
	}
}

// greeted reads the greeting and returns the address in it.
func greeted(t *testing.T, stdout io.Reader) string {
	t.Helper()
	lines := bufio.NewScanner(stdout)
	lines.Scan()
	url, ok := strings.CutPrefix(lines.Text(), "fakeupstream listens on ")
	if !ok {
		t.Fatalf("first line %q, %v", lines.Text(), lines.Err())
	}
	lines.Scan()
	if !strings.HasPrefix(lines.Text(), "curl "+url+"/v1/") {
		t.Errorf("second line %q", lines.Text())
	}
	return url
}

func post(t *testing.T, url, body string) *http.Response {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}
