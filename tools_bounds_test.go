package antiphon_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/tool"
)

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
