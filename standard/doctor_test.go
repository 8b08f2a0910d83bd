package standard_test

import (
	"bytes"
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/standard"
)

type answerFunc = func(*fakeupstream.Exchange) fakeupstream.Reply

func small(p fakeupstream.Protocol) answerFunc {
	return fakeupstream.NewModel(&fakeupstream.ModelOptions{Protocol: p}).Answer
}

// withoutTools hides the tools of a request from the model, which then answers in
// text whatever the tool choice is.
func withoutTools(answer answerFunc) answerFunc {
	return func(x *fakeupstream.Exchange) fakeupstream.Reply {
		var body map[string]jsontext.Value
		if json.Unmarshal(x.Body, &body) != nil {
			return answer(x)
		}
		for _, member := range []string{"tools", "tool_choice", "parallel_tool_calls"} {
			delete(body, member)
		}
		data, err := json.Marshal(body)
		if err != nil {
			panic(err)
		}
		return answer(&fakeupstream.Exchange{Method: x.Method, Path: x.Path, Header: x.Header, Body: data})
	}
}

// listing changes what the list of models says.
func listing(answer answerFunc, from, to string) answerFunc {
	return func(x *fakeupstream.Exchange) fakeupstream.Reply {
		reply := answer(x)
		if x.Path == "/v1/models" {
			reply.Body = bytes.ReplaceAll(reply.Body, []byte(from), []byte(to))
		}
		return reply
	}
}

// refusing answers requests that contain the text with a status and a message.
func refusing(answer answerFunc, text string, status int, message string) answerFunc {
	return func(x *fakeupstream.Exchange) fakeupstream.Reply {
		if bytes.Contains(x.Body, []byte(text)) {
			return fakeupstream.JSON(status, fmt.Sprintf(`{"error":{"message":%q}}`, message))
		}
		return answer(x)
	}
}

// examined returns one diagnosis: of the model tiny.
func examined(t *testing.T, u config.Upstream) standard.Diagnosis {
	t.Helper()
	found, err := standard.Examine(t.Context(), upstreams(map[string]config.Upstream{"u": u}), &standard.ExamineOptions{Model: "tiny"})
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Diagnoses) != 1 {
		t.Fatalf("%d diagnoses, want 1: %+v", len(found.Diagnoses), found.Diagnoses)
	}
	return found.Diagnoses[0]
}

// TestExamine: the calls that are made tell apart what users run into.
func TestExamine(t *testing.T) {
	t.Parallel()
	const y, n, unknown = standard.Yes, standard.No, standard.Unknown
	chat := small(fakeupstream.Chat)
	good := standard.Diagnosis{
		Upstream: "u", Model: "tiny", Protocol: "chat", ContextWindow: 32768,
		Reachable: y, Streaming: y, Tools: y, Parallel: y, Structured: y, Reasoning: y,
	}
	for _, tt := range []struct {
		name   string
		answer answerFunc
		want   func(*standard.Diagnosis)
		advice string
	}{
		{"fine", chat, func(*standard.Diagnosis) {}, ""},
		{"fine and native", small(fakeupstream.Responses), func(d *standard.Diagnosis) { d.Protocol, d.ContextWindow = "responses", 0 }, ""},
		{"without tool calls", withoutTools(chat), func(d *standard.Diagnosis) { d.Tools, d.Parallel = n, unknown }, "answers in text where a tool call is required"},
		{"native without tool calls", withoutTools(small(fakeupstream.Responses)), func(d *standard.Diagnosis) {
			d.Protocol, d.ContextWindow, d.Tools, d.Parallel = "responses", 0, n, unknown
		}, "answers in text where a tool call is required"},
		{"small window", listing(chat, "32768", "4096"), func(d *standard.Diagnosis) { d.ContextWindow = 4096 }, "too small for Codex"},
		{
			"vLLM without a parser",
			listing(refusing(chat, `"tool_choice":"auto"`, 400, `"auto" tool choice requires --enable-auto-tool-choice`), "fakeupstream", "vllm"),
			func(d *standard.Diagnosis) { d.Tools, d.Parallel = n, unknown }, "Start vLLM with --enable-auto-tool-choice",
		},
		{"without schemas", refusing(chat, `"json_schema"`, 400, "what?"), func(d *standard.Diagnosis) { d.Structured = n }, `schema: "what?"`},
		{"without thoughts", refusing(chat, `"reasoning_effort"`, 400, "no thinking"), func(d *standard.Diagnosis) { d.Reasoning = n }, ""},
		{
			"wrong key", refusing(chat, `"messages"`, 401, "bad key sk-1"),
			func(d *standard.Diagnosis) {
				*d = standard.Diagnosis{Upstream: "u", Model: "tiny", Protocol: "chat", ContextWindow: 32768,
					Reachable: n, Streaming: unknown, Tools: unknown, Parallel: unknown, Structured: unknown, Reasoning: unknown}
			}, "refused the key (status 401)",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url, _ := play(t, tt.answer)
			got, want := examined(t, config.Upstream{URL: url, APIKey: "sk-1"}), good
			tt.want(&want)
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(standard.Diagnosis{}, "Advice")); diff != "" {
				t.Errorf("diagnosis (-want +got):\n%s", diff)
			}
			advice := strings.Join(got.Advice, "\n")
			if !strings.Contains(advice, tt.advice) || tt.advice == "" && advice != "" {
				t.Errorf("advice: got %q, want %q", advice, tt.advice)
			}
			if strings.Contains(advice, "sk-1") {
				t.Errorf("advice tells the key: %q", advice)
			}
		})
	}
}

