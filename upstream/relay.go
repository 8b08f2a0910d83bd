package upstream

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/antiphon-dev/antiphon/responses"
)

// A Passage is a request that passes through the gateway as it came.
type Passage struct {
	Method string
	// Path is below the API's root, such as "responses"; Query is raw.
	Path, Query string
	// Header holds the client's headers that may be forwarded.
	Header http.Header
	Body   []byte
	// Stream is the body instead, for one that is passed on while it comes, of
	// Length bytes, -1 if that is not known. It can be sent once. Its errors that
	// are the client's are *responses.Errors and pass as they are.
	Stream io.ReadCloser
	Length int64
	// ContentType is that of the body, "" for JSON.
	ContentType string
	// Once has it sent to one target only, because it may do something that must
	// not be done twice.
	Once bool
	// Account is which of the upstream's accounts to use, "" for any. [Endpoint.Relay]
	// sets it to the one that it used, if there are several.
	Account string
}

// maxPath bounds a path that passes.
const maxPath = 1024

// PlainPath returns an escaped path without the slash at its beginning, and false
// if it holds anything that servers disagree about: escapes, empty or dot segments,
// parameters, characters that are not letters, digits or one of -._~:@!$'()*+,=. What
// is left stays below the URL that it is joined to.
func PlainPath(escaped string) (string, bool) {
	path := strings.TrimPrefix(escaped, "/")
	if len(path) > maxPath {
		return "", false
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" || strings.Trim(segment, ".") == "" || strings.ContainsFunc(segment, notPlain) {
			return "", false
		}
	}
	return path, true
}

func notPlain(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	}
	return !strings.ContainsRune("-._~:@!$'()*+,=", r)
}

// A Relayer is a driver whose upstream speaks an API of the gateway's clients, so
// that requests and answers can pass as they are.
type Relayer interface {
	// Relays reports whether the upstream has the path.
	Relays(path string) bool
	// Relay sends the passage and returns the upstream's answer, whatever its
	// status. The caller closes its body.
	Relay(ctx context.Context, p *Passage) (*http.Response, error)
}

// Relay sends a passage below the base as it came, with the endpoint's own
// credential and headers.
func (e *Endpoint) Relay(ctx context.Context, p *Passage) (*http.Response, error) {
	if _, plain := PlainPath(p.Path); !plain {
		return nil, responses.InvalidParam(responses.CodeNotFound, "", "There is nothing at this path.")
	}
	u := e.Base.JoinPath(p.Path)
	u.Path = "/" + strings.TrimPrefix(u.Path, "/") // below a base that is only a host it has no slash
	u.RawQuery = joinQuery(u, p.Query)
	var body io.Reader = p.Stream
	if p.Stream == nil {
		body = bytes.NewReader(p.Body)
	}
	req, err := http.NewRequestWithContext(ctx, p.Method, u.String(), body)
	if err != nil {
		return nil, err
	}
	if p.Stream != nil {
		req.ContentLength = p.Length
	}
	forward(req.Header, p.Header)
	if len(p.Body) > 0 || p.Stream != nil {
		req.Header.Set("Content-Type", cmp.Or(p.ContentType, "application/json"))
	}
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "text/event-stream, application/json")
	}
	if len(e.Accounts) == 0 {
		return e.send(req, p.Header)
	}
	account, err := e.account(p.Account)
	if err != nil {
		return nil, err
	}
	p.Account = account.Name
	with := *e
	with.Auth = account.Auth
	return with.send(req, p.Header)
}

func joinQuery(u *url.URL, query string) string {
	if u.RawQuery == "" || query == "" {
		return u.RawQuery + query
	}
	return u.RawQuery + "&" + query
}

// Relay implements [Relayer] if the guarded driver does, within the same limits of
// time: until the answer begins, from when the last piece of a body was there that
// is passed on while it comes, and between two pieces of the answer.
func (g *guard) Relay(ctx context.Context, p *Passage) (*http.Response, error) {
	r, ok := g.Driver.(Relayer)
	if !ok {
		return nil, errNotRelayed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	w := newWatch(g.limits, cancel)
	sent := *p
	if p.Stream != nil {
		sent.Stream = &upload{p.Stream, func() { w.restart(g.limits.FirstEvent) }}
	}
	resp, err := r.Relay(ctx, &sent)
	p.Account = sent.Account
	if err != nil {
		w.stop()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		cancel(nil)
		return nil, err
	}
	resp.Body = &watchedBody{ReadCloser: resp.Body, ctx: ctx, watch: w, close: sync.OnceFunc(func() {
		w.stop()
		cancel(nil)
	})}
	return resp, nil
}

var errNotRelayed = responses.Errorf(responses.CodeServer, "This upstream cannot take requests as they are.")

// Relays implements [Relayer]: a driver that is none has no path.
func (g *guard) Relays(path string) bool {
	r, ok := g.Driver.(Relayer)
	return ok && r.Relays(path)
}

// Wrapped is a driver that has the optional abilities of the one in it, for drivers
// that embed it and change one thing.
type Wrapped struct{ Driver }

// Models implements [ModelLister].
func (w Wrapped) Models(ctx context.Context) ([]Model, error) { return listModels(ctx, w.Driver) }

// Relay implements [Relayer] if the driver does.
func (w Wrapped) Relay(ctx context.Context, p *Passage) (*http.Response, error) {
	relayer, ok := w.Driver.(Relayer)
	if !ok {
		return nil, errNotRelayed
	}
	return relayer.Relay(ctx, p)
}

// Relays implements [Relayer]: a driver that is none has no path.
func (w Wrapped) Relays(path string) bool {
	relayer, ok := w.Driver.(Relayer)
	return ok && relayer.Relays(path)
}

// The paths of the APIs that can be relayed, below their root.
const (
	PathResponses       = "responses"
	PathChatCompletions = "chat/completions"
	PathEmbeddings      = "embeddings"
)

// upload is a body that is being sent.
type upload struct {
	io.ReadCloser
	came func() // a piece of it
}

func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	u.came()
	return n, err
}

// watchedBody is an answer that is being read. The upstream is timed only while
// it is waited for.
type watchedBody struct {
	io.ReadCloser
	ctx   context.Context
	watch *watch
	begun bool // something was read
	close func()
}

func (b *watchedBody) Read(p []byte) (int, error) {
	if b.begun {
		b.watch.resume()
	}
	n, err := b.ReadCloser.Read(p)
	b.watch.handOver()
	b.begun = true
	if err != nil && err != io.EOF && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	return n, err
}

func (b *watchedBody) Close() error {
	b.close()
	return b.ReadCloser.Close()
}
