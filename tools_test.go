package antiphon_test

import (
	"bytes"
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"net/http"
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

// TestToolsSealsOfTheRun: what the gateway seals for the rounds of one response is
// not stored: another replica may have another key, and would report a loss (R40).
func TestToolsSealsOfTheRun(t *testing.T) {
	t.Parallel()
	sealer, err := seal.New(make([]byte, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	kept := memstore.NewStore(nil)
	driver := func(e upstream.Endpoint) upstream.Driver { return chat.New(e, &chat.Options{Sealer: sealer}) }
	g := startTools(t, driver, tinyModel(fakeupstream.Chat), antiphon.Options{Store: kept, Tools: executors(t, echoTool())})
	for include, want := range map[string]bool{"": false, `,"include":["reasoning.encrypted_content"]`: true} {
		response, _ := g.answerOnce(t, `{"model":"tiny","input":"go [[insist]][[reason]][[call echo {\"text\":\"a\"}]]","tools":[{"type":"function","name":"echo"}]`+include+`}`)
		record, err := kept.Get(t.Context(), "default", response.ID)
		if err != nil {
			t.Fatal(err)
		}
		output := ""
		for _, it := range record.Output {
			output += string(it.Data)
		}
		if strings.Contains(output, "encrypted_content") != want || !strings.Contains(output, `"type":"reasoning"`) {
			t.Errorf("%q: stored as %s", include, output)
		}
	}
}

// TestToolsDeleted: a response that is deleted while it is made ends with an error
// that says so, and is not there afterwards (R42).
func TestToolsDeleted(t *testing.T) {
	t.Parallel()
	kept := memstore.NewStore(nil)
	spy := &spyStore{Store: kept, wrote: func(r *store.Record) {
		if r.Status == responses.StatusCompleted {
			if err := kept.Delete(t.Context(), "default", r.ID); err != nil {
				t.Error(err)
			}
		}
	}}
	fake := fakeupstream.NewServer(perRequest(calls("echo", `{"text":"1"}`), says("done", "stop")))
	g := startTools(t, protocols[0].driver, fake, antiphon.Options{Store: spy, Tools: executors(t, echoTool())})
	resp := g.post(t.Context(), t, `{"model":"m","input":"go","tools":[{"type":"function","name":"echo"}]}`)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 404 || !strings.Contains(string(body), "The response was deleted") || !strings.Contains(string(body), `"param":null`) {
		t.Errorf("%d %s (%v)", resp.StatusCode, body, err)
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
