package mcptool

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/antiphon-dev/antiphon/tool"
)

// Bounds of what a server may offer.
const (
	maxTools     = 512
	maxListBytes = 2 << 20
)

// connect reaches a server.
func (e *Executor) connect(ctx context.Context, src *source, s *session) (*link, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "antiphon", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{}, // nothing that a server could ask of us
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			s.stale.Store(true)
		},
	})
	if src.URL != "" {
		conn, err := client.Connect(ctx, &mcp.StreamableClientTransport{
			Endpoint: src.URL, HTTPClient: src.client, MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: e.opts.MaxMessage,
		}, nil)
		if err != nil {
			src.client.CloseIdleConnections()
			return nil, err
		}
		return &link{ClientSession: conn, done: src.client.CloseIdleConnections}, nil
	}
	p, err := start(&src.Server, e.opts.Logger)
	if err != nil {
		return nil, err
	}
	conn, err := client.Connect(ctx, &mcp.IOTransport{Reader: p, Writer: p, MaxLineLength: e.opts.MaxMessage}, nil)
	if err != nil {
		_ = p.Close() // never fails
		return nil, err
	}
	return &link{ClientSession: conn, gone: p.Exited()}, nil
}

// with runs f in the session of an owner with a server. A session that turns out
// to be broken is not used again.
func (e *Executor) with(ctx context.Context, owner string, src *source, f func(*session, *link) error) error {
	s, err := e.pool.take(owner + "\x00" + src.key)
	if err != nil {
		return err
	}
	defer e.pool.put(s)
	conn, err := s.connected(ctx, func(ctx context.Context) (*link, error) { return e.connect(ctx, src, s) })
	if err == nil {
		err = f(s, conn)
	}
	if err == nil {
		return nil
	}
	if _, answered := errors.AsType[*jsonrpc.Error](err); !answered && ctx.Err() == nil {
		e.pool.lose(s)
	}
	return explain(ctx, err)
}

// list returns the tools of a server, as they were not long ago.
func (e *Executor) list(ctx context.Context, owner string, src *source) (tools []*mcp.Tool, err error) {
	err = e.with(ctx, owner, src, func(s *session, conn *link) error {
		if !s.stale.Swap(false) {
			s.mu.Lock()
			kept, fresh := s.tools, time.Since(s.listed) < e.opts.ListTime
			s.mu.Unlock()
			if fresh {
				tools = kept
				return nil
			}
		}
		if tools, err = listTools(ctx, conn); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tools, s.listed = tools, time.Now()
		return nil
	})
	return tools, err
}

func listTools(ctx context.Context, conn *link) ([]*mcp.Tool, error) {
	var tools []*mcp.Tool
	size := 0
	for t, err := range conn.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		all, err := json.Marshal(t) // all of it is kept
		if err != nil {
			return nil, &tool.Error{Protocol: true, Message: "the server's list of tools cannot be read"}
		}
		size += len(all)
		if len(tools) == maxTools || size > maxListBytes {
			return nil, &tool.Error{Protocol: true, Message: fmt.Sprintf("the server lists more than %d tools, or more than %d bytes of them", maxTools, maxListBytes)}
		}
		tools = append(tools, t)
	}
	return tools, nil
}

// call runs a call on its server.
func (e *Executor) call(ctx context.Context, owner string, src *source, c *tool.Call) (res *tool.Result, err error) {
	err = e.with(ctx, owner, src, func(_ *session, conn *link) error {
		args := c.Arguments
		if len(args) == 0 {
			args = jsontext.Value("{}")
		}
		got, err := conn.CallTool(ctx, &mcp.CallToolParams{Name: c.Name, Arguments: args})
		if err != nil {
			return err
		}
		res, err = resultOf(got)
		return err
	})
	return res, err
}

// explain is what may be said of a failure: what the server itself said, and
// nothing of where it is.
func explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*tool.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return &tool.Error{Protocol: true, Code: int(e.Code), Message: e.Message}
	}
	switch {
	case errors.Is(err, errBusy) || errors.Is(err, errClosed) || errors.Is(err, errCommand):
		return err
	case errors.Is(err, mcp.ErrConnectionClosed) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return &tool.Error{Protocol: true, Message: "the tool server ended the connection, or sent more than is read"}
	}
	return &tool.Error{Message: "the tool server could not be reached, or did not answer properly"}
}
