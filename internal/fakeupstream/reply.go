package fakeupstream

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// A Reply is one scripted answer. The zero value is status 200 with an empty
// JSON body.
type Reply struct {
	Status      int    // zero means 200
	ContentType string // empty means application/json
	Header      http.Header
	Delay       time.Duration // before the headers
	Body        []byte        // sent as it is
	// Stream, if not nil, writes the body instead of Body; every write is
	// flushed. It must return as soon as a write fails, with that error. Any
	// other error cuts the connection.
	Stream func(w *Writer) error
	Fault  Fault
}

// JSON returns a reply with a JSON body.
func JSON(status int, body string) Reply {
	return Reply{Status: status, Body: []byte(body)}
}

// SSE returns a reply whose body is an event stream, sent as it is.
func SSE(stream string) Reply {
	return Reply{ContentType: eventStream, Body: []byte(stream)}
}

// Script answers the first request with the first reply, the next with the
// second, and so on. When none is left it answers with status 500 and says so.
// Concurrent requests take replies in the order in which they arrive.
func Script(replies ...Reply) func(*Exchange) Reply {
	var next atomic.Int64
	return func(x *Exchange) Reply {
		n := int(next.Add(1))
		if n > len(replies) {
			return JSON(http.StatusInternalServerError, fmt.Sprintf(
				`{"error":{"message":"fakeupstream: request %d, but the script has %d replies","type":"server_error","param":null,"code":null}}`,
				n, len(replies)))
		}
		return replies[n-1]
	}
}

// mayHaveBody reports whether HTTP allows a body with the status.
func (r *Reply) mayHaveBody() bool {
	return r.Status != http.StatusNoContent && r.Status != http.StatusNotModified
}

// declaresLength reports whether the headers may announce the body's length. A
// fault that strikes at its very end would go unnoticed if they did.
func (r *Reply) declaresLength() bool {
	if r.Stream != nil || !r.mayHaveBody() {
		return false
	}
	switch r.Fault.Kind {
	case None:
		return true
	case Cut, Stall:
		return r.Fault.After < len(r.Body)
	default:
		return false
	}
}

const eventStream = "text/event-stream"
