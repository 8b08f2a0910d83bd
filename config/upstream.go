package config

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// An Upstream is a model provider.
type Upstream struct {
	// Protocol is what the upstream speaks. Left out, it is asked at start.
	Protocol Protocol `yaml:"protocol"`
	// URL is the address below which the protocol's paths are, such as
	// http://127.0.0.1:8000/v1. One that is only a host gets /v1. An upstream that is
	// a program has a command instead.
	URL string `yaml:"url"`
	// Command is the program and its arguments, with protocol: codex, such as
	// ["codex", "app-server"]; -c KEY=VALUE behind that sets what Codex calls its
	// configuration. The program has a home of its own: your ~/.codex is not read but
	// for the login in it.
	Command []string `yaml:"command"`
	// APIKey is the credential for the upstream.
	APIKey Secret `yaml:"api_key"`
	// APIKeys are several credentials, instead of api_key, that share the requests.
	APIKeys []Secret `yaml:"api_keys"`
	// Auth is how requests to the upstream are authenticated; header NAME sends the
	// key in the header of that name. Left out, it is bearer if there is a key, and
	// none if there is not.
	Auth UpstreamAuth `yaml:"auth"`
	// Headers are sent with every request to the upstream.
	Headers map[string]Secret `yaml:"headers"`
	// Logins are directories with a Codex login (auth.json), each of which gets a
	// process of its own, with protocol: codex. Left out, and without a key, it is
	// $CODEX_HOME or ~/.codex if there is a login.
	Logins []string `yaml:"logins"`
	// Env is the environment of the program, beside the few variables that are
	// always passed on (PATH, language, certificates, proxies), with protocol: codex.
	Env map[string]Secret `yaml:"env"`
	// Degrade is whether a request is answered although the upstream has no place
	// for something that it asks for, such as a temperature; what is lost is listed in
	// the header Antiphon-Degraded. Otherwise such a request is refused by name. It
	// is for protocol: codex; the other protocols say in their documents what they do.
	Degrade bool `yaml:"degrade"`
	// OnMalformed is what happens when the upstream sends a frame that cannot be
	// read.
	OnMalformed OnMalformed `yaml:"on_malformed" default:"fail"`
	// Relay is whether requests that ask for no memory may pass to the upstream byte
	// for byte, if it speaks the Responses API and so do the other targets of their
	// model. Left out, they may; false has all of them run by the gateway.
	Relay *bool `yaml:"relay"`
	// Sanitize keeps from clients what only this upstream has: members of its
	// answers that are not in the published API, its words for its failures, and
	// trouble with its account. They get the gateway's own words; the log has the
	// upstream's. It is always so with mode: strict. Of paths
	// that the gateway passes on unread only failures and headers are kept back: nobody
	// here knows what is published of them.
	Sanitize bool `yaml:"sanitize"`
	// Trusted is true to tell the upstream which trace a request belongs to, by the
	// header traceparent.
	Trusted bool `yaml:"trusted"`
	// State is who remembers responses and conversations. Left out, it is gateway.
	State UpstreamState `yaml:"state"`
}

// Protocol names what an upstream speaks.
type Protocol string

// The protocols of this build.
const (
	ProtocolResponses Protocol = "responses" // the Responses API itself
	ProtocolChat      Protocol = "chat"      // Chat Completions
	ProtocolCodex     Protocol = "codex"     // the Codex app-server, a program
)

// UpstreamAuth says which credential an upstream gets, and how. Besides the
// constants there is "header NAME"; see [UpstreamAuth.Header].
type UpstreamAuth string

// The ways to authenticate of this build.
const (
	AuthBearer UpstreamAuth = "bearer" // the upstream's key as a bearer token
	AuthAzure  UpstreamAuth = "azure"  // the upstream's key in the header api-key
	AuthClient UpstreamAuth = "client" // the Authorization header of the client's request
	AuthNone   UpstreamAuth = "none"   // nothing
)

// Header returns the name of the header that carries the bare key, and false if
// the key is not sent so.
func (a UpstreamAuth) Header() (name string, ok bool) {
	if a == AuthAzure {
		return "api-key", true
	}
	return strings.CutPrefix(string(a), "header ")
}

// OnMalformed is what happens to a response when its upstream sends a frame that
// cannot be read. Empty means [MalformedFail].
type OnMalformed string

// What can be done about a malformed frame.
const (
	MalformedFail OnMalformed = "fail" // the response fails and names the frame
	MalformedSkip OnMalformed = "skip" // the frame is left out
)

