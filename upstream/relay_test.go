package upstream_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/upstream"
)

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
