package upstream_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/upstream"
)

// TestErrorAnswersAreRedacted: what the gateway itself sent, its key and its own
// headers, is taken out of answers that are errors, in headers and bodies, also if
// they are relayed; the rest of them, the client's words and answers that are no
// errors pass as they are (R33).
func TestErrorAnswersAreRedacted(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said := r.Header.Get("Authorization") + " | " + r.Header.Get("X-Team") + " | " + r.Header.Get("User-Agent")
		w.Header().Set("X-Echo", said)
		status := http.StatusOK
		if r.URL.Query().Has("fail") {
			status = http.StatusUnauthorized
		}
		w.WriteHeader(status)
		io.WriteString(w, said+strings.Repeat(".", 100_000))
	}))
	t.Cleanup(srv.Close)
	client := upstream.NewClient()
	t.Cleanup(client.CloseIdleConnections)
	base, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	e := upstream.Endpoint{Base: base, Client: client, Auth: upstream.BearerAuth("sk-own-key"), Header: http.Header{"X-Team": {"team-secret"}}}
	ask := func(query string) (header, body string) {
		resp, err := e.Relay(t.Context(), &upstream.Passage{
			Method: "POST", Path: "responses", Query: query, Header: http.Header{"User-Agent": {"acme-agent/1"}}, Body: []byte("{}"),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Header.Get("X-Echo"), string(got)
	}
	dots := strings.Repeat(".", 100_000)
	const open, shut = "Bearer sk-own-key | team-secret | acme-agent/1", "[redacted] | [redacted] | acme-agent/1"
	if header, body := ask("fail"); header != shut || body != shut+dots {
		t.Errorf("an error: got %q and %d bytes, %.80q", header, len(body), body)
	}
	if header, body := ask(""); header != open || body != open+dots {
		t.Errorf("a success was changed: %q, %.80q", header, body)
	}
}
