package fakeupstream

import (
	"net/http"
	"sync/atomic"
)

// An Exchange is one request and what became of its answer. The exported
// fields are the request as it arrived and are read-only; the methods may be
// called from any goroutine, during the answer and after it.
type Exchange struct {
	Method string
	Path   string
	Query  string // raw, without "?"
	Header http.Header
	Body   []byte

	written atomic.Int64
	stalled chan struct{}
	gone    chan struct{}
	done    chan struct{}
}

func newExchange(r *http.Request, body []byte) *Exchange {
	return &Exchange{
		Method:  r.Method,
		Path:    r.URL.Path,
		Query:   r.URL.RawQuery,
		Header:  r.Header.Clone(),
		Body:    body,
		stalled: make(chan struct{}),
		gone:    make(chan struct{}),
		done:    make(chan struct{}),
	}
}

// Written returns how many body bytes the connection has taken. While a reader
// does not read it stops growing once the buffers between are full, which is
// how back-pressure is seen from here.
func (x *Exchange) Written() int64 { return x.written.Load() }

// Stalled is closed when a [Stall] or [StallFirst] fault has begun.
func (x *Exchange) Stalled() <-chan struct{} { return x.stalled }

// Gone is closed when the client's connection closed while the exchange was
// being answered: the call was cancelled.
func (x *Exchange) Gone() <-chan struct{} { return x.gone }

// Done is closed when the exchange is over, however it ended.
func (x *Exchange) Done() <-chan struct{} { return x.done }
