package antiphon_test

import (
	"bytes"
	"context"
	"encoding/json/jsontext"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/internal/seal"
	"github.com/antiphon-dev/antiphon/internal/sse"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/tool"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/chat"
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

// TestToolsLoop is a loop of 20 rounds with 3 calls each. Each round begins only
// after the client has the whole of the one before; usage is that of all (R44).
func TestToolsLoop(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			const rounds = 20
			var prompt strings.Builder
			prompt.WriteString("go [[insist]]")
			for i := range rounds {
				fmt.Fprintf(&prompt, "[[reason]][[call echo {\"text\":\"%d.1\"}]][[and echo {\"text\":\"%d.2\"}]][[and echo {\"text\":\"%d.3\"}]]", i, i, i)
			}
			quoted, _ := jsontext.AppendQuote(nil, prompt.String())
			body := fmt.Sprintf(`{"model":"tiny","store":false,"input":%s,"tools":[{"type":"function","name":"echo"}]}`, quoted)

			// The model answers in round n once the client has seen 3n results.
			model := fakeupstream.NewModel(&fakeupstream.ModelOptions{Protocol: p.speaks})
			var seen, asked atomic.Int64
			gated := atomic.Bool{}
			fake := fakeupstream.NewServer(func(x *fakeupstream.Exchange) fakeupstream.Reply {
				if gated.Load() {
					round := asked.Add(1) - 1
					for began := time.Now(); seen.Load() < 3*round; time.Sleep(time.Millisecond) {
						if time.Since(began) > 10*time.Second {
							return fakeupstream.JSON(http.StatusInternalServerError, `{"error":{"message":"the client has not seen the round before"}}`)
						}
					}
				}
				return model.Answer(x)
			})
			g := startTools(t, p.driver, fake, antiphon.Options{Tools: executors(t, echoTool())})
			response, events := g.answer(t, body)
			compareGolden(t, "loop-"+p.name, brief(events))
			if n := len(response.Output); n != rounds*4+1 {
				t.Errorf("%d items, want a reasoning and 3 calls in each round and a message", n)
			}
			gated.Store(true)
			resp := g.post(t.Context(), t, withStream(t, []byte(body), true))
			defer resp.Body.Close()
			var last responses.EventType
			for frame, err := range sse.Read(resp.Body, nil) {
				if err != nil {
					t.Fatal(err)
				}
				if string(frame.Data) == "[DONE]" {
					break
				}
				ev, err := responses.DecodeEvent(bytes.Clone(frame.Data))
				if err != nil {
					t.Fatal(err)
				}
				if _, ok := ev.Item.(*responses.MCPCall); ok && ev.Type == responses.EventItemDone {
					seen.Add(1)
				}
				last = ev.Type
			}
			if last != responses.EventCompleted || seen.Load() != 3*rounds {
				t.Errorf("ended with %s after %d results", last, seen.Load())
			}
			if response.Usage == nil || response.Usage.OutputTokens < rounds*3 {
				t.Errorf("usage is %+v, want the sum over %d rounds", response.Usage, rounds+1)
			}
		})
	}
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

