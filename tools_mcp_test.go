package antiphon_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/fakemcp"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/tool"
	"github.com/antiphon-dev/antiphon/tool/mcptool"
)

func TestMain(m *testing.M) {
	fakemcp.Main()
	os.Exit(m.Run())
}

// mcpTools are the tools of a real MCP server under the label s, whose calls need
// approval unless they are of echo, image or fail.
func mcpTools(t *testing.T, called func(string)) []tool.Executor {
	t.Helper()
	web := httptest.NewServer(fakemcp.Handler(called))
	t.Cleanup(web.Close)
	e, err := mcptool.New(&mcptool.Options{
		Servers: []mcptool.Server{
			{Label: "s", URL: web.URL, Approval: &responses.MCPApproval{Never: &responses.MCPFilter{ToolNames: []string{"echo", "image", "fail"}}}},
			{Label: "cmd", Command: []string{os.Args[0]}, Env: map[string]string{fakemcp.Variable: "1"}, Approval: &responses.MCPApproval{Mode: responses.ApprovalNever}},
			{Label: "gone", Command: []string{"/no/such/file"}},
		},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return []tool.Executor{e}
}

// TestToolsMCP uses a real MCP server through the gateway, streamed and not, over
// both kinds of upstream: its list, calls, errors, images, and a server that cannot
// be reached (R43, R63).
func TestToolsMCP(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		for name, tt := range map[string]struct{ input, tools string }{
			"call":          {`[[call echo {\"text\":\"hello\"}]]`, `{"type":"mcp","server_label":"s","allowed_tools":["echo"]}`},
			"error":         {`[[call fail {\"text\":\"no\"}]]`, `{"type":"mcp","server_label":"s","allowed_tools":["fail"]}`},
			"image":         {`[[call image {}]]`, `{"type":"mcp","server_label":"s","allowed_tools":["image"]}`},
			"not allowed":   {`[[call slow {}]]`, `{"type":"mcp","server_label":"s","allowed_tools":["echo"]}`},
			"two servers":   {`[[call s__echo {\"text\":\"a\"}]][[and cmd__echo {\"text\":\"b\"}]]`, `{"type":"mcp","server_label":"s","allowed_tools":["echo"]},{"type":"mcp","server_label":"cmd","allowed_tools":["echo"]}`},
			"killed":        {`[[call die {}]][[call echo {\"text\":\"back\"}]]`, `{"type":"mcp","server_label":"cmd","allowed_tools":["die","echo"]}`},
			"unreachable":   {`no tool here`, `{"type":"mcp","server_label":"gone"}`},
			"needs consent": {`[[call slow {\"text\":\"x\",\"delay\":\"1ms\"}]]`, `{"type":"mcp","server_label":"s","allowed_tools":["slow"]}`},
			"chosen":        {`go`, `{"type":"mcp","server_label":"s","allowed_tools":["echo","fail"]}],"tool_choice":{"type":"mcp","server_label":"s","name":"fail"},"parallel_tool_calls":true,"include":["reasoning.encrypted_content"`},
		} {
			t.Run(p.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				fake := tinyModel(p.speaks)
				if name == "image" && p.speaks == fakeupstream.Chat {
					// The small model takes the message with the image for the user's next word.
					fake = fakeupstream.NewServer(perRequest(calls("s__image", "{}"), says("I see.", "stop")))
				}
				g := startTools(t, p.driver, fake, antiphon.Options{Tools: mcpTools(t, nil)})
				_, events := g.answer(t, fmt.Sprintf(`{"model":"tiny","store":false,"input":"%s","tools":[%s]}`, tt.input, tt.tools))
				if last := fake.Requests()[len(fake.Requests())-1].Body; name == "image" && !bytes.Contains(last, []byte("data:image/png;base64,iVBORw0KGgpub3QgcmVhbGx5")) {
					t.Errorf("the model did not get the image: %s", last)
				}
				compareGolden(t, "mcp-"+strings.ReplaceAll(name, " ", "-")+"-"+p.name, brief(events))
			})
		}
	}
}

