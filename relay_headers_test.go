package antiphon_test

import (
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/native"
)

// TestRelayedHeaders: an upstream's headers reach the client, but those about its
// connection to the gateway; what the gateway says itself, such as how the client's
// key stands, no upstream can say otherwise (R30, R35).
func TestRelayedHeaders(t *testing.T) {
	t.Parallel()
	_, address := startTarget(t, func(*fakeupstream.Exchange) fakeupstream.Reply {
		reply := fakeupstream.JSON(200, `{"status":"completed"}`)
		reply.Header = http.Header{
			"X-Own": {"1", "2"}, "Vary": {"Accept"}, "Connection": {"X-Hop"}, "X-Hop": {"1"}, "Proxy-Authenticate": {"Basic"}, "X-Request-Id": {"theirs"},
			"Access-Control-Allow-Origin": {"*"}, "X-Ratelimit-Limit-Requests": {"9999"}, "X-Ratelimit-Remaining-Requests": {"9998"}, "Antiphon-Upstream": {"theirs"},
		}
		return reply
	})
	base, err := url.Parse(address + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	client := upstream.NewClient()
	t.Cleanup(client.CloseIdleConnections)
	const key = "key-0123456789abcdef"
	g := serveGateway(t, &antiphon.Options{
		Drivers: map[string]upstream.Driver{"acme": native.New(upstream.Endpoint{Base: base, Client: client}, nil)},
		Models:  map[string]antiphon.Model{"*": antiphon.ModelAt("acme", "")},
		Keys:    []antiphon.Key{{Name: "k", SHA256: sha256.Sum256([]byte(key)), Limits: antiphon.KeyLimits{RequestsPerMinute: 60_000}}},
	})
	for _, path := range []string{"/v1/responses", "/v1/chat/completions", "/v1/things"} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", g.URL+path, strings.NewReader(`{"model":"m","input":"x","store":false}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Content-Type", "application/json")
		resp, err := g.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("X-Request-Id"), "req_") || resp.Header.Get("X-Ratelimit-Remaining-Requests") == "9998" {
			t.Errorf("%s: %d %v", path, resp.StatusCode, resp.Header)
		}
		want := http.Header{
			"X-Own": {"1", "2"}, "Vary": {"Origin", "Accept"}, "X-Ratelimit-Limit-Requests": {"60000"}, "Antiphon-Upstream": {"acme"},
			"X-Hop": nil, "Proxy-Authenticate": nil, "Access-Control-Allow-Origin": nil,
		}
		got := http.Header{}
		for name := range want {
			got[name] = resp.Header[name]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}
