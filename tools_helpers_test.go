package antiphon_test

import (
	"context"
	"encoding/json/jsontext"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/tool"
	"github.com/antiphon-dev/antiphon/upstream"
)

// A must-show of the tool loop is a test whose name begins with TestTools.

// startTools serves a gateway with tools in front of fake.
func startTools(t *testing.T, driver func(e upstream.Endpoint) upstream.Driver, fake *fakeupstream.Server, opts antiphon.Options) *testGateway {
	t.Helper()
	u, err := url.Parse(serve(t, fake) + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	client := upstream.NewClient()
	t.Cleanup(client.CloseIdleConnections)
	opts.Drivers = map[string]upstream.Driver{"fake": driver(upstream.Endpoint{Base: u, Client: client})}
	return serveGateway(t, &opts)
}

// tinyModel is the small model in one protocol.
func tinyModel(speaks fakeupstream.Protocol) *fakeupstream.Server {
	return fakeupstream.NewServer(fakeupstream.NewModel(&fakeupstream.ModelOptions{Protocol: speaks}).Answer)
}

// textSchema is that of a tool that takes a text.
var textSchema = jsontext.Value(`{"type":"object","properties":{"text":{"type":"string"}}}`)

// function is a tool of Go.
func function(name string, run func(ctx context.Context, text string) (*tool.Result, error)) tool.Function {
	return tool.Function{
		Tool: tool.Tool{Name: name, Description: "Does " + name + ".", Parameters: textSchema},
		Run: func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
			var args struct {
				Text string `json:"text"`
			}
			if err := c.Decode(&args); err != nil {
				return nil, err
			}
			return run(ctx, args.Text)
		},
	}
}

func echoTool() tool.Function {
	return function("echo", func(_ context.Context, text string) (*tool.Result, error) { return tool.Text("<" + text + ">"), nil })
}

func executors(t *testing.T, list ...tool.Function) []tool.Executor {
	t.Helper()
	e, err := tool.Functions(list...)
	if err != nil {
		t.Fatal(err)
	}
	return []tool.Executor{e}
}