// TestToolsEnds has the exact items and events of every way in which a round can
// go (R44, R45).
func TestToolsEnds(t *testing.T) {
	t.Parallel()
	const ours = `{"type":"function","name":"echo"}`
	const theirs = `{"type":"function","name":"client","parameters":{"type":"object"}}`
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	twenty := make([]fakeupstream.Reply, 0, 21)
	for range 21 {
		twenty = append(twenty, calls("echo", "{}"))
	}
	for _, tt := range []struct {
		name    string
		tools   string
		more    string // members of the request
		limits  antiphon.ToolLimits
		replies []fakeupstream.Reply
	}{
		{name: "mixed turn", tools: ours + "," + theirs, replies: []fakeupstream.Reply{calls("echo", `{"text":"a"}`, "client", `{"x":1}`)}},
		{name: "suppressed call", tools: ours + "," + theirs,
			more:    `,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"echo"}]}`,
			replies: []fakeupstream.Reply{calls("client", `{}`, "echo", `{"text":"b"}`), says("done", "stop")}},
		{name: "suppressed by a list of names", tools: ours + "," + theirs, more: `,"allowed_tools":["client"]`,
			replies: []fakeupstream.Reply{calls("echo", `{}`), says("sorry", "stop")}},
		{name: "suppressed by none", tools: ours, more: `,"tool_choice":"none"`,
			replies: []fakeupstream.Reply{calls("echo", `{}`), says("sorry", "stop")}},
		{name: "suppressed by another choice", tools: ours + `,{"type":"function","name":"fail"}`, more: `,"tool_choice":{"type":"function","name":"echo"}`,
			replies: []fakeupstream.Reply{calls("fail", `{}`, "echo", `{}`), says("ok", "stop")}},
		{name: "time-out", tools: `{"type":"function","name":"sleep"}`, limits: antiphon.ToolLimits{CallTime: 30 * time.Millisecond},
			replies: []fakeupstream.Reply{calls("sleep", `{}`), says("too slow", "stop")}},
		{name: "never ends", tools: `{"type":"function","name":"stuck"}`, limits: antiphon.ToolLimits{CallTime: 30 * time.Millisecond},
			replies: []fakeupstream.Reply{calls("stuck", `{}`), says("gave up", "stop")}},
		{name: "100 MB", tools: `{"type":"function","name":"huge"}`,
			replies: []fakeupstream.Reply{calls("huge", `{}`), says("too much", "stop")}},
		{name: "fails", tools: `{"type":"function","name":"fail"}`,
			replies: []fakeupstream.Reply{calls("fail", `{"text":"no"}`, "fail", `not JSON`), says("I see", "stop")}},
		{name: "panics", tools: `{"type":"function","name":"panic"}`,
			replies: []fakeupstream.Reply{calls("panic", `{}`), says("oh", "stop")}},
		{name: "21st call", tools: ours, more: `,"max_tool_calls":20`, replies: twenty},
		{name: "more calls in a turn than allowed", tools: ours, more: `,"max_tool_calls":1`,
			replies: []fakeupstream.Reply{calls("echo", `{"text":"1"}`, "echo", `{"text":"2"}`)}},
		{name: "too many rounds", tools: ours, limits: antiphon.ToolLimits{Rounds: 2},
			replies: []fakeupstream.Reply{calls("echo", `{}`), calls("echo", `{}`)}},
		{name: "too many tokens", tools: ours, limits: antiphon.ToolLimits{Tokens: 20},
			replies: []fakeupstream.Reply{calls("echo", `{}`), calls("echo", `{}`)}},
		{name: "too much output", tools: ours, more: `,"max_output_tokens":20`,
			replies: []fakeupstream.Reply{calls("echo", `{}`)}},
		{name: "too long", tools: ours, limits: antiphon.ToolLimits{Time: time.Nanosecond},
			replies: []fakeupstream.Reply{calls("echo", `{}`)}},
		{name: "cut off", tools: ours,
			replies: []fakeupstream.Reply{fakeupstream.SSE(`data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"echo","arguments":"{}"}},{"index":1,"id":"b","type":"function","function":{"name":"echo","arguments":"{\"te"}}]}}]}` +
				"\n\n" + `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}` + "\n\ndata: [DONE]\n\n")}},
		{name: "a tool that is nobody's", tools: ours, replies: []fakeupstream.Reply{calls("invented", `{}`)}},
		{name: "forced once", tools: ours, more: `,"tool_choice":"required"`,
			replies: []fakeupstream.Reply{calls("echo", `{}`), says("ok", "stop")}},
		{name: "in place of a hosted tool", tools: `{"type":"web_search"}`,
			replies: []fakeupstream.Reply{calls("search", `{"text":"x"}`), says("found", "stop")}},
		{name: "a function of the client with that name", tools: `{"type":"function","name":"echo","parameters":{"type":"object"}}`,
			replies: []fakeupstream.Reply{calls("echo", `{}`)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			search := echoTool()
			search.Name, search.StandsFor = "search", []string{"web_search"}
			fake := fakeupstream.NewServer(perRequest(tt.replies...))
			g := startTools(t, protocols[0].driver, fake, antiphon.Options{ToolLimits: tt.limits, Tools: executors(t, echoTool(), search,
				function("fail", func(_ context.Context, text string) (*tool.Result, error) { return nil, errors.New("failed: " + text) }),
				function("sleep", func(ctx context.Context, _ string) (*tool.Result, error) { <-ctx.Done(); return nil, ctx.Err() }),
				function("stuck", func(context.Context, string) (*tool.Result, error) { <-never; return nil, nil }),
				function("huge", func(context.Context, string) (*tool.Result, error) {
					return tool.Text(strings.Repeat("x", 100<<20)), nil
				}),
				function("panic", func(context.Context, string) (*tool.Result, error) { panic("oh") }),
			)})
			body := `{"model":"m","store":false,"input":"go","tools":[` + tt.tools + `]` + tt.more + `}`
			response, events := g.answerOnce(t, body)
			var requests strings.Builder
			for i, x := range fake.Requests() {
				if i > 1 && i < len(fake.Requests())-1 {
					continue
				}
				fmt.Fprintf(&requests, "request %d: %s\n", i, toolsSeen(t, x.Body))
			}
			compareGolden(t, "ends-"+strings.ReplaceAll(tt.name, " ", "-"), brief(events)+"\n"+requests.String())
			if response.Usage != nil && response.Usage.TotalTokens != int64(15*len(fake.Requests())) {
				t.Errorf("usage is %+v after %d requests", response.Usage, len(fake.Requests()))
			}
		})
	}
}

