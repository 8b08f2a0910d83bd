package mcptool

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/antiphon-dev/antiphon/internal/netguard"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/tool"
)

// httpClient returns a client that sends header to the origin of u, and to no
// other that a redirect may lead to.
func (e *Executor) httpClient(g *netguard.Guard, u *url.URL, header http.Header) *http.Client {
	client := g.Client(&netguard.ClientOptions{MaxBytes: int64(e.opts.MaxMessage)})
	client.Transport = &withHeader{base: client.Transport, host: u.Host, scheme: u.Scheme, header: header}
	return client
}

type withHeader struct {
	base         http.RoundTripper
	scheme, host string
	header       http.Header
}

// RoundTrip implements [http.RoundTripper].
func (t *withHeader) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == t.host && r.URL.Scheme == t.scheme && len(t.header) > 0 {
		r = r.Clone(r.Context())
		for name, values := range t.header {
			r.Header[name] = values
		}
	}
	return t.base.RoundTrip(r)
}

// CloseIdleConnections is what [http.Client.CloseIdleConnections] calls.
func (t *withHeader) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// ownHeaders are those of the protocols below, which are not for clients to set.
var ownHeaders = []string{"Host", "Connection", "Content-Length", "Content-Type", "Transfer-Encoding", "Accept", "Te", "Trailer", "Upgrade"}

const maxHeaders = 32

// headerOf returns the headers that a request wants its server to get.
func headerOf(a *tool.Ask, entry *responses.MCPTool) (http.Header, error) {
	h := http.Header{}
	at := a.Param + ".headers"
	if len(entry.Headers) > maxHeaders {
		return nil, responses.InvalidParam(responses.CodeInvalidValue, at, "At most %d headers, not %d.", maxHeaders, len(entry.Headers))
	}
	for name, value := range entry.Headers {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !isToken(name) || strings.ContainsFunc(value, isControl):
			return nil, responses.InvalidParam(responses.CodeInvalidValue, at, "A header has a name or a value that cannot be sent.")
		case slices.Contains(ownHeaders, canonical) || strings.HasPrefix(canonical, "Mcp-"):
			return nil, responses.InvalidParam(responses.CodeInvalidValue, at, "The header %s is set by the gateway.", canonical)
		}
		h.Set(canonical, value)
	}
	if entry.Authorization != "" {
		if strings.ContainsFunc(entry.Authorization, isControl) {
			return nil, responses.InvalidParam(responses.CodeInvalidValue, a.Param+".authorization", "It cannot be sent.")
		}
		h.Set("Authorization", "Bearer "+strings.TrimPrefix(entry.Authorization, "Bearer "))
	}
	return h, nil
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	})
}

// requestKey tells apart the servers that requests name: by their URL and by what
// is sent to them. It is no secret.
func requestKey(u string, h http.Header) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%q", u)
	for _, name := range slices.Sorted(maps.Keys(h)) {
		fmt.Fprintf(sum, " %q:%q", name, h[name])
	}
	return "url " + hex.EncodeToString(sum.Sum(nil))
}
