package main

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// A route is a way to the upstream.
type route struct {
	name   string
	server *process // what the client talks to
	speaks protocol
}

// A protocol is what a client speaks on a route.
type protocol int

const (
	chatProtocol protocol = iota
	responsesProtocol
)

// path and body are the request for a streamed answer.
func (p protocol) path() string {
	if p == responsesProtocol {
		return "/v1/responses"
	}
	return "/v1/chat/completions"
}

func (p protocol) body(model, prompt string) ([]byte, error) {
	if p == responsesProtocol {
		return json.Marshal(map[string]any{"model": model, "stream": true, "store": false, "input": prompt})
	}
	return json.Marshal(map[string]any{
		"model": model, "stream": true, "stream_options": map[string]any{"include_usage": true},
		"messages": []any{map[string]any{"role": "user", "content": prompt}},
	})
}

// deltas is how many text deltas a tally has seen.
func (p protocol) deltas(t *tally) int {
	if p == responsesProtocol {
		return t.deltas
	}
	return max(t.frames-extraChunks, 0)
}

// begun reports whether a tally has seen the first text delta. In Chat
// Completions it comes after the role.
func (p protocol) begun(t *tally) bool {
	if p == responsesProtocol {
		return t.deltas > 0
	}
	return t.frames > 1
}

// newClient returns a client for many streams at once. It follows nothing in
// the environment: everything is on this machine.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		MaxIdleConns: 1024, MaxIdleConnsPerHost: 256, ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10,
		DisableCompression: true,
	}}
}

// A call is one request for a streamed answer.
type call struct {
	to     route
	model  string
	prompt string
	buffer int    // bytes to read at once; zero means 64 KiB
	first  func() // called at the first text delta; may be nil
}

// open sends the request and returns the answer once its headers are there. The
// caller closes its body.
func (c *call) open(ctx context.Context, client *http.Client) (*http.Response, error) {
	body, err := c.to.speaks.body(c.model, c.prompt)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.to.server.url()+c.to.speaks.path(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return nil, c.explain(ctx, fmt.Errorf("status %d: %s", resp.StatusCode, said))
	}
	return resp, nil
}

// read reads the answer to its end.
func (c *call) read(ctx context.Context, client *http.Client) (*tally, error) {
	resp, err := c.open(ctx, client)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	size := c.buffer
	if size == 0 {
		size = 64 << 10
	}
	buf := make([]byte, size)
	t := &tally{}
	first := c.first
	for {
		n, err := resp.Body.Read(buf)
		_, _ = t.Write(buf[:n])
		if first != nil && c.to.speaks.begun(t) {
			first()
			first = nil
		}
		switch {
		case err == io.EOF:
			return t, nil
		case err != nil:
			return t, c.explain(ctx, fmt.Errorf("after %d frames: %w", t.frames, err))
		}
	}
}

// complete reads the answer and fails unless it has all of n text deltas and
// the end that belongs to it.
func (c *call) complete(ctx context.Context, client *http.Client, n int) error {
	t, err := c.read(ctx, client)
	if err != nil {
		return err
	}
	switch got := c.to.speaks.deltas(t); {
	case got != n:
		return c.explain(ctx, fmt.Errorf("%d deltas came, not %d; the last event was %q", got, n, t.last))
	case !t.done:
		return c.explain(ctx, errors.New("the stream ended without [DONE]"))
	case c.to.speaks == responsesProtocol && t.last != "response.completed":
		return c.explain(ctx, fmt.Errorf("the answer ended with %q", t.last))
	}
	return nil
}

// explain says which call failed, and why: that the time is over, or that the
// server has died, is behind most other errors.
func (c *call) explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if dead := c.to.server.alive(); dead != nil {
		err = dead
	}
	return fmt.Errorf("%s, %s: %w", c.to.name, c.model, err)
}

// together runs work n times at once, waits for all of it and returns the first
// error, which cancels the rest.
func together(ctx context.Context, n int, work func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := work(ctx, i); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// sleep waits for d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// warmUp sends a few short replayed answers through a server, so that what it
// allocates once is not counted later.
func warmUp(ctx context.Context, client *http.Client, to route) error {
	play := script{playToken, 20}
	return together(ctx, 8, func(ctx context.Context, _ int) error {
		ask := call{to: to, model: play.String(), prompt: "play"}
		return ask.complete(ctx, client, play.n)
	})
}

// fetch sends a request without a body to one of our servers and decodes the
// answer into v, unless that is nil.
func fetch(ctx context.Context, client *http.Client, method, url string, v any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: status %d", method, url, resp.StatusCode)
	}
	if v == nil {
		return nil
	}
	return json.UnmarshalRead(resp.Body, v)
}