// TestToolsApproval: a call waits for the client, and is run or not as it says,
// whether the client goes on from the stored response or sends all items back
// (R43).
func TestToolsApproval(t *testing.T) {
	t.Parallel()
	for _, p := range protocols {
		for _, stored := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, stored %t", p.name, stored), func(t *testing.T) {
				t.Parallel()
				var ran atomic.Int64
				fake := tinyModel(p.speaks)
				g := startTools(t, p.driver, fake, antiphon.Options{
					Store: memstore.NewStore(nil), Tools: mcpTools(t, func(string) { ran.Add(1) }),
				})
				const tools = `"tools":[{"type":"mcp","server_label":"s","allowed_tools":["slow"]}]`
				const prompt = `{"type":"message","role":"user","content":"[[call slow {\"text\":\"x\",\"delay\":\"1ms\"}]]"}`
				first, _ := g.answerOnce(t, fmt.Sprintf(`{"model":"tiny","store":%t,"input":[%s],%s}`, stored, prompt, tools))
				request, ok := first.Output[len(first.Output)-1].(*responses.MCPApprovalRequest)
				if !ok || first.Status != responses.StatusCompleted || ran.Load() != 0 {
					t.Fatalf("%s after %d calls:\n%s", first.Status, ran.Load(), briefItems(first.Output))
				}
				goOn := func(approve string) string {
					answer := `{"type":"mcp_approval_response","approval_request_id":"` + request.ID + `",` + approve + `}`
					if stored {
						return fmt.Sprintf(`{"model":"tiny","previous_response_id":%q,"input":[%s],%s}`, first.ID, answer, tools)
					}
					return fmt.Sprintf(`{"model":"tiny","store":false,"input":[%s,%s,%s],%s}`, prompt, itemsJSON(t, first.Output), answer, tools)
				}
				approved, _ := g.answerOnce(t, goOn(`"approve":true`))
				want := "mcp_call s.slow({\"text\":\"x\",\"delay\":\"1ms\"}) completed = \"x\"\nmessage completed \"The tool answered: x\"\n"
				if got := briefItems(approved.Output); got != want || ran.Load() != 1 {
					t.Errorf("approved, after %d calls:\n%s", ran.Load(), got)
				}
				if id := approved.Output[0].(*responses.MCPCall).ApprovalRequestID; id == nil || *id != request.ID {
					t.Errorf("the call does not name its approval: %v", id)
				}
				denied, _ := g.answerOnce(t, goOn(`"approve":false,"reason":"not today"`))
				if got := briefItems(denied.Output); !strings.Contains(got, "the user denied it, saying: not today") || ran.Load() != 1 {
					t.Errorf("denied, after %d calls:\n%s", ran.Load(), got)
				}
			})
		}
	}
}

// itemsJSON is how a client sends items back.
func itemsJSON(t *testing.T, items []responses.Item) string {
	t.Helper()
	b, err := (&responses.Response{Output: items}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range responses.Members(b) {
		if name == "output" {
			return string(bytes.Trim(v, "[]"))
		}
	}
	return ""
}

// TestToolsSecrets: what a request has for its server is neither echoed nor sent to
// the model (R43).
func TestToolsSecrets(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(fakemcp.Handler(nil))
	defer web.Close()
	e, err := mcptool.New(&mcptool.Options{Requests: true, Allow: []string{strings.TrimPrefix(web.URL, "http://")}})
	if err != nil {
		t.Fatal(err)
	}
	fake := tinyModel(fakeupstream.Chat)
	g := startTools(t, protocols[0].driver, fake, antiphon.Options{Store: memstore.NewStore(nil), Tools: []tool.Executor{e}})
	status, body := g.postJSON(t, `{"model":"tiny","input":"[[call echo {\"text\":\"x\"}]]","tools":[{"type":"mcp","server_label":"mine","server_url":"`+web.URL+
		`","headers":{"X-Key":"s3cret"},"authorization":"s3cret","require_approval":"never","allowed_tools":["echo"]}]}`)
	if status != 200 || !bytes.Contains(body, []byte(`"output":"x"`)) {
		t.Fatalf("%d %s", status, body)
	}
	for what, text := range map[string]string{"the answer": string(body), "the log": g.logs.String(), "the request to the model": string(fake.Requests()[0].Body)} {
		if strings.Contains(text, "s3cret") {
			t.Errorf("%s has the secret: %s", what, text)
		}
	}
}
