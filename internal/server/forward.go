package server

import (
	"net/http"
	"slices"
	"strings"
)

// The client's headers that a driver may see. Everything else ends here: what
// belongs to this connection (Host, Cookie, Content-*, Accept*, hop-by-hop) would
// be wrong on another one, and what an upstream does not need is not its business.
//
// That a header is on the list does not mean that it is sent. Drivers of other
// protocols send none of them, and the headers that say who calls are sent only
// where the configuration has the client sign in itself; see upstream.Endpoint.
var forwardedNames = canonical(
	// Who calls, and whose account pays.
	"Authorization", "ChatGPT-Account-Id", "OpenAI-Organization", "OpenAI-Project", "X-OAI-Attestation",
	// Which conversation this is: upstreams find their prompt caches by it. The
	// forms with an underscore are those of older versions of Codex.
	"Session-Id", "Thread-Id", "Session_id", "Conversation_id",
	// Which client this is: upstreams decide by its version what to send it.
	"Originator", "User-Agent", "Version",
	// Under which name the client's log has this request.
	"X-Client-Request-Id",
	// Which unfinished parts of the API the client wants.
	"OpenAI-Beta",
)

// forwardedPrefixes begin families of headers that change how a body is read, such
// as X-OpenAI-Internal-Codex-Responses-Lite, and that grow with every version of
// Codex.
var forwardedPrefixes = []string{"X-Codex-", "X-Openai-"}

const (
	// maxForwarded is how many values are kept; Codex sends a dozen.
	maxForwarded = 64
	// maxForwardedValue is the longest value that is kept. The longest in use is
	// X-Codex-Turn-Metadata, about 1 KiB of JSON.
	maxForwardedValue = 8 << 10
)

// forwardable returns the headers of h that a driver may see, and how many values
// were left out although they are on the list, because there were too many or
// they were too long.
func forwardable(h http.Header) (kept http.Header, dropped int) {
	kept = make(http.Header)
	hops := connectionHeaders(h)
	names := make([]string, 0, 16)
	for name := range h {
		if mayForward(name) && !hops[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names) // which of too many are left out must not be chance
	n := 0
	for _, name := range names {
		for _, v := range h[name] {
			if n == maxForwarded || len(v) > maxForwardedValue {
				dropped++
				continue
			}
			n++
			kept[name] = append(kept[name], v)
		}
	}
	return kept, dropped
}

// connectionHeaders returns the names of headers that h says are about the
// connection only.
func connectionHeaders(h http.Header) map[string]bool {
	said := h["Connection"]
	if len(said) == 0 {
		return nil
	}
	return canonical(strings.Split(strings.Join(said, ","), ",")...)
}

func mayForward(name string) bool {
	return forwardedNames[name] ||
		slices.ContainsFunc(forwardedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// canonical returns the set of names as net/http spells them.
func canonical(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[http.CanonicalHeaderKey(strings.TrimSpace(name))] = true
	}
	return set
}
