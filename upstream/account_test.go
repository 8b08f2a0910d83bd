package upstream_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// TestRelayPaths: whatever form the base has, what is sent is a path.
func TestRelayPaths(t *testing.T) {
	t.Parallel()
	var got string
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI })
	host := endpoint(t, s.URL)
	for base, want := range map[*url.URL]string{
		host.Base:                              "/responses?a=b",
		host.Base.JoinPath("v1"):               "/v1/responses?a=b",
		host.Base.JoinPath("/v1/"):             "/v1/responses?a=b",
		host.Base.JoinPath("v1").JoinPath("x"): "/v1/x/responses?a=b",
	} {
		e := *host
		e.Base = base
		resp, err := e.Relay(t.Context(), &upstream.Passage{Method: http.MethodGet, Path: "responses", Query: "a=b"})
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || got != want {
			t.Errorf("%s: status %d, path %s", base, resp.StatusCode, got)
		}
	}
}

// TestAccounts: what is relayed uses one of an upstream's accounts, says which, and
// can ask for it; the name of one tells nothing of its key (R40).
func TestAccounts(t *testing.T) {
	t.Parallel()
	var got string
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") })
	e := endpoint(t, s.URL+"/v1")
	for _, key := range []string{"key-a", "key-b", "key-c"} {
		e.Accounts = append(e.Accounts, upstream.NewAccount(key, upstream.BearerAuth(key)))
	}
	send := func(account string) (string, error) {
		p := &upstream.Passage{Method: http.MethodGet, Path: "responses", Account: account}
		resp, err := e.Relay(t.Context(), p)
		if err == nil {
			resp.Body.Close()
		}
		return p.Account, err
	}
	keys := map[string]string{}
	for range 100 {
		name, err := send("")
		if err != nil {
			t.Fatal(err)
		}
		if keys[name] != "" && keys[name] != got {
			t.Fatalf("%s is %s and %s", name, keys[name], got)
		}
		keys[name] = got
	}
	if len(keys) != 3 {
		t.Errorf("used %v", keys)
	}
	for name, key := range keys {
		for range 5 {
			if again, err := send(name); err != nil || again != name || got != key {
				t.Errorf("asked for %s (%s): %v, used %s (%s)", name, key, err, again, got)
			}
		}
	}
	got = ""
	if _, err := send("0123456789abcdef"); responses.AsError(err).Code != responses.CodeNotFound || got != "" {
		t.Errorf("an account that is gone: %v, sent %q", err, got)
	}
}
