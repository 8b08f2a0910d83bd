package fakeupstream_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
)

// protocols are the ways to ask the model.
var protocols = map[string]struct {
	path string
	body func(a ask, stream bool) object
}{
	"chat":      {chatPath, chatBody},
	"responses": {responsesPath, responsesBody},
}

// everyWay runs a test for each protocol, streamed and whole.
func everyWay(t *testing.T, test func(t *testing.T, path string, body func(ask) string, streamed bool)) {
	t.Helper()
	for name, protocol := range protocols {
		for mode, streamed := range map[string]bool{"streamed": true, "whole": false} {
			t.Run(name+" "+mode, func(t *testing.T) {
				t.Parallel()
				test(t, protocol.path, func(a ask) string { return protocol.body(a, streamed).String() }, streamed)
			})
		}
	}
}

func TestDirectivesOfTheHead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text       string
		status     int
		code       string // in the error body
		retryAfter string
		mediaType  string
	}{
		"status 500":   {text: "[[status 500]]", status: 500, code: "server_error"},
		"status 503":   {text: "[[status 503]]", status: 503, code: "server_is_overloaded"},
		"status 401":   {text: "[[status 401]]", status: 401, code: "invalid_api_key"},
		"status 404":   {text: "[[Status 404]]", status: 404, code: "model_not_found"},
		"status 429":   {text: "go [[status 429]] on [[retry-after 2]]", status: 429, code: "rate_limit_exceeded", retryAfter: "2"},
		"status 418":   {text: "[[status 418]]", status: 418},
		"content type": {text: "[[type text/html]]", status: 200, mediaType: "text/html"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everyWay(t, func(t *testing.T, path string, body func(ask) string, streamed bool) {
				got := send(t, nil, "POST", path, body(ask{text: tt.text}))
				if got.status != tt.status {
					t.Errorf("status %d, want %d", got.status, tt.status)
				}
				if got := got.header.Get("Retry-After"); got != tt.retryAfter {
					t.Errorf("Retry-After %q, want %q", got, tt.retryAfter)
				}
				if tt.mediaType != "" && got.header.Get("Content-Type") != tt.mediaType {
					t.Errorf("Content-Type %q, want %q", got.header.Get("Content-Type"), tt.mediaType)
				}
				if tt.status != 200 && got.header.Get("Content-Type") != "application/json" {
					t.Errorf("Content-Type %q of an error", got.header.Get("Content-Type"))
				}
				if tt.code != "" && !strings.Contains(got.body, `"code":"`+tt.code+`"`) {
					t.Errorf("error body %s, want code %s", got.body, tt.code)
				}
			})
		})
	}
}

func TestErrorOfAWholeAnswerIsAStatus(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, path string, body func(ask) string, streamed bool) {
		want := map[bool]int{true: 200, false: 500}[streamed]
		if got := send(t, nil, "POST", path, body(ask{text: "hi [[error]]"})); got.status != want || got.err != nil {
			t.Errorf("status %d, %v; want %d", got.status, got.err, want)
		}
	})
}

func TestCutDirectives(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, path string, body func(ask) string, streamed bool) {
		got := send(t, nil, "POST", path, body(ask{text: "one two [[cut 100]]"}))
		if len(got.body) != 100 || !errors.Is(got.err, io.ErrUnexpectedEOF) {
			t.Errorf("cut 100: %d bytes, %v", len(got.body), got.err)
		}
		got = send(t, nil, "POST", path, body(ask{text: "one two [[cut]]"}))
		if got.body == "" || !errors.Is(got.err, io.ErrUnexpectedEOF) || strings.HasSuffix(got.body, "\n\n") {
			t.Errorf("cut: %q, %v", got.body, got.err)
		}
	})
}

func TestBytesDirectiveChangesOnlyTheWrites(t *testing.T) {
	t.Parallel()
	opts := &fakeupstream.ModelOptions{Now: clock, ID: func() string { return "1" }}
	everyWay(t, func(t *testing.T, path string, body func(ask) string, streamed bool) {
		// The words of the directive count as input, so they stay the same.
		slow := send(t, opts, "POST", path, body(ask{text: "hi [[bytes 1]]"}))
		fast := send(t, opts, "POST", path, body(ask{text: "hi [[bytes 9999]]"}))
		if slow.body != fast.body || slow.err != nil || len(slow.body) == 0 {
			t.Errorf("got %q, %v; want %q", slow.body, slow.err, fast.body)
		}
	})
}

func TestStallDirectivesLastUntilTheClientLeaves(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"hi [[stall]]", "hi [[stall-first]]"} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			everyWay(t, func(t *testing.T, path string, body func(ask) string, streamed bool) {
				srv, url := serve(t, fakeupstream.NewModel(nil).Answer)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				left := make(chan struct{})
				go func() {
					defer close(left)
					req, err := http.NewRequestWithContext(ctx, "POST", url+path, strings.NewReader(body(ask{text: text})))
					if err != nil {
						return
					}
					if resp, err := http.DefaultClient.Do(req); err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}()
				x, err := srv.Await(t.Context(), 0)
				if err != nil {
					t.Fatal(err)
				}
				<-x.Stalled()
				if got, want := x.Written() > 0, !strings.Contains(text, "first"); got != want {
					t.Errorf("stalled after %d bytes", x.Written())
				}
				cancel()
				<-x.Gone()
				<-left
			})
		})
	}
}

func TestDelayIsBetweenTokens(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text  string
		delay time.Duration // of the model
		want  time.Duration
	}{
		"none":          {"count to 5", 0, 0},
		"of the model":  {"count to 5", time.Second, 4 * time.Second},
		"of the prompt": {"count to 5 [[delay 3s]]", time.Second, 12 * time.Second},
		"bounded":       {"count to 2 [[delay 1000h]]", 0, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everyWay(t, func(t *testing.T, path string, body func(ask) string, streamed bool) {
				synctest.Test(t, func(t *testing.T) {
					model := fakeupstream.NewModel(&fakeupstream.ModelOptions{Delay: tt.delay})
					conn := pipeTo(t, fakeupstream.NewServer(model.Answer))
					request, err := http.NewRequest("POST", "http://fake"+path, strings.NewReader(body(ask{text: tt.text})))
					if err != nil {
						t.Fatal(err)
					}
					request.Close = true
					start := time.Now()
					go func() { _ = request.Write(conn) }()
					if _, err := io.Copy(io.Discard, conn); err != nil {
						t.Fatal(err)
					}
					if got := time.Since(start); got != tt.want {
						t.Errorf("took %v, want %v", got, tt.want)
					}
				})
			})
		})
	}
}
