package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
)

// A browser lets the pages of any site send requests to any address, also to a
// gateway on the user's own machine, and only asks whether the page may see the
// answer. Without keys that question is all that stands between a site and the
// models, so there the gateway refuses what a page is not allowed to send; with
// keys, a page needs one like everybody else.

// Origins are the pages that may use the API from a browser: those of this
// machine, those of the Obsidian app, and others that are named. It is immutable;
// nil is the default without others.
type Origins struct {
	others map[string]bool
}

// obsidian is the origin of Obsidian's plugins on a desktop.
const obsidian = "app://obsidian.md"

// NewOrigins returns the default origins and others, each written as browsers
// send it: scheme, host, and the port if it is not the scheme's own. There is no
// form that stands for more than one: the error names those that are not origins.
func NewOrigins(others []string) (*Origins, error) {
	o := &Origins{others: make(map[string]bool, len(others))}
	var errs []error
	for _, s := range others {
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || u.Scheme+"://"+u.Host != s || strings.ToLower(s) != s || strings.Contains(s, "*") {
			errs = append(errs, fmt.Errorf("%q is not an origin, such as https://chat.example:8443", s))
			continue
		}
		o.others[s] = true
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return o, nil
}

func (o *Origins) allow(origin string) bool {
	return origin == obsidian || isLoopbackPage(origin) || o != nil && o.others[origin]
}

// isLoopbackPage reports whether the origin is a page of this machine, on any
// port. It knows only the form in which browsers write such an origin: whatever
// else a parser would take for one is not.
func isLoopbackPage(origin string) bool {
	for _, host := range []string{"http://localhost", "http://127.0.0.1", "http://[::1]"} {
		rest, ok := strings.CutPrefix(origin, host)
		if !ok {
			continue
		}
		port, ok := strings.CutPrefix(rest, ":")
		return rest == "" || ok && port != "" && len(port) <= 5 && strings.Trim(port, "0123456789") == ""
	}
	return false
}

// exposed are the headers of answers that pages may read.
const exposed = headerRequestID + ", " + headerUpstream + ", " + headerDegraded + ", " + headerStripped + ", Retry-After" +
	", X-Ratelimit-Limit-Requests, X-Ratelimit-Remaining-Requests, X-Ratelimit-Reset-Requests" +
	", X-Ratelimit-Limit-Tokens, X-Ratelimit-Remaining-Tokens, X-Ratelimit-Reset-Tokens"

// allowOrigin finds out which page the request is from, and lets an allowed one
// read the answer, also if it is an error.
func (x *exchange) allowOrigin() {
	h := x.Header()
	h.Add("Vary", "Origin")
	origins := x.r.Header.Values("Origin")
	switch {
	case len(origins) == 0: // not from a page
	case len(origins) == 1 && x.gen.Origins.allow(origins[0]):
		h.Set("Access-Control-Allow-Origin", origins[0])
		h.Set("Access-Control-Expose-Headers", exposed)
	default:
		x.foreign = true
	}
}

var errForeignPage = responses.InvalidParam(responses.CodeForbidden, "", "This page may not use the gateway: its origin is not one of those that are allowed.")

// refuseForeignPage refuses what does something for a page that is not allowed,
// if there are no keys to tell who is who. That the page could not read the answer
// is not enough: tokens would have been spent. The request's Host says nothing
// here, because a site can give its own name the address of this machine.
func (x *exchange) refuseForeignPage() error {
	reads := (x.r.Method == http.MethodGet || x.r.Method == http.MethodHead) && x.r.Header.Get("Upgrade") == ""
	if x.foreign && !reads && x.gen.Keys == nil {
		return errForeignPage
	}
	return nil
}

var errStrangeName = responses.InvalidParam(responses.CodeForbidden, "",
	"Without keys other paths are read by the gateway's address, such as 127.0.0.1, as localhost, or by a name that is among the allowed origins.")

// refuseStrangeName refuses to read what is an upstream's under a name that anybody
// could have given the gateway's address, if nobody asks who is who: a browser takes
// it for the site of that name, and sends no origin.
func (x *exchange) refuseStrangeName() error {
	reads := x.r.Method == http.MethodGet || x.r.Method == http.MethodHead
	if x.key != nil || !reads || isPrivateHost(x.r.Host) || x.gen.Origins.allow("https://"+x.r.Host) || x.gen.Origins.allow("http://"+x.r.Host) {
		return nil
	}
	return errStrangeName
}

// isPrivateHost reports whether a request's Host is an address, or a name that
// nobody can have on the internet.
func isPrivateHost(hostport string) bool {
	host := hostOf(hostport)
	if _, ok := parseAddr(host); ok {
		return true
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	last := host[strings.LastIndexByte(host, '.')+1:]
	return last == host || last == "localhost" || last == "internal" || last == "local"
}

// isPreflight reports whether a browser asks what a page may send. Such requests
// never carry a key.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// preflight answers what a page may send.
func (s *Server) preflight(x *exchange) error {
	h := x.Header()
	h.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
	if x.foreign {
		return errForeignPage
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	if names := pageHeaders(x.r.Header); len(names) > 0 {
		h.Set("Access-Control-Allow-Headers", strings.Join(names, ", "))
	}
	h.Set("Access-Control-Max-Age", "600")
	x.WriteHeader(http.StatusNoContent)
	return nil
}

// Headers that pages may send, beside those that upstreams get. Browsers know no
// patterns, so an answer names those of the family that were asked for.
var (
	pageNames = canonical("Accept", "Accept-Language", "Api-Key", "Content-Type", "Http-Referer", "Idempotency-Key",
		"X-Api-Key", "X-Proxy-Output-Mode", "X-Request-Id", "X-Title")
	pagePrefixes = []string{"Openai-", "X-Stainless-"}
)

// maxPageHeaders is how many names a preflight is answered with; SDKs send a dozen.
const maxPageHeaders = 64

// pageHeaders returns those of the headers that a preflight asks for which a page
// may send.
func pageHeaders(h http.Header) []string {
	var names []string
	for name := range strings.SplitSeq(h.Get("Access-Control-Request-Headers"), ",") {
		name = http.CanonicalHeaderKey(strings.TrimSpace(name))
		if isToken(name) && mayPageSend(name) && len(names) < maxPageHeaders {
			names = append(names, name)
		}
	}
	return names
}

func mayPageSend(name string) bool {
	return pageNames[name] || mayForward(name) ||
		slices.ContainsFunc(pagePrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// isToken reports whether name is made of letters, digits, - and _ only, as all
// headers that we know are: nothing else is echoed.
func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}
