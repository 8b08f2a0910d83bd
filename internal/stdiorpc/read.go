package stdiorpc

import (
	"bytes"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// read is the goroutine that reads.
func (c *Conn) read() {
	lines := newLineReader(c.t, c.opts.MaxLine)
	var err error
	for err == nil && c.Err() == nil {
		var line []byte
		if line, err = lines.next(); err != nil {
			break
		}
		if err = c.take(line); c.opts.SkipMalformed {
			err = nil
		}
		lines.release()
	}
	if !errors.Is(err, io.EOF) {
		c.t.Kill()
	}
	ended := c.t.Wait()
	c.end(reason(err, ended))
}

// reason joins what the reading side knows of the end of a peer.
func reason(read, ended error) error {
	if read == nil || errors.Is(read, io.EOF) {
		if ended == nil {
			return errors.New("the process ended")
		}
		return fmt.Errorf("the process ended: %w", ended)
	}
	if ended == nil {
		return read
	}
	return fmt.Errorf("%w (%w)", read, ended)
}

// take acts on one line.
func (c *Conn) take(line []byte) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return malformed(line, err)
	}
	switch {
	case m.Method != "" && m.hasID():
		c.handle(&Request{Method: m.Method, Params: m.Params, id: m.ID, conn: c})
	case m.Method != "":
		if c.opts.Notify != nil {
			c.opts.Notify(m.Method, m.Params)
		}
	case m.hasID():
		c.answered(m)
	default:
		return malformed(line, errors.New("it has neither a method nor an id"))
	}
	return nil
}

// answered hands an answer to the call that waits for it. One that nobody waits
// for any more is dropped, and so is one to a question that was never asked.
func (c *Conn) answered(m message) {
	id, err := strconv.ParseInt(string(m.ID), 10, 64)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer, ok := c.pending[id]; ok {
		delete(c.pending, id)
		answer <- m
	}
}

// malformed says which line could not be read, shortened.
func malformed(line []byte, err error) error {
	const most = 120
	if len(line) > most {
		return fmt.Errorf("a line is no message: %q… (%d bytes): %w", line[:most], len(line), err)
	}
	return fmt.Errorf("a line is no message: %q: %w", line, err)
}
