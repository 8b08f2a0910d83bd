package upstream

import (
	"net/http"
	"slices"
	"strings"
)

// credentialWords are in the names of headers that say who calls and whose account
// pays, such as Authorization, ChatGPT-Account-Id and OpenAI-Project. They are
// words rather than names because clients come up with new ones, such as
// X-OpenAI-Actor-Authorization; a header that is wrongly taken for one is only not
// forwarded.
var credentialWords = []string{
	"auth", "account", "organization", "project", "assertion", "attestation", "token", "secret", "key", "cookie", "fedramp",
}

// isCredential reports whether a header is part of the client's credential. All
// parts of it go together: an account or a project of the client beside the key
// of the gateway would be refused, or bill somebody who did not ask.
func isCredential(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(credentialWords, func(w string) bool { return strings.Contains(name, w) })
}

// forward copies to h the client's headers that are not its credential.
func forward(h, client http.Header) {
	for name, values := range client {
		if !isCredential(name) {
			h[name] = slices.Clone(values)
		}
	}
}