// TestToolsReport: a client is told that a call was suppressed (R45).
func TestToolsReport(t *testing.T) {
	t.Parallel()
	fake := fakeupstream.NewServer(perRequest(calls("other", `{}`), says("ok", "stop")))
	g := startTools(t, protocols[0].driver, fake, antiphon.Options{})
	resp := g.post(t.Context(), t, `{"model":"m","store":false,"input":"go","tools":[{"type":"function","name":"one","parameters":{}},{"type":"function","name":"other","parameters":{}}],`+
		`"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"one"}]}}`)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Antiphon-Degraded"); !strings.Contains(got, "suppressed") || bytes.Contains(body, []byte("other(")) {
		t.Errorf("the header says %q", got)
	}
	if !bytes.Contains(body, []byte(`"text":"ok"`)) || bytes.Contains(body, []byte("function_call")) {
		t.Errorf("got %s", body)
	}
}

// TestToolsBounds: what tools return is bounded for a response as a whole, what is
// not text is no way to break it, and a large result gets through (R44).
func TestToolsBounds(t *testing.T) {
	t.Parallel()
	odd := function("odd", func(context.Context, string) (*tool.Result, error) {
		return &tool.Result{Content: []responses.Part{
			&responses.InputText{Text: "caf\xe9"}, &responses.InputImage{ImageURL: "data:\xff"}, &responses.InputImage{ImageURL: "data:ok"},
		}}, nil
	})
	large := function("large", func(context.Context, string) (*tool.Result, error) { return tool.Text(strings.Repeat("y", 1<<20)), nil })
	fake := fakeupstream.NewServer(perRequest(calls("odd", "{}", "large", "{}", "large", "{}"), says("ok", "stop")))
	g := startTools(t, protocols[0].driver, fake, antiphon.Options{
		State: antiphon.State{ContextBytes: 3 << 19}, Tools: executors(t, odd, large),
	})
	response, _ := g.answerOnce(t, `{"model":"m","store":false,"input":"go","tools":[{"type":"function","name":"odd"},{"type":"function","name":"large"}]}`)
	first, second, third := response.Output[0].(*responses.MCPCall), response.Output[1].(*responses.MCPCall), response.Output[2].(*responses.MCPCall)
	if *first.Output != "caf\uFFFD\n[image]\n[image]" || len(first.Content) != 3 {
		t.Errorf("what is not text: %s", briefItem(first))
	}
	if second.Output == nil || len(*second.Output) != 1<<20 {
		t.Errorf("a large result: %.200s", briefItem(second))
	}
	if third.Status != responses.StatusFailed || !strings.Contains(string(third.Error), "together") {
		t.Errorf("more than a response may have: %.200s", briefItem(third))
	}
	var many []string
	for i := range 129 {
		many = append(many, fmt.Sprintf(`{"type":"function","name":"f%d"}`, i))
	}
	every := make([]tool.Function, 129)
	for i := range every {
		every[i] = echoTool()
		every[i].Name = fmt.Sprintf("f%d", i)
	}
	g = startTools(t, protocols[0].driver, tinyModel(fakeupstream.Chat), antiphon.Options{Tools: executors(t, every...)})
	if status, body := g.postJSON(t, `{"model":"m","store":false,"input":"go","tools":[`+strings.Join(many, ",")+`]}`); status != http.StatusBadRequest || !bytes.Contains(body, []byte("tools[128]")) {
		t.Errorf("too many tools: %d %s", status, body)
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

// TestToolsOrder: a chat model gets the results of its calls in the order and the
// shape that chat servers accept, with its reasoning, whatever it said between
// them, and images in a message of their own (R44).
func TestToolsOrder(t *testing.T) {
	t.Parallel()
	image := function("image", func(context.Context, string) (*tool.Result, error) {
		return &tool.Result{Content: []responses.Part{
			&responses.InputText{Text: "a pixel"}, &responses.InputImage{ImageURL: "data:image/png;base64,AAAA"},
		}}, nil
	})
	const frames = `data: {"id":"c","choices":[{"index":0,"delta":{"reasoning":"I should call both."}}]}

data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"image","arguments":"{}"}}]}}]}

data: {"id":"c","choices":[{"index":0,"delta":{"content":"One moment."}}]}

data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"echo","arguments":"{\"text\":\"x\"}"}}]}}]}

data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: [DONE]

`
	fake := fakeupstream.NewServer(perRequest(fakeupstream.SSE(frames), says("ok", "stop")))
	sealer, err := seal.New(make([]byte, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	driver := func(e upstream.Endpoint) upstream.Driver { return chat.New(e, &chat.Options{Sealer: sealer}) }
	g := startTools(t, driver, fake, antiphon.Options{Tools: executors(t, echoTool(), image)})
	_, events := g.answerOnce(t, `{"model":"m","store":false,"input":"go","tools":[{"type":"function","name":"echo"},{"type":"function","name":"image"}]}`)
	for _, ev := range events {
		if r, ok := ev.Item.(*responses.Reasoning); ok && r.EncryptedContent != "" {
			t.Error("the client got encrypted reasoning that it did not ask for")
		}
	}
	compareGolden(t, "order", brief(events)+"\n"+toolsSeen(t, fake.Requests()[1].Body)+"\n")
}

// TestToolsMixed: a client answers its call of a mixed turn, and the model gets its
// reasoning and both results as one turn, whoever kept them (R40, R44).
func TestToolsMixed(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			fake := tinyModel(p.speaks)
			g := startTools(t, p.driver, fake, antiphon.Options{Store: memstore.NewStore(nil), Tools: executors(t, echoTool())})
			const tools = `"tools":[{"type":"function","name":"echo"},{"type":"function","name":"own","parameters":{"type":"object","properties":{}}}]`
			const prompt = `{"type":"message","role":"user","content":"go [[insist]][[reason]][[call echo {\"text\":\"a\"}]][[and own {}]]"}`
			first, _ := g.answerOnce(t, `{"model":"tiny","input":[`+prompt+`],`+tools+`}`)
			call, ok := first.Output[len(first.Output)-1].(*responses.FunctionCall)
			if !ok || call.Name != "own" {
				t.Fatalf("got\n%s", briefItems(first.Output))
			}
			result := `{"type":"function_call_output","call_id":"` + call.CallID + `","output":"mine"}`
			for how, body := range map[string]string{
				"stored": fmt.Sprintf(`{"model":"tiny","previous_response_id":%q,"input":[%s],%s}`, first.ID, result, tools),
				"resent": fmt.Sprintf(`{"model":"tiny","store":false,"input":[%s,%s,%s],%s}`, prompt, itemsJSON(t, first.Output), result, tools),
			} {
				second, _ := g.answerOnce(t, body)
				if got, want := briefItems(second.Output), "message completed \"The tool answered: <a>, mine\"\n"; got != want {
					t.Errorf("%s: got\n%s", how, got)
				}
			}
		})
	}
}

// TestToolsSteps: each finished step is in the store before the next round begins,
// and the response there is whole in the end (R40, R44).
func TestToolsSteps(t *testing.T) {
	t.Parallel()
	kept := memstore.NewStore(nil)
	var mu sync.Mutex
	var steps []string
	spy := &spyStore{Store: kept, wrote: func(r *store.Record) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, fmt.Sprintf("%s %d", r.Status, len(r.Output)))
	}}
	var atRound []string
	replies := perRequest(calls("echo", `{"text":"1"}`), calls("echo", `{"text":"2"}`), says("done", "stop"))
	fake := fakeupstream.NewServer(func(x *fakeupstream.Exchange) fakeupstream.Reply {
		mu.Lock()
		atRound = append(atRound, strings.Join(steps, ", "))
		mu.Unlock()
		return replies(x)
	})
	g := startTools(t, protocols[0].driver, fake, antiphon.Options{Store: spy, Tools: executors(t, echoTool())})
	response, _ := g.answerOnce(t, `{"model":"m","input":"go","tools":[{"type":"function","name":"echo"}]}`)
	want := []string{"", "in_progress 1", "in_progress 1, in_progress 2"}
	if diff := cmp.Diff(want, atRound); diff != "" {
		t.Errorf("what was stored when each round began (-want +got):\n%s", diff)
	}
	record, err := kept.Get(t.Context(), "default", response.ID)
	if err != nil {
		t.Fatal(err)
	}
	if record.Status != responses.StatusCompleted || len(record.Output) != 3 {
		t.Errorf("stored as %s with %d items", record.Status, len(record.Output))
	}
	// What is stored goes on: the model sees the calls as its own.
	replies = perRequest(says("again", "stop"))
	g.answerOnce(t, `{"model":"m","input":"more","previous_response_id":"`+response.ID+`"}`)
	body := string(fake.Requests()[3].Body)
	if !strings.Contains(body, `"tool_calls"`) || !strings.Contains(body, `\u003c1\u003e`) && !strings.Contains(body, `<1>`) || strings.Contains(body, "mcp_call") {
		t.Errorf("the next response's model got %s", body)
	}
}

