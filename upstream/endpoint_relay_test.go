package upstream_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/antiphon-dev/antiphon/upstream"
)

// TestEndpointRelay: a passage goes below the base, whatever that looks like, with
// the queries of both.
func TestEndpointRelay(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		io.WriteString(w, r.Method+" "+r.RequestURI+" "+string(body))
	}))
	t.Cleanup(srv.Close)
	client := upstream.NewClient()
	t.Cleanup(client.CloseIdleConnections)
	for base, want := range map[string]string{
		"":           "POST /responses?b=2 {}",
		"/":          "POST /responses?b=2 {}",
		"/v1":        "POST /v1/responses?b=2 {}",
		"/v1/":       "POST /v1/responses?b=2 {}",
		"/a%2Fb?c=1": "POST /a%2Fb/responses?c=1&b=2 {}",
	} {
		u, err := url.Parse(srv.URL + base)
		if err != nil {
			t.Fatal(err)
		}
		e := upstream.Endpoint{Base: u, Client: client}
		resp, err := e.Relay(t.Context(), &upstream.Passage{Method: "POST", Path: "responses", Query: "b=2", Body: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(got) != want {
			t.Errorf("below %q: got %s, want %s", base, got, want)
		}
	}
}
