package upstream_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// endpoint returns an endpoint below the given URL with a client of its own.
func endpoint(t *testing.T, base string) *upstream.Endpoint {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	c := upstream.NewClient()
	t.Cleanup(c.CloseIdleConnections)
	return &upstream.Endpoint{Base: u, Client: c}
}

// serve starts an HTTP server on loopback.
func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func TestEndpointPost(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.Method != http.MethodPost || r.URL.Path != "/v1/responses" || string(body) != `{"a":1}` {
			t.Errorf("got %s %s with %s", r.Method, r.URL.Path, body)
		}
		if r.Header.Get("Content-Type") != "application/json" || r.Header.Get("X-Own") != "1" || r.Header.Get("Authorization") != "Bearer key" {
			t.Errorf("got the header %v", r.Header)
		}
		io.WriteString(w, "{}")
	})
	e := endpoint(t, s.URL+"/v1")
	e.Auth, e.Header = upstream.BearerAuth("key"), http.Header{"X-Own": {"1"}}
	resp, err := e.Post(t.Context(), "responses", []byte(`{"a":1}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

func TestEndpointGet(t *testing.T) {
	t.Parallel()
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/v1/models" || r.Header.Get("Authorization") != "" {
			t.Errorf("got %s %s with %v", r.Method, r.URL.Path, r.Header)
		}
	})
	e := endpoint(t, s.URL+"/v1/")
	e.Auth = upstream.BearerAuth("")
	resp, err := e.Get(t.Context(), "models")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
}

// TestRedirectsAreNotFollowed: they would carry the credential, and the user's
// words, to another place.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var followed atomic.Bool
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { followed.Store(true) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, status) })
		e := endpoint(t, s.URL)
		e.Auth = upstream.BearerAuth("key")
		_, err := e.Post(t.Context(), "responses", []byte(`{}`), nil)
		if got := responses.AsError(err); got == nil || got.Code != responses.CodeUpstream {
			t.Errorf("%d: got %v, want %s", status, err, responses.CodeUpstream)
		}
	}
	if followed.Load() {
		t.Error("a redirect was followed")
	}
}

func TestErrorAnswers(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusTooManyRequests)
		io.WriteString(w, `{"error":{"message":"Wait."}}`)
	})
	_, err := endpoint(t, s.URL).Post(t.Context(), "x", nil, nil)
	if e := responses.AsError(err); e == nil || e.Code != responses.CodeRateLimit || e.Message != "Wait." || e.RetryAfter.Seconds() != 3 {
		t.Errorf("got %+v", e)
	}

	// An error is read to a limit: an upstream that never ends one must not hold us.
	endless := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat("x", 4096)); err != nil {
				return
			}
		}
	})
	_, err = endpoint(t, endless.URL).Post(t.Context(), "x", nil, nil)
	if e := responses.AsError(err); e == nil || e.Code != responses.CodeUpstream {
		t.Errorf("got %v, want %s", err, responses.CodeUpstream)
	}
}

// TestSafeToRetry: only a turn that was not run may be run again.
func TestSafeToRetry(t *testing.T) {
	t.Parallel()
	answer := func(status int) func(t *testing.T) error {
		return func(t *testing.T) error {
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
			_, err := endpoint(t, s.URL).Post(t.Context(), "x", []byte("{}"), nil)
			return err
		}
	}
	tests := []struct {
		name string
		run  func(t *testing.T) error
		want bool
	}{
		{"nobody listens", func(t *testing.T) error {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
			_, err = endpoint(t, "http://"+l.Addr().String()).Post(t.Context(), "x", []byte("{}"), nil)
			return err
		}, true},
		{"503", answer(http.StatusServiceUnavailable), true},
		{"429", answer(http.StatusTooManyRequests), true},
		{"cut after the request was read", func(t *testing.T) error {
			s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				panic(http.ErrAbortHandler)
			})
			_, err := endpoint(t, s.URL).Post(t.Context(), "x", []byte("{}"), nil)
			return err
		}, false},
		{"the guard's time-out", func(*testing.T) error { return upstream.ErrFirstEvent }, false},
		{"cancelled", func(*testing.T) error { return context.Canceled }, false},
		{"nothing failed", func(*testing.T) error { return nil }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.run(t)
			if got := upstream.SafeToRetry(err); got != tt.want {
				t.Errorf("SafeToRetry(%v) = %t, want %t", err, got, tt.want)
			}
		})
	}
}

// TestCancelledPost: the reason of a cancelled call is the caller's own.
func TestCancelledPost(t *testing.T) {
	t.Parallel()
	gone := errors.New("the client is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // only then does the server notice that we are gone
		cancel(gone)
		<-r.Context().Done()
	})
	if _, err := endpoint(t, s.URL).Post(ctx, "x", []byte("{}"), nil); err != gone {
		t.Errorf("got %v, want %v", err, gone)
	}
}

// TestURLsStayPrivate: a URL may hold a credential, in its user, its path or its
// query. It must not be in what clients get, nor in what is logged.
func TestURLsStayPrivate(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	cut := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for name, host := range map[string]string{
		"refused":     l.Addr().String(),
		"error":       s.Listener.Addr().String(),
		"cut":         cut.Listener.Addr().String(),
		"not a port":  "127.0.0.1:99999",
		"odd request": s.Listener.Addr().String() + "/%00",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := endpoint(t, "http://user:sk-secret@"+host+"/sk-secret?key=sk-secret")
			_, err := e.Post(t.Context(), "responses", []byte("{}"), nil)
			if err == nil {
				t.Fatal("got no error")
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error shows the URL: %v", err)
			}
			if m := responses.AsError(err).Message; strings.Contains(m, "secret") || strings.Contains(m, "127.0.0.1") {
				t.Errorf("the message shows the URL: %s", m)
			}
		})
	}
}

func TestContentTypes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		contentType   string
		streams, json bool
	}{
		{"text/event-stream", true, false},
		{"text/event-stream; charset=utf-8", true, false},
		{"Text/Event-Stream", true, false},
		{"application/json", false, true},
		{"application/json; charset=utf-8", false, true},
		{"", false, true},
		{"text/html; charset=utf-8", false, false},
		{"text/plain", false, false},
	}
	for _, tt := range tests {
		t.Run(tt.contentType, func(t *testing.T) {
			t.Parallel()
			resp := &http.Response{Header: http.Header{"Content-Type": {tt.contentType}}}
			if got := upstream.Streams(resp); got != tt.streams {
				t.Errorf("Streams = %t, want %t", got, tt.streams)
			}
			err := upstream.CheckJSON(resp)
			if (err == nil) != tt.json {
				t.Errorf("CheckJSON = %v, want it accepted: %t", err, tt.json)
			}
			if e := responses.AsError(err); e != nil && (e.Code != responses.CodeUpstream || e.Origin != responses.OriginUpstream) {
				t.Errorf("CheckJSON = %v, want %s of the upstream", err, responses.CodeUpstream)
			}
		})
	}
}
