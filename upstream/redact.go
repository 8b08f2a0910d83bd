package upstream

import (
	"bytes"
	"io"
	"net/http"
	"strings"
)

// leastSecret is the shortest credential that is looked for: a shorter one is a
// placeholder, and part of other words.
const leastSecret = 6

// redactAnswer takes out of an answer that is an error what the endpoint sent and
// nobody else is to know, its credential and the values of its own headers: some
// upstreams quote them. It looks at the headers and at the beginning of the body;
// other answers are not read, so they pass as they are.
func (e *Endpoint) redactAnswer(resp *http.Response, sent http.Header) {
	if resp.StatusCode < http.StatusBadRequest {
		return
	}
	secrets := e.secrets(sent)
	if len(secrets) == 0 {
		return
	}
	for name, values := range resp.Header {
		for i, v := range values {
			resp.Header[name][i] = string(redactAll([]byte(v), secrets))
		}
	}
	begin, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	rest := io.Reader(resp.Body)
	if err != nil {
		rest = failingReader{err}
	}
	resp.Body = &redactedBody{io.MultiReader(bytes.NewReader(redactAll(begin, secrets)), rest), resp.Body}
	resp.ContentLength = -1
	resp.Header.Del("Content-Length")
}

// secrets are the values that the endpoint put into a request itself.
func (e *Endpoint) secrets(sent http.Header) []string {
	secrets := credentials(sent)
	for _, values := range e.Header {
		secrets = append(secrets, values...)
	}
	return secrets
}

// credentials are what h says of who calls, with and without a scheme before it.
func credentials(h http.Header) (secrets []string) {
	for name, values := range h {
		if !isCredential(name) {
			continue
		}
		for _, v := range values {
			secrets = append(secrets, v)
			if _, bare, ok := strings.Cut(v, " "); ok {
				secrets = append(secrets, bare)
			}
		}
	}
	return secrets
}

func redactAll(b []byte, secrets []string) []byte {
	for _, s := range secrets {
		if len(s) >= leastSecret {
			b = bytes.ReplaceAll(b, []byte(s), []byte("[redacted]"))
		}
	}
	return b
}

// redact takes the credentials with which a request was sent out of the answer to
// it: an upstream that quotes them must not put them into our log.
func redact(body []byte, sent *http.Request) []byte {
	if sent == nil {
		return body
	}
	return redactAll(body, credentials(sent.Header))
}

// redactedBody is a body whose beginning was replaced.
type redactedBody struct {
	io.Reader
	io.Closer
}

// failingReader fails as the body did that it stands for.
type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }
