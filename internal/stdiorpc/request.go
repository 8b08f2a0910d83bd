package stdiorpc

import (
	"context"
	"encoding/json/jsontext"
	"fmt"
)

// A Request is a call that the peer made.
type Request struct {
	Method string
	Params jsontext.Value

	id   jsontext.Value
	conn *Conn
}

// Reply answers the call.
func (r *Request) Reply(result any) {
	v, err := value(result)
	if err != nil {
		r.Refuse(CodeInvalidRequest, "The answer could not be encoded.")
		return
	}
	if v == nil {
		v = jsontext.Value("null")
	}
	r.send(message{ID: r.id, Result: v})
}

// Refuse answers the call with an error.
func (r *Request) Refuse(code int, text string) {
	r.send(message{ID: r.id, Error: &Error{Code: code, Message: text}})
}

// send answers without waiting: the goroutine that reads must not wait for the
// peer to read. A peer that goes on asking without reading is ended.
func (r *Request) send(m message) {
	c := r.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	if c.replies == maxReplies {
		go c.Kill(fmt.Errorf("the process asked %d times without reading an answer", maxReplies))
		return
	}
	c.replies++
	c.workers.Go(func() { // counted before the end, for which Close takes the same lock
		_ = c.send(context.Background(), m) // it fails only when the connection has ended
		c.mu.Lock()
		defer c.mu.Unlock()
		c.replies--
	})
}

func (c *Conn) handle(r *Request) {
	if c.opts.Handle == nil {
		r.Refuse(CodeMethodNotFound, "There is no method "+r.Method+" here.")
		return
	}
	c.opts.Handle(r)
}