// brief tells events in one line each.
func brief(events []responses.Event) string {
	var b strings.Builder
	for _, ev := range events {
		fmt.Fprintf(&b, "%s", strings.TrimPrefix(string(ev.Type), "response."))
		if ev.Type.ItemEvent() {
			fmt.Fprintf(&b, " %d", ev.OutputIndex)
		}
		if ev.Item != nil {
			fmt.Fprintf(&b, " %s", briefItem(ev.Item))
		}
		if ev.Text != "" {
			fmt.Fprintf(&b, " %q", ev.Text)
		}
		if ev.Type.Terminal() {
			fmt.Fprintf(&b, " %s", ev.Response.Status)
			if d := ev.Response.IncompleteDetails; d != nil {
				fmt.Fprintf(&b, " %s", d.Reason)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// briefItem tells an item in a few words.
func briefItem(it responses.Item) string {
	switch it := it.(type) {
	case *responses.MCPCall:
		s := fmt.Sprintf("mcp_call %s.%s(%s) %s", it.ServerLabel, it.Name, it.Arguments, it.Status)
		if it.Output != nil {
			s += fmt.Sprintf(" = %.80q", *it.Output)
		}
		if len(it.Error) > 0 && it.Error.Kind() != 'n' {
			s += " ! " + string(it.Error)
		}
		return s
	case *responses.FunctionCall:
		return fmt.Sprintf("function_call %s(%s) %s", it.Name, it.Arguments, it.Status)
	case *responses.MCPListTools:
		var names []string
		for _, l := range it.Tools {
			names = append(names, l.Name)
		}
		return fmt.Sprintf("mcp_list_tools %s [%s] %s", it.ServerLabel, strings.Join(names, " "), it.Error)
	case *responses.MCPApprovalRequest:
		return fmt.Sprintf("mcp_approval_request %s.%s(%s)", it.ServerLabel, it.Name, it.Arguments)
	case *responses.Message:
		return fmt.Sprintf("message %s %q", it.Status, responses.TextOf(it.Content.Parts))
	}
	return it.Type() + " " + string(responses.ItemStatus(it))
}

func briefItems(items []responses.Item) string {
	var b strings.Builder
	for _, it := range items {
		b.WriteString(briefItem(it) + "\n")
	}
	return b.String()
}

// answer posts a request both ways and returns the response, after checking that
// the stream obeys the grammar and folds to the JSON answer (R12, R13).
func (g *testGateway) answer(t *testing.T, body string) (*responses.Response, []responses.Event) {
	t.Helper()
	status, whole := g.postJSON(t, withStream(t, []byte(body), false))
	if status != http.StatusOK {
		t.Fatalf("%d: %s", status, whole)
	}
	resp := g.post(t.Context(), t, withStream(t, []byte(body), true))
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(resp.Body)
		t.Fatalf("%d: %s", resp.StatusCode, b)
	}
	events, _ := readStream(t, resp.Body)
	var fold responses.Fold
	for i := range events {
		fold.Add(&events[i])
	}
	folded, err := fold.Response()
	if err != nil {
		t.Fatal(err)
	}
	b, err := folded.Encode()
	if err != nil {
		t.Fatal(err)
	}
	fixed := func(b []byte) []byte { // times differ between two requests
		out, err := responses.SetMembers(b, responses.Member{Name: "created_at"}, responses.Member{Name: "completed_at"})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	sameJSON(t, "the fold of the stream and the JSON answer", fixed(b), fixed(whole))
	for _, it := range folded.Output {
		if it.Type() == responses.TypeFunctionCall && strings.Contains(briefItem(it), "echo") {
			t.Errorf("a call of ours is shown as the client's: %s", briefItem(it))
		}
	}
	return folded, events
}

// compareGolden compares text with a file below testdata/tools.
func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", "tools", name+".golden")
	if flag.Lookup("update").Value.String() == "true" { // upstreamtest has the flag
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// calls is a chat answer that calls functions, each given as name and arguments.
func calls(pairs ...string) fakeupstream.Reply {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		args, _ := jsontext.AppendQuote(nil, pairs[i+1])
		fmt.Fprintf(&b, `data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"id":"call_%d","type":"function","function":{"name":%q,"arguments":%s}}]}}]}`+"\n\n", i/2, i/2, pairs[i], args)
	}
	b.WriteString(`data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}` + "\n\ndata: [DONE]\n\n")
	return fakeupstream.SSE(b.String())
}

// says is a chat answer of text.
func says(text, finish string) fakeupstream.Reply {
	return fakeupstream.SSE(fmt.Sprintf(`data: {"id":"c","choices":[{"index":0,"delta":{"content":%q}}]}`+"\n\n"+
		`data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":%q}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`+"\n\ndata: [DONE]\n\n", text, finish))
}

// perRequest answers each of the gateway's requests of one client's request with
// the replies in turn, for as many requests as there are.
func perRequest(replies ...fakeupstream.Reply) func(*fakeupstream.Exchange) fakeupstream.Reply {
	var n atomic.Int64
	return func(*fakeupstream.Exchange) fakeupstream.Reply {
		return replies[int(n.Add(1)-1)%len(replies)]
	}
}

// answerOnce is answer for an upstream that cannot answer twice.
func (g *testGateway) answerOnce(t *testing.T, body string) (*responses.Response, []responses.Event) {
	t.Helper()
	resp := g.post(t.Context(), t, withStream(t, []byte(body), true))
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(resp.Body)
		t.Fatalf("%d: %s", resp.StatusCode, b)
	}
	events, _ := readStream(t, resp.Body)
	return events[len(events)-1].Response, events
}

// toolsSeen tells what an upstream was sent: its tools, the choice, and the
// messages after the user's.
func toolsSeen(t *testing.T, body []byte) string {
	t.Helper()
	var out []string
	for name, v := range responses.Members(body) {
		switch name {
		case "tools", "tool_choice", "messages", "max_tokens":
			out = append(out, name+" "+string(v))
		}
	}
	return strings.Join(out, "\n  ")
}
