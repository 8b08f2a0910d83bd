package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Validate returns an [*Error] with everything that is wrong with c, or nil.
func (c *Config) Validate() error { return c.problems().err("") }

func (c *Config) problems() problems {
	var p problems
	checkListen(&p, cmp.Or(c.Listen, DefaultListen))
	switch c.Mode {
	case "", ModeTransparent:
	case "strict":
		p.addf("mode", "strict is not in this build; remove it")
	default:
		p.addf("mode", "%q is not a mode; use transparent", c.Mode)
	}
	if len(c.Upstreams) == 0 {
		p.addf("upstreams", "there is none; add one, such as local: {url: \"http://127.0.0.1:8000/v1\"}")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		c.checkUpstream(&p, name)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		c.checkModel(&p, name)
	}
	c.Timeouts.check(&p)
	for i, key := range c.SealKeys {
		at := fmt.Sprintf("seal_keys[%d]", i)
		if _, err := SealKey(key); err != nil {
			p.addf(at, "%v", err)
		} else if slices.Index(c.SealKeys, key) < i {
			p.addf(at, "is there twice; remove one")
		}
	}
	return p
}

// checkListen refuses an address that other machines can reach: without keys
// whoever reaches the gateway spends the owner's money.
func checkListen(p *problems, addr string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		p.addf("listen", "%q is not an address; write host:port, such as %s", addr, DefaultListen)
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		p.addf("listen", "%q is not a port; use a number from 0 to 65535, such as 4100", port)
		return
	}
	if !isLoopback(host) {
		p.addf("listen", "%s can be reached from other machines, and this build cannot check who calls (auth.keys is not in this build); "+
			"listen on %s if only this machine calls, or put a reverse proxy that authenticates in front of %[2]s if others do",
			addr, net.JoinHostPort("127.0.0.1", port))
	}
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (c *Config) checkUpstream(p *problems, name string) {
	u, path := c.Upstreams[name], join("upstreams", name)
	if !isUpstreamName(name) {
		p.addf(path, "is not a name for an upstream; use at most 64 letters, digits, dots, dashes and underscores")
	}
	switch u.Protocol {
	case "", ProtocolResponses, ProtocolChat:
	case "messages", "codex":
		p.addf(join(path, "protocol"), "%s is not in this build; use responses or chat", u.Protocol)
	default:
		p.addf(join(path, "protocol"), "%q is not a protocol; use responses or chat, or leave it out to have the upstream asked", u.Protocol)
	}
	base, err := u.Base()
	switch {
	case err != nil:
		p.addf(join(path, "url"), "%v", err)
	case base.Host == c.Listen:
		p.addf(join(path, "url"), "is this gateway's own address; name the server behind it")
	}
	checkAuth(p, path, u)
	for _, h := range slices.Sorted(maps.Keys(u.Headers)) {
		checkHeader(p, join(join(path, "headers"), h), h, u.Headers[h].Reveal())
	}
}

func checkAuth(p *problems, path string, u Upstream) {
	at := join(path, "auth")
	switch {
	case u.Auth == "":
	case u.Auth == AuthBearer:
		if u.APIKey == "" {
			p.addf(at, "bearer needs a key; add api_key, or use auth: none")
		}
	case u.Auth == AuthClient || u.Auth == AuthNone:
		if u.APIKey != "" {
			p.addf(at, "%s does not use the api_key that is also there; remove one of them", u.Auth)
		}
	case u.Auth == "azure" || strings.HasPrefix(string(u.Auth), "header "):
		p.addf(at, "%s is not in this build; use bearer, client or none", u.Auth)
	default:
		p.addf(at, "%q is not a way to authenticate; use bearer, client or none", u.Auth)
	}
	if !isHeaderValue(u.APIKey.Reveal()) {
		p.addf(join(path, "api_key"), "has characters that cannot be sent; is there a line break at its end?")
	}
}

// ownHeaders are what the gateway itself sends.
var ownHeaders = []string{"Connection", "Content-Length", "Content-Type", "Host", "Transfer-Encoding"}

func checkHeader(p *problems, path, name, value string) {
	switch {
	case !isHeaderName(name):
		p.addf(path, "is not a name for a header")
	case slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)):
		p.addf(path, "is set by the gateway; remove it")
	case !isHeaderValue(value):
		p.addf(path, "has characters that cannot be sent; is there a line break at its end?")
	}
}

func (c *Config) checkModel(p *problems, name string) {
	m, path := c.Models[name], join("models", name)
	switch {
	case name == "":
		p.addf(path, "is not a name for a model; clients cannot ask for it")
	case strings.Contains(name, "*"):
		p.addf(path, "patterns are not in this build; write each model on a line of its own")
	case strings.Contains(m.Model, "*"):
		p.addf(join(path, "model"), "patterns are not in this build; write the upstream's name for the model")
	}
	_, known := c.Upstreams[m.Upstream]
	switch {
	case m.Upstream == "":
		p.addf(join(path, "upstream"), "is missing; %s", c.someUpstream())
	case !known:
		p.addf(join(path, "upstream"), "there is no upstream %q; %s", m.Upstream, c.someUpstream())
	}
}

func (c *Config) someUpstream() string {
	names := slices.Sorted(maps.Keys(c.Upstreams))
	if len(names) == 0 {
		return "add it under upstreams"
	}
	const most = 8
	if len(names) > most {
		names = append(names[:most:most], "…")
	}
	return "there is " + strings.Join(names, ", ")
}

func (t *Timeouts) check(p *problems) {
	for _, f := range []struct {
		key   string
		value time.Duration
	}{{"hold", t.Hold}, {"first_event", t.FirstEvent}, {"idle", t.Idle}, {"total", t.Total}, {"drain", t.Drain}} {
		if f.value < 0 {
			p.addf(join("timeouts", f.key), "%s is shorter than nothing; leave it out for the default", f.value)
		}
	}
}

// parseURL returns an absolute URL, or an error that never quotes it whole: it
// may hold a credential.
func parseURL(s string) (*url.URL, error) {
	if s == "" {
		return nil, errors.New("is missing; write the address of the upstream, such as http://127.0.0.1:8000/v1")
	}
	u, err := url.Parse(s)
	switch {
	case !strings.Contains(s, "://"):
		return nil, errors.New("has no scheme; write http:// or https:// in front of it")
	case err != nil:
		return nil, errors.New("is not a URL; write it like http://127.0.0.1:8000/v1")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%s:// is not supported; use http:// or https://", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("has no host; write it like http://127.0.0.1:8000/v1")
	case u.User != nil:
		return nil, errors.New("holds a user name or password; put the credential into api_key or headers")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("must end with its path; remove what follows ? or #")
	}
	return u, nil
}

func trimSlash(path string) string { return strings.TrimRight(path, "/") }

// isUpstreamName: the name is sent in a response header and written into logs.
func isUpstreamName(s string) bool {
	return len(s) <= 64 && isWord(strings.ReplaceAll(s, ".", "_"))
}

func isHeaderName(s string) bool {
	return isWord(strings.Map(func(r rune) rune {
		if strings.ContainsRune("!#$%&'*+.^`|~", r) {
			return '_'
		}
		return r
	}, s))
}

func isHeaderValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