type spyStore struct {
	store.Store
	wrote func(*store.Record)
}

func (s *spyStore) Create(ctx context.Context, owner string, r *store.Record) error {
	s.wrote(r)
	return s.Store.Create(ctx, owner, r)
}

func (s *spyStore) Update(ctx context.Context, owner string, r *store.Record) error {
	s.wrote(r)
	return s.Store.Update(ctx, owner, r)
}

// TestToolsCancel: a client that leaves stops the tools and the upstream.
func TestToolsCancel(t *testing.T) {
	t.Parallel()
	running, stopped := make(chan struct{}), make(chan struct{})
	wait := function("wait", func(ctx context.Context, _ string) (*tool.Result, error) {
		close(running)
		<-ctx.Done()
		close(stopped)
		return nil, ctx.Err()
	})
	fake := fakeupstream.NewServer(perRequest(calls("wait", `{}`)))
	g := startTools(t, protocols[0].driver, fake, antiphon.Options{Tools: executors(t, wait)})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resp := g.post(ctx, t, `{"model":"m","store":false,"stream":true,"input":"go","tools":[{"type":"function","name":"wait"}]}`)
	defer resp.Body.Close()
	<-running
	cancel()
	select {
	case <-stopped:
	case <-time.After(5 * time.Second):
		t.Error("the tool still runs")
	}
}

