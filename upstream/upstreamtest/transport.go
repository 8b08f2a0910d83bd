package upstreamtest

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/antiphon-dev/antiphon/upstream"
)

// delivery is how an answer's body reaches the driver. The zero value is all of
// it in as few reads as the driver's buffers allow.
type delivery struct {
	split int   // the first read ends here; 0 means nowhere
	step  int   // most bytes per read; 0 means any
	end   int   // the body ends here; 0 means at its end, -1 means at once
	err   error // what it ends with; nil means io.EOF
}

// transport answers every request with a golden's answer, from memory: a golden
// is replayed thousands of times.
type transport struct {
	golden   *Golden
	delivery delivery
	sent     []byte // the body of the last request, nil if there was none
	requests int
	open     int // bodies handed out and not closed
}

// endpoint returns the upstream that t plays.
func (t *transport) endpoint() upstream.Endpoint {
	return upstream.Endpoint{
		Base:   &url.URL{Scheme: "http", Host: "upstream.test", Path: "/v1"},
		Client: &http.Client{Transport: t},
	}
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := context.Cause(req.Context()); err != nil {
		return nil, err
	}
	t.requests++
	t.sent = []byte{}
	if req.Body != nil {
		defer req.Body.Close()
		var err error
		if t.sent, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
	}
	t.open++
	return &http.Response{
		Status:        http.StatusText(t.golden.Status),
		StatusCode:    t.golden.Status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        t.golden.Header.Clone(),
		Body:          newBody(t),
		ContentLength: -1,
		Request:       req,
	}, nil
}

// body is an answer's body that comes in pieces and may break.
type body struct {
	t      *transport
	rest   []byte
	split  int // bytes until the next read must stop; 0 means none
	closed bool
}

func newBody(t *transport) *body {
	rest := t.golden.Body
	switch {
	case t.delivery.end > 0:
		rest = rest[:t.delivery.end]
	case t.delivery.end < 0:
		rest = nil
	}
	return &body{t: t, rest: rest, split: t.delivery.split}
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	d := b.t.delivery
	switch {
	case b.closed:
		return 0, http.ErrBodyReadAfterClose
	case len(b.rest) == 0 && d.err != nil:
		return 0, d.err
	case len(b.rest) == 0:
		return 0, io.EOF
	}
	n := min(len(p), len(b.rest))
	if d.step > 0 {
		n = min(n, d.step)
	}
	if b.split > 0 {
		n = min(n, b.split)
		b.split -= n
	}
	copy(p, b.rest[:n])
	b.rest = b.rest[n:]
	return n, nil
}

// Close implements [io.Closer].
func (b *body) Close() error {
	if !b.closed {
		b.closed = true
		b.t.open--
	}
	return nil
}
