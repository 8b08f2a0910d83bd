// Package fakemcp is a real MCP server, built with the SDK, whose tools do what
// tests need: right, wrong, slowly, at length, and never. It is for tests.
package fakemcp

import (
	"context"
	"encoding/json/v2"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Variable is the environment variable that makes a test binary a server; see
// [Main].
const Variable = "FAKEMCP"

// Main serves over standard input and output, and exits, if the environment says
// so. A TestMain calls it first, so that its own binary can be a server's command.
func Main() {
	if os.Getenv(Variable) == "" {
		return
	}
	if err := New(nil).Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, "fakemcp:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// ServerSide are functions of goroutines that the server keeps for sessions whose
// client left without a word, as a client must whose answer was cut off.
var ServerSide = []string{
	"github.com/modelcontextprotocol/go-sdk/mcp.(*streamableServerConn).Read",
	"github.com/modelcontextprotocol/go-sdk/internal/jsonrpc2.(*Connection).Wait",
}

// Handler serves over streamable HTTP. called, if not nil, is told of each call.
func Handler(called func(tool string)) http.Handler {
	s := New(called)
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
}

// Pixel is the image that the tool image returns.
var Pixel = []byte("\x89PNG\r\n\x1a\nnot really")

type arguments struct {
	Text  string `json:"text"`
	Bytes int    `json:"bytes"`
	Delay string `json:"delay"`
}

// tools by name: what they are said to do, whether they say that they change
// nothing, and what they do.
var tools = map[string]struct {
	description string
	readOnly    bool
	run         func(ctx context.Context, a arguments) (*mcp.CallToolResult, error)
}{
	"echo": {"Says the text again.", true, func(_ context.Context, a arguments) (*mcp.CallToolResult, error) {
		return said(a.Text), nil
	}},
	"fail": {"Fails, saying the text.", false, func(_ context.Context, a arguments) (*mcp.CallToolResult, error) {
		r := said(a.Text)
		r.IsError = true
		return r, nil
	}},
	"image": {"Returns an image.", true, func(context.Context, arguments) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{
			&mcp.TextContent{Text: "a pixel"}, &mcp.ImageContent{Data: Pixel, MIMEType: "image/png"},
		}}, nil
	}},
	"slow": {"Says the text after the delay.", true, func(ctx context.Context, a arguments) (*mcp.CallToolResult, error) {
		d, err := time.ParseDuration(a.Delay)
		if err != nil {
			return nil, err
		}
		select {
		case <-time.After(d):
			return said(a.Text), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}},
	"huge": {"Returns as many bytes.", true, func(_ context.Context, a arguments) (*mcp.CallToolResult, error) {
		return said(strings.Repeat("x", a.Bytes)), nil
	}},
	"never": {"Does not return.", true, func(ctx context.Context, _ arguments) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}},
	"die": {"Ends the server.", false, func(context.Context, arguments) (*mcp.CallToolResult, error) {
		os.Exit(3)
		return nil, nil
	}},
	"environment": {"Names the variables of the server's environment.", true, func(context.Context, arguments) (*mcp.CallToolResult, error) {
		var names []string
		for _, v := range os.Environ() {
			name, _, _ := strings.Cut(v, "=")
			names = append(names, name)
		}
		slices.Sort(names)
		return said(strings.Join(names, " ")), nil
	}},
	"spawn": {"Starts a process that outlives the server, and tells its id.", false, func(context.Context, arguments) (*mcp.CallToolResult, error) {
		cmd := exec.Command("sleep", "600")
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		return said(fmt.Sprint(cmd.Process.Pid)), nil
	}},
}

func said(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

var schema = map[string]any{
	"type": "object",
	"properties": map[string]any{
		"text": map[string]any{"type": "string"}, "bytes": map[string]any{"type": "integer"}, "delay": map[string]any{"type": "string"},
	},
}

// New returns the server.
func New(called func(tool string)) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "fake", Version: "1"}, nil)
	for name, t := range tools {
		def := &mcp.Tool{Name: name, Description: t.description, InputSchema: schema, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: t.readOnly}}
		s.AddTool(def, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if called != nil {
				called(name)
			}
			var a arguments
			if err := json.Unmarshal(r.Params.Arguments, &a); err != nil {
				return nil, err
			}
			return t.run(ctx, a)
		})
	}
	return s
}