// TestToolsParallel: no more calls run at once than are allowed, and no fewer.
func TestToolsParallel(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	busy := function("busy", func(_ context.Context, text string) (*tool.Result, error) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(30 * time.Millisecond)
		now.Add(-1)
		return tool.Text(text), nil
	})
	var six []string
	for i := range 6 {
		six = append(six, "busy", fmt.Sprintf(`{"text":"%d"}`, i))
	}
	fake := fakeupstream.NewServer(perRequest(calls(six...), says("ok", "stop")))
	g := startTools(t, protocols[0].driver, fake, antiphon.Options{ToolLimits: antiphon.ToolLimits{Parallel: 2}, Tools: executors(t, busy)})
	response, _ := g.answerOnce(t, `{"model":"m","store":false,"input":"go","tools":[{"type":"function","name":"busy"}]}`)
	if most.Load() != 2 {
		t.Errorf("%d ran at once, want 2", most.Load())
	}
	for i, it := range response.Output[:6] {
		if got := *it.(*responses.MCPCall).Output; got != fmt.Sprint(i) {
			t.Errorf("call %d is %s", i, got)
		}
	}
}

// TestToolsRefusals: what cannot be offered is refused by name, before any model is
// called (R43, R45).
func TestToolsRefusals(t *testing.T) {
	t.Parallel()
	fake := tinyModel(fakeupstream.Chat)
	g := startTools(t, protocols[0].driver, fake, antiphon.Options{Tools: executors(t, echoTool())})
	for body, param := range map[string]string{
		`"tools":[{"type":"file_search","vector_store_ids":["x"]}]`:                                                                                                           "tools[0]",
		`"tools":[{"type":"mcp","server_label":"nobody"}]`:                                                                                                                    "tools[0]",
		`"tools":[{"type":"function","name":"echo"},{"type":"function","name":"echo"}]`:                                                                                       "tools[1]",
		`"tools":[{"type":"function","name":"echo"},{"type":"function","name":"echo","parameters":{}}]`:                                                                       "tools[1]",
		`"tools":[{"type":"function","name":"echo"}],"allowed_tools":"echo"`:                                                                                                  "allowed_tools",
		`"tools":[{"type":"function","name":"echo"}],"input":[{"type":"mcp_approval_response","approval_request_id":"mcpr_00000000000070008000000000000000","approve":true}]`: "input[0].approval_request_id",
	} {
		if !strings.Contains(body, `"input"`) {
			body += `,"input":"x"`
		}
		status, answer := g.postJSON(t, `{"model":"m","store":false,`+body+`}`)
		if status != http.StatusBadRequest || !bytes.Contains(answer, []byte(`"param":"`+param+`"`)) {
			t.Errorf("%s: got %d %s", body, status, answer)
		}
	}
	if n := len(fake.Requests()); n > 0 {
		t.Errorf("the model was called %d times", n)
	}
}

// TestToolsRelay: a request that asks for a tool of the gateway is run; one that
// does not is relayed as before.
func TestToolsRelay(t *testing.T) {
	t.Parallel()
	fake := tinyModel(fakeupstream.Responses)
	g := startTools(t, protocols[1].driver, fake, antiphon.Options{Tools: executors(t, echoTool())})
	g.postJSON(t, `{"model":"m","store":false,"input":"say hi","tools":[{"type":"function","name":"echo","parameters":{}}]}`)
	if log := g.logs.String(); !strings.Contains(log, "relayed=true") {
		t.Errorf("a request without our tools was run: %s", log)
	}
	_, body := g.postJSON(t, `{"model":"m","store":false,"input":"[[call echo {\"text\":\"hi\"}]]","tools":[{"type":"function","name":"echo"}]}`)
	if !bytes.Contains(body, []byte(`"mcp_call"`)) {
		t.Errorf("got %s", body)
	}
}
