package mcptool

import (
	"encoding/base64"
	"encoding/json/v2"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/tool"
)

// resultOf is a server's result in our words. What those have no word for is
// named, so that the model knows that it is there.
func resultOf(r *mcp.CallToolResult) (*tool.Result, error) {
	out := &tool.Result{IsError: r.IsError}
	for _, c := range r.Content {
		out.Content = append(out.Content, partOf(c))
	}
	if len(out.Content) == 0 && r.StructuredContent != nil {
		b, err := json.Marshal(r.StructuredContent, json.Deterministic(true))
		if err != nil {
			return nil, &tool.Error{Protocol: true, Message: "the server's result cannot be read"}
		}
		out.Content = append(out.Content, text("%s", b))
	}
	return out, nil
}

func partOf(c mcp.Content) responses.Part {
	switch c := c.(type) {
	case *mcp.TextContent:
		return text("%s", c.Text)
	case *mcp.ImageContent:
		return &responses.InputImage{ImageURL: dataURL(c.MIMEType, c.Data)}
	case *mcp.AudioContent:
		return text("[audio of type %s, %d bytes, which cannot be passed on]", c.MIMEType, len(c.Data))
	case *mcp.ResourceLink:
		return text("[resource %s: %s]", c.Name, c.URI)
	case *mcp.EmbeddedResource:
		return resource(c.Resource)
	}
	return text("[content of type %T, which cannot be passed on]", c)
}

func resource(r *mcp.ResourceContents) responses.Part {
	switch {
	case r == nil:
		return text("[an empty resource]")
	case len(r.Blob) > 0:
		return &responses.InputFile{Filename: r.URI, FileData: dataURL(r.MIMEType, r.Blob)}
	}
	return text("%s", r.Text)
}

func text(format string, args ...any) responses.Part {
	return &responses.InputText{Text: fmt.Sprintf(format, args...)}
}

func dataURL(media string, data []byte) string {
	return "data:" + media + ";base64," + base64.StdEncoding.EncodeToString(data)
}
