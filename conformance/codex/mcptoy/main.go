// Command mcptoy is a Model Context Protocol server on stdin and stdout with
// one tool, get_weather, that is always right about the weather: it is sunny.
// It is the least that a client accepts as a server.
package main

import (
	"bufio"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mcptoy:", err)
		os.Exit(1)
	}
}

// message is a JSON-RPC request or, without an id, a notification.
type message struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
	Params params         `json:"params"`
}

type params struct {
	ProtocolVersion string `json:"protocolVersion"`
	Name            string `json:"name"`
	Arguments       struct {
		City string `json:"city"`
	} `json:"arguments"`
}

type reply struct {
	Version string         `json:"jsonrpc"`
	ID      jsontext.Value `json:"id"`
	Result  any            `json:"result,omitzero"`
	Error   *rpcError      `json:"error,omitzero"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

type object map[string]any

// serve answers requests, one line each, until the input ends.
func serve(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Errorf("message %q: %w", line, err)
		}
		if m.ID == nil {
			continue
		}
		answer, err := json.Marshal(m.answer())
		if err != nil {
			return err
		}
		if _, err := out.Write(append(answer, '\n')); err != nil {
			return err
		}
	}
}

func (m *message) answer() reply {
	r := reply{Version: "2.0", ID: m.ID}
	switch m.Method {
	case "initialize":
		r.Result = object{
			"protocolVersion": m.Params.ProtocolVersion, // whichever the client speaks: this little is in all of them
			"capabilities":    object{"tools": object{}},
			"serverInfo":      object{"name": "mcptoy", "version": "1"},
		}
	case "ping":
		r.Result = object{}
	case "tools/list":
		r.Result = object{"tools": []object{{
			"name":        "get_weather",
			"description": "Tells the weather in a city.",
			"inputSchema": object{
				"type":       "object",
				"properties": object{"city": object{"type": "string"}},
				"required":   []string{"city"},
			},
		}}}
	case "tools/call":
		r.Result = object{"content": []object{{"type": "text", "text": "Sunny in " + m.Params.Arguments.City}}}
	default:
		r.Error = &rpcError{Code: -32601, Message: "no method " + m.Method}
	}
	return r
}
