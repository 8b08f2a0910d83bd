package netguard

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// ErrTooLarge: an answer is larger than the caller wants to read.
var ErrTooLarge = errors.New("the answer is too large")

// ErrRedirects: there were too many of them.
var ErrRedirects = errors.New("there are too many redirects")

// ClientOptions configures [Guard.Client]. The zero value is usable.
type ClientOptions struct {
	// MaxBytes bounds the body of an answer, unpacked: reading beyond it fails with
	// [ErrTooLarge]. Zero means 16 MiB.
	MaxBytes int64
	// HeaderTime bounds the wait for the head of an answer. Zero means 60 s.
	HeaderTime time.Duration
	// Redirects is how many are followed. Zero means 3, negative means none.
	Redirects int
}

// Client returns an HTTP client that reaches only what the guard lets through, and
// never by way of a proxy. A redirect to another origin is followed without the
// headers that were meant for the first one. The caller closes its idle
// connections.
func (g *Guard) Client(opts *ClientOptions) *http.Client {
	var o ClientOptions
	if opts != nil {
		o = *opts
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 16 << 20
	}
	if o.HeaderTime == 0 {
		o.HeaderTime = time.Minute
	}
	if o.Redirects == 0 {
		o.Redirects = 3
	}
	t := &transport{guard: g, maxBytes: o.MaxBytes, base: &http.Transport{
		DialContext:            g.DialContext,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           32,
		MaxIdleConnsPerHost:    8,
		MaxConnsPerHost:        64,
		IdleConnTimeout:        30 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  o.HeaderTime,
		MaxResponseHeaderBytes: 64 << 10,
	}}
	return &http.Client{Transport: t, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if len(via) > o.Redirects {
			return fmt.Errorf("%w (%d)", ErrRedirects, len(via))
		}
		if err := g.CheckURL(next.URL); err != nil {
			return fmt.Errorf("redirected to a place that may not be reached: %w", err)
		}
		if !sameOrigin(next.URL, via[0].URL) {
			keepOnly(next.Header, "Accept", "Content-Type", "User-Agent")
		}
		return nil
	}}
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && a.Hostname() == b.Hostname() && portOf(a) == portOf(b)
}

func keepOnly(h http.Header, names ...string) {
	kept := http.Header{}
	for _, n := range names {
		if v, ok := h[n]; ok {
			kept[n] = v
		}
	}
	clear(h)
	for n, v := range kept {
		h[n] = v
	}
}

// transport checks requests and bounds answers.
type transport struct {
	guard    *Guard
	base     *http.Transport
	maxBytes int64
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.guard.CheckURL(r.URL); err != nil {
		if r.Body != nil {
			err = errors.Join(err, r.Body.Close())
		}
		return nil, err
	}
	resp, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: t.maxBytes}
	return resp, nil
}

// CloseIdleConnections is what [http.Client.CloseIdleConnections] calls.
func (t *transport) CloseIdleConnections() { t.base.CloseIdleConnections() }

// boundedBody fails once more was read than there should be.
type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrTooLarge
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1] // one more, to tell a body of the limit from one beyond it
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n - 1, ErrTooLarge
	}
	return n, err
}
