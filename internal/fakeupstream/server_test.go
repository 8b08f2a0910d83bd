package fakeupstream_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/google/go-cmp/cmp"
)

func TestReplyIsSentAsItIs(t *testing.T) {
	t.Parallel()
	type answer struct {
		Status int
		Type   string
		Extra  string
		Length int64
		Body   string
	}
	for name, tt := range map[string]struct {
		reply fakeupstream.Reply
		want  answer
	}{
		"zero":   {fakeupstream.Reply{}, answer{Status: 200, Type: "application/json"}},
		"json":   {fakeupstream.JSON(418, `{"a":1}`), answer{Status: 418, Type: "application/json", Length: 7, Body: `{"a":1}`}},
		"stream": {fakeupstream.SSE("data: 1\n\n"), answer{Status: 200, Type: "text/event-stream", Length: 9, Body: "data: 1\n\n"}},
		"header and type": {
			fakeupstream.Reply{Header: http.Header{"X-Extra": {"yes"}}, ContentType: "text/html", Body: []byte("<p>")},
			answer{Status: 200, Type: "text/html", Extra: "yes", Length: 3, Body: "<p>"},
		},
		"no body allowed": {fakeupstream.JSON(204, `{"a":1}`), answer{Status: 204, Type: "application/json"}},
		"written piece by piece": {
			fakeupstream.Reply{Stream: func(w *fakeupstream.Writer) error {
				_, err := io.WriteString(w, "ab")
				return errors.Join(err, second(io.WriteString(w, "cd")))
			}},
			answer{Status: 200, Type: "application/json", Length: -1, Body: "abcd"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv, url := serve(t, fakeupstream.Script(tt.reply))
			resp := get(t, url)
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			got := answer{resp.StatusCode, resp.Header.Get("Content-Type"), resp.Header.Get("X-Extra"), resp.ContentLength, string(body)}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			x := srv.Requests()[0]
			<-x.Done()
			if got, want := x.Written(), int64(len(tt.want.Body)); got != want {
				t.Errorf("Written() = %d, want %d", got, want)
			}
		})
	}
}

func TestRequestIsRecorded(t *testing.T) {
	t.Parallel()
	srv, url := serve(t, fakeupstream.Script(fakeupstream.Reply{}))
	req, err := http.NewRequest(http.MethodPut, url+"/v1/things?b=1&a=2", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Extra", "yes")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()

	got, err := srv.Await(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if got.Method != "PUT" || got.Path != "/v1/things" || got.Query != "b=1&a=2" || got.Header.Get("X-Extra") != "yes" || string(got.Body) != "hello" {
		t.Errorf("recorded %s %s ? %s, X-Extra %q, body %q", got.Method, got.Path, got.Query, got.Header.Get("X-Extra"), got.Body)
	}
}

func TestScriptRunsInOrderAndSaysWhenItEnds(t *testing.T) {
	t.Parallel()
	_, url := serve(t, fakeupstream.Script(fakeupstream.JSON(429, ""), fakeupstream.JSON(200, "")))
	for i, want := range []int{429, 200, 500, 500} {
		if got := get(t, url).StatusCode; got != want {
			t.Errorf("request %d: status %d, want %d", i, got, want)
		}
	}
}

func TestRecordingIsBounded(t *testing.T) {
	t.Parallel()
	srv := fakeupstream.NewServer(func(*fakeupstream.Exchange) fakeupstream.Reply { return fakeupstream.Reply{} })
	for range fakeupstream.MaxRecorded + 3 {
		srv.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}
	if got := len(srv.Requests()); got != fakeupstream.MaxRecorded {
		t.Errorf("kept %d exchanges, want %d", got, fakeupstream.MaxRecorded)
	}
	if _, err := srv.Await(t.Context(), 2); err == nil {
		t.Error("Await(2) found an exchange that should be forgotten")
	}
	x, err := srv.Await(t.Context(), 3)
	if err != nil || x != srv.Requests()[0] {
		t.Errorf("Await(3) = %v, %v, want the oldest exchange kept", x, err)
	}
}

func TestRecordingIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	srv := fakeupstream.NewServer(func(*fakeupstream.Exchange) fakeupstream.Reply { return fakeupstream.Reply{} })
	big := strings.Repeat("x", fakeupstream.MaxRequestBody/2+1)
	for range 3 {
		srv.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(big)))
	}
	if got := len(srv.Requests()); got != 1 {
		t.Errorf("kept %d bodies of %d bytes, want 1", got, len(big))
	}
}

func TestRequestBodyIsBounded(t *testing.T) {
	t.Parallel()
	srv := fakeupstream.NewServer(fakeupstream.Script(fakeupstream.Reply{}))
	rec := httptest.NewRecorder()
	srv.ServeHTTP(rec, httptest.NewRequest("POST", "/", io.LimitReader(zeros{}, fakeupstream.MaxRequestBody+1)))
	if rec.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d, want 413", rec.Code)
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	srv, url := serve(t, fakeupstream.Script(fakeupstream.JSON(200, ""), fakeupstream.JSON(200, "")))
	early := make(chan string, 1)
	go func() {
		x, err := srv.Await(t.Context(), 1)
		if err != nil {
			early <- err.Error()
			return
		}
		early <- x.Path
	}()
	get(t, url+"/first")
	get(t, url+"/second")
	if got := <-early; got != "/second" {
		t.Errorf("Await(1) gave %q, want /second", got)
	}

	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := srv.Await(ctx, 2); !errors.Is(err, cause) {
		t.Errorf("Await with a cancelled context: %v, want %v", err, cause)
	}
}

// serve answers on a loopback port until the test ends.
func serve(t *testing.T, answer func(*fakeupstream.Exchange) fakeupstream.Reply) (*fakeupstream.Server, string) {
	t.Helper()
	srv := fakeupstream.NewServer(answer)
	web := httptest.NewServer(srv)
	t.Cleanup(web.Close)
	t.Cleanup(srv.Close)
	return srv, web.URL
}

func get(t *testing.T, url string) *http.Response {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func second[A, B any](_ A, b B) B { return b }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestGoneIsNeverMissed: an exchange that ended because its client left says so,
// whoever noticed it first.
func TestGoneIsNeverMissed(t *testing.T) {
	t.Parallel()
	fake := fakeupstream.NewServer(func(*fakeupstream.Exchange) fakeupstream.Reply {
		return fakeupstream.Reply{Fault: fakeupstream.Fault{Kind: fakeupstream.StallFirst}}
	})
	web := httptest.NewServer(fake)
	defer web.Close()
	defer fake.Close()
	for i := range 300 {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, web.URL, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		left := make(chan struct{})
		go func() {
			defer close(left)
			if resp, err := web.Client().Do(req); err == nil {
				resp.Body.Close()
			}
		}()
		x, err := fake.Await(t.Context(), i)
		if err != nil {
			t.Fatal(err)
		}
		<-x.Stalled()
		cancel()
		<-x.Done()
		<-left
		select {
		case <-x.Gone():
		case <-time.After(time.Second):
			t.Fatalf("exchange %d is over, and its client's leaving was missed", i)
		}
	}
}