// TestExamineOllama: what a model could have is not what it gets, and Ollama tells
// that only when it has loaded it.
func TestExamineOllama(t *testing.T) {
	t.Parallel()
	var loaded atomic.Bool
	chat := listing(listing(small(fakeupstream.Chat), `"max_model_len":32768`, `"parent":null`), "fakeupstream", "library")
	url, _ := play(t, func(x *fakeupstream.Exchange) fakeupstream.Reply {
		switch x.Path {
		case "/api/show":
			return fakeupstream.JSON(200, `{"model_info":{"qwen3.context_length":40960}}`)
		case "/api/ps":
			if loaded.Load() {
				return fakeupstream.JSON(200, `{"models":[{"name":"tiny","context_length":4096}]}`)
			}
			return fakeupstream.JSON(200, `{"models":[]}`)
		case "/v1/chat/completions":
			loaded.Store(true)
		}
		return chat(x)
	})
	d := examined(t, config.Upstream{URL: url})
	if d.ContextWindow != 4096 || d.UpTo {
		t.Errorf("window: got %d (up to: %t), want 4096", d.ContextWindow, d.UpTo)
	}
	if len(d.Advice) != 1 || !strings.Contains(d.Advice[0], "OLLAMA_CONTEXT_LENGTH") {
		t.Errorf("advice: %q", d.Advice)
	}
}

// TestExamineAll: every upstream and model has its row, as far as there are not too
// many, and one that is down does not hide the others.
func TestExamineAll(t *testing.T) {
	t.Parallel()
	var models []string
	for _, name := range []string{"a", "b", "c", "nomic-embed-text"} {
		models = append(models, fmt.Sprintf(`{"id":%q,"object":"model"}`, name))
	}
	chat := small(fakeupstream.Chat)
	up, srv := play(t, func(x *fakeupstream.Exchange) fakeupstream.Reply {
		if x.Path == "/v1/models" {
			return fakeupstream.JSON(200, `{"object":"list","data":[`+strings.Join(models, ",")+`]}`)
		}
		return chat(x)
	})
	locked, _ := play(t, func(*fakeupstream.Exchange) fakeupstream.Reply { return fakeupstream.JSON(401, `{}`) })
	c := upstreams(map[string]config.Upstream{"down": {URL: closedAddress(t)}, "locked": {URL: locked}, "up": {URL: up}})
	var asked []string
	found, err := standard.Examine(t.Context(), c, &standard.ExamineOptions{
		MaxModels: 4, Progress: func(model, what string) { asked = append(asked, model+": "+what) },
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range found.Diagnoses {
		got = append(got, fmt.Sprintf("%s %s %s", d.Upstream, d.Model, d.Reachable))
	}
	if diff := cmp.Diff([]string{"down  no", "locked  no", "up a yes", "up b yes"}, got); diff != "" {
		t.Errorf("diagnoses (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"c", "nomic-embed-text"}, found.Skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	if found.Healthy() {
		t.Error("healthy, although two upstreams do not answer")
	}
	want := []string{"a: text", "a: tool calls", "a: structured output", "a: reasoning", "b: text", "b: tool calls", "b: structured output", "b: reasoning"}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	if n := len(slices.DeleteFunc(srv.Requests(), func(x *fakeupstream.Exchange) bool { return x.Method != http.MethodPost || x.Path == "/v1/responses" })); n != len(want) {
		t.Errorf("%d calls, want %d", n, len(want))
	}
}

// TestExamineNames: a model goes by the name that clients use, and one that nobody
// serves is an error.
func TestExamineNames(t *testing.T) {
	t.Parallel()
	url, _ := playModel(t, fakeupstream.Chat)
	c := withModels(map[string]config.Upstream{"u": {URL: url}}, "fast", config.Model{Upstream: "u", Model: "tiny"})
	found, err := standard.Examine(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := found.Diagnoses; len(d) != 1 || d[0].Model != "fast" || d[0].ContextWindow != 32768 || !found.Healthy() {
		t.Errorf("got %+v", d)
	}
	if _, err := standard.Examine(t.Context(), c, &standard.ExamineOptions{Model: "tiny"}); err == nil || !strings.Contains(err.Error(), `"tiny"`) {
		t.Errorf("a name that is not served: got %v", err)
	}
}

// TestExamineInTime: a server that does not answer costs one call's time, and the
// caller's end is the end.
func TestExamineInTime(t *testing.T) {
	t.Parallel()
	chat := small(fakeupstream.Chat)
	url, srv := play(t, func(x *fakeupstream.Exchange) fakeupstream.Reply {
		if x.Path == "/v1/chat/completions" {
			return fakeupstream.Reply{Fault: fakeupstream.Fault{Kind: fakeupstream.StallFirst}}
		}
		return chat(x)
	})
	c := upstreams(map[string]config.Upstream{"u": {URL: url, Protocol: "chat"}})
	found, err := standard.Examine(t.Context(), c, &standard.ExamineOptions{Model: "tiny", Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if d := found.Diagnoses[0]; d.Reachable != standard.No || len(d.Advice) != 1 || !strings.Contains(d.Advice[0], "in time") {
		t.Errorf("got %+v", d)
	}

	ctx, cancel := context.WithCancel(t.Context())
	before := len(srv.Requests())
	go func() {
		// The list of models, then the call that stalls.
		if x, err := srv.Await(t.Context(), before+1); err == nil {
			<-x.Stalled()
		}
		cancel()
	}()
	if _, err := standard.Examine(ctx, c, &standard.ExamineOptions{Model: "tiny"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}