// Base returns the upstream's URL in the form that drivers want: absolute,
// without a slash at the end, with /v1 if it was only a host.
func (u Upstream) Base() (*url.URL, error) {
	base, err := parseURL(u.URL)
	if err != nil {
		return nil, err
	}
	if base.Path == "" || base.Path == "/" {
		return base.JoinPath("v1"), nil
	}
	base.Path, base.RawPath = trimSlash(base.Path), trimSlash(base.RawPath)
	return base, nil
}

// Relays reports whether requests may pass to the upstream as they came.
func (u Upstream) Relays() bool { return u.Relay == nil || *u.Relay }

// Keys returns the upstream's credentials, one or several; none if it has none.
func (u Upstream) Keys() []Secret {
	if u.APIKey != "" {
		return []Secret{u.APIKey}
	}
	return u.APIKeys
}

func (u Upstream) check(p *problems, path, listen string) {
	switch u.Protocol {
	case "", ProtocolResponses, ProtocolChat, ProtocolCodex:
	case "messages":
		p.addf(join(path, "protocol"), "%s is not in this build; use responses, chat or codex", u.Protocol)
	default:
		p.addf(join(path, "protocol"), "%q is not a protocol; use responses, chat or codex, or leave it out to have the upstream asked", u.Protocol)
	}
	if u.Protocol == ProtocolCodex {
		u.checkProgram(p, path)
	} else {
		u.checkServer(p, path, listen)
	}
	u.checkKeys(p, path)
	for _, h := range slices.Sorted(maps.Keys(u.Headers)) {
		at := join(join(path, "headers"), h)
		if err := checkHeaderName(h); err != nil {
			p.addf(at, "%v", err)
		} else if !isHeaderValue(u.Headers[h].Reveal()) {
			p.addf(at, "%s", unsendable)
		}
	}
	switch u.OnMalformed {
	case "", MalformedFail, MalformedSkip:
	default:
		p.addf(join(path, "on_malformed"), "%q is not known; use fail or skip", u.OnMalformed)
	}
}

// checkServer checks where an upstream is that is a server.
func (u Upstream) checkServer(p *problems, path, listen string) {
	if u.checkNoProgram(p, path) {
		base, err := u.Base()
		switch {
		case err != nil:
			p.addf(join(path, "url"), "%v", err)
		case base.Host == listen:
			p.addf(join(path, "url"), "is this gateway's own address; name the server behind it")
		}
	}
	u.checkAuth(p, path)
}

func (u Upstream) checkAuth(p *problems, path string) {
	at, keys := join(path, "auth"), len(u.Keys())
	header, inHeader := u.Auth.Header()
	switch {
	case u.Auth == "":
	case u.Auth == AuthClient || u.Auth == AuthNone:
		if keys > 0 {
			p.addf(at, "%s does not use the key that is also there; remove one of them", u.Auth)
		}
	case u.Auth != AuthBearer && !inHeader:
		p.addf(at, "%q is not a way to authenticate; use bearer, azure, header NAME, client or none", u.Auth)
	case inHeader && checkHeaderName(header) != nil:
		p.addf(at, "%q %v", header, checkHeaderName(header))
	case keys == 0:
		p.addf(at, "%s needs a key; add api_key, or use auth: none", u.Auth)
	}
}

func (u Upstream) checkKeys(p *problems, path string) {
	if u.APIKey != "" && len(u.APIKeys) > 0 {
		p.addf(join(path, "api_keys"), "api_key is also there; remove one of them")
	}
	if !isHeaderValue(u.APIKey.Reveal()) {
		p.addf(join(path, "api_key"), "%s", unsendable)
	}
	for i, key := range u.APIKeys {
		at := fmt.Sprintf("%s[%d]", join(path, "api_keys"), i)
		switch {
		case key == "":
			p.addf(at, "is empty; write a key, or remove it")
		case !isHeaderValue(key.Reveal()):
			p.addf(at, "%s", unsendable)
		case slices.Index(u.APIKeys, key) < i:
			p.addf(at, "is there twice; remove one")
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

// ownHeaders are what the gateway itself sends.
var ownHeaders = []string{"Connection", "Content-Length", "Content-Type", "Host", "Transfer-Encoding"}

func checkHeaderName(name string) error {
	switch {
	case !isHeaderName(name):
		return errors.New("is not a name for a header")
	case slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)):
		return errors.New("is set by the gateway; remove it")
	}
	return nil
}

func isHeaderName(s string) bool {
	return isWord(strings.Map(func(r rune) rune {
		if strings.ContainsRune("!#$%&'*+.^`|~", r) {
			return '_'
		}
		return r
	}, s))
}

const unsendable = "has characters that cannot be sent; is there a line break at its end?"

func isHeaderValue(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f })
}
