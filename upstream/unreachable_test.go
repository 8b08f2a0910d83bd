package upstream_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/antiphon-dev/antiphon/upstream"
)

// TestUnreachable: an upstream that gives no answer is told apart from one that
// answers with an error, and only a failed dial may be tried again (R32, R35).
func TestUnreachable(t *testing.T) {
	t.Parallel()
	down := httptest.NewServer(nil)
	down.Close()
	cuts := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(cuts.Close)
	fails := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	t.Cleanup(fails.Close)
	for _, tt := range []struct {
		name, base         string
		unreachable, retry bool
	}{
		{"nothing listens", down.URL, true, true},
		{"the connection is cut", cuts.URL, true, false},
		{"an error is answered", fails.URL, false, true},
	} {
		base, err := url.Parse(tt.base)
		if err != nil {
			t.Fatal(err)
		}
		e := upstream.Endpoint{Base: base, Client: upstream.NewClient()}
		t.Cleanup(e.Client.CloseIdleConnections)
		_, err = e.Post(t.Context(), "responses", []byte("{}"), nil)
		if got := errors.Is(err, upstream.ErrUnreachable); got != tt.unreachable {
			t.Errorf("%s: unreachable is %v: %v", tt.name, got, err)
		}
		if got := upstream.SafeToRetry(err); got != tt.retry {
			t.Errorf("%s: safe to retry is %v: %v", tt.name, got, err)
		}
	}
}
