package stdiorpc

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"
)

// ErrClosed is what a connection ends with that [Conn.Close] ended.
var ErrClosed = errors.New("the connection is closed")

// Options configures a connection. The zero value is usable.
type Options struct {
	// Notify gets the peer's notifications, in order, on the goroutine that reads:
	// it must not block. Params may be kept. Nil drops them.
	Notify func(method string, params jsontext.Value)
	// Handle gets the peer's requests, as Notify does; the answer may be given
	// later, or never. Nil refuses each as unknown.
	Handle func(r *Request)
	// MaxLine is the longest line in bytes that is read. Zero means 32 MiB.
	MaxLine int
	// SkipMalformed passes over lines that are no message. Otherwise one ends the
	// connection: what it would have said is lost.
	SkipMalformed bool
	// Version adds the member "jsonrpc": "2.0", which some peers want and some
	// do not.
	Version bool
	// WriteTime is how long the peer may take to read a line. Zero means 30 s.
	WriteTime time.Duration
	// CloseTime is how long the peer may take to leave by itself when the
	// connection is closed. Zero means 500 ms.
	CloseTime time.Duration
}

const (
	defaultMaxLine   = 32 << 20
	defaultWriteTime = 30 * time.Second
	defaultCloseTime = 500 * time.Millisecond
	// maxOut is how many lines may wait to be written.
	maxOut = 16
	// maxReplies is how many answers may wait for the peer to read.
	maxReplies = 256
)

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.MaxLine <= 0 {
		d.MaxLine = defaultMaxLine
	}
	if d.WriteTime <= 0 {
		d.WriteTime = defaultWriteTime
	}
	if d.CloseTime <= 0 {
		d.CloseTime = defaultCloseTime
	}
	return d
}

// A Transport carries the bytes of a connection. Reads and writes may block until
// Kill, which may be repeated, ends them.
type Transport interface {
	io.ReadWriter
	// CloseWrite tells the peer that nothing more will be written.
	CloseWrite() error
	// Kill ends the peer, and what it has started, at once.
	Kill()
	// Wait returns once nothing is left of the peer, with what is known of why it
	// ended; nil if it ended well. It is called once, after the last read.
	Wait() error
}

// A Conn is a connection to a peer. It is safe for concurrent use.
type Conn struct {
	t    Transport
	opts Options
	out  chan []byte // lines to write

	done    chan struct{}  // closed when the connection has ended
	workers sync.WaitGroup // the goroutines that read and write

	mu      sync.Mutex // guards what follows
	err     error      // why it ended; set before done is closed
	lastID  int64
	pending map[int64]chan message // of capacity 1
	replies int                    // answers that are not written yet
}

// New returns a connection over t, which it owns. The caller closes it.
func New(t Transport, opts *Options) *Conn {
	c := &Conn{
		t: t, opts: opts.withDefaults(), out: make(chan []byte, maxOut), done: make(chan struct{}), pending: map[int64]chan message{},
	}
	c.workers.Go(c.read)
	c.workers.Go(c.write)
	return c
}

// Done is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is why the connection ended, nil while it has not.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection: the peer is told, gets a moment to leave, and is
// killed if it stays. It returns when nothing is left of it. It may be repeated.
func (c *Conn) Close() {
	if c.Err() == nil {
		_ = c.t.CloseWrite() // a peer that cannot be told is killed
		patience := time.NewTimer(c.opts.CloseTime)
		defer patience.Stop()
		select {
		case <-c.done:
		case <-patience.C:
		}
	}
	c.Kill(ErrClosed)
	c.workers.Wait()
}

// Kill ends the connection, and the peer, at once for the given reason. It does
// not wait.
func (c *Conn) Kill(reason error) {
	c.end(reason)
	c.t.Kill()
}

// end ends the connection. The first reason holds.
func (c *Conn) end(reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = reason
		close(c.done)
	}
}

// Call calls a method of the peer and decodes what it answers into result, unless
// that is nil. It fails with an [*Error] if the peer refused, with the cause of
// ctx if that ended first, and with [Conn.Err] if the connection did.
func (c *Conn) Call(ctx context.Context, method string, params, result any) error {
	p, err := value(params)
	if err != nil {
		return err
	}
	id, answer, err := c.register()
	if err != nil {
		return err
	}
	defer c.forget(id)
	if err := c.send(ctx, message{ID: strconv.AppendInt(nil, id, 10), Method: method, Params: p}); err != nil {
		return err
	}
	var m message
	select {
	case m = <-answer:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.done:
		select {
		case m = <-answer: // it came before the end
		default:
			return c.Err()
		}
	}
	switch {
	case m.Error != nil:
		return m.Error
	case result == nil:
		return nil
	}
	if err := json.Unmarshal(m.Result, result); err != nil {
		return fmt.Errorf("the answer to %s cannot be read: %w", method, err)
	}
	return nil
}

// Notify tells the peer something that it does not answer.
func (c *Conn) Notify(ctx context.Context, method string, params any) error {
	p, err := value(params)
	if err != nil {
		return err
	}
	return c.send(ctx, message{Method: method, Params: p})
}

// register makes an id for a call and the place for its answer.
func (c *Conn) register() (int64, <-chan message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, nil, c.err
	}
	c.lastID++
	answer := make(chan message, 1)
	c.pending[c.lastID] = answer
	return c.lastID, answer, nil
}

func (c *Conn) forget(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

// send hands a line to the goroutine that writes. A line is written whole or the
// connection ends, so a caller that leaves does not cut one.
func (c *Conn) send(ctx context.Context, m message) error {
	if c.opts.Version {
		m.Version = "2.0"
	}
	line, err := json.Marshal(&m)
	if err != nil {
		return err
	}
	if err := c.Err(); err != nil {
		return err
	}
	select {
	case c.out <- append(line, '\n'):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.done:
		return c.Err()
	}
}

// write is the goroutine that writes.
func (c *Conn) write() {
	stuck := time.AfterFunc(time.Hour, func() { c.Kill(fmt.Errorf("the process did not read for %v", c.opts.WriteTime)) })
	stuck.Stop()
	defer stuck.Stop()
	for {
		select {
		case line := <-c.out:
			stuck.Reset(c.opts.WriteTime)
			_, err := c.t.Write(line)
			stuck.Stop()
			if err != nil {
				// Why it does not read is what the reading side will find out: the
				// process has ended, or it has only closed its input.
				c.t.Kill()
				return
			}
		case <-c.done:
			return
		}
	}
}
