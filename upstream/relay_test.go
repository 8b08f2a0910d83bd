package upstream_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/upstream"
)

// TestRelayBelowAHost: a base that is only a host, with or without a path that was
// joined to it, gives paths that begin with a slash (R30).
func TestRelayBelowAHost(t *testing.T) {
	t.Parallel()
	paths := make(chan string, 1)
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { paths <- r.URL.Path })
	for _, tt := range []struct {
		join, want string
	}{{"", "/responses"}, {"v1", "/v1/responses"}} {
		e := endpoint(t, s.URL)
		if tt.join != "" {
			e.Base = e.Base.JoinPath(tt.join)
		}
		resp, err := e.Relay(t.Context(), &upstream.Passage{Method: http.MethodPost, Path: "responses", Body: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("below %q: %s", e.Base, resp.Status)
		}
		if got := <-paths; got != tt.want {
			t.Errorf("below %q: %s, want %s", e.Base, got, tt.want)
		}
	}
}

// FuzzPlainPath: a path that passes stays below the base, segment by segment as it
// was written.
func FuzzPlainPath(f *testing.F) {
	for _, seed := range []string{
		"/v1/files", "a/../b", "/..", "/%2e%2e/x", "//x", "/a;b", `/a\b`, "/a?b", "/a#b", "/a b", "/ü", "/files/file-1/content", "/ft:gpt-4o:acme::1",
		"/http://evil.test", "/a/...", "/@evil.test", "/:80",
	} {
		f.Add(seed)
	}
	base, err := url.Parse("https://up.test/deep/v1")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, escaped string) {
		path, ok := upstream.PlainPath(escaped)
		if !ok {
			return
		}
		joined := base.JoinPath(path)
		if got := joined.String(); got != "https://up.test/deep/v1/"+path || joined.Host != base.Host || joined.EscapedPath() != "/deep/v1/"+path {
			t.Errorf("%q became %s", escaped, got)
		}
		if strings.ContainsAny(path, "%\\;?# \x00") || strings.Contains(path, "..") && strings.Contains("/"+path+"/", "/../") {
			t.Errorf("%q passed", escaped)
		}
	})
}
