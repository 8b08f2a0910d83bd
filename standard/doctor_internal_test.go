package standard

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a good model does.
func said(text string, pieces int) *outcome { return &outcome{status: 200, text: text, pieces: pieces} }
func called(arguments ...string) *outcome   { return &outcome{status: 200, calls: arguments} }
func failed(status int, message string) *outcome {
	return &outcome{status: status, failed: true, message: message}
}

const (
	rome    = `{"city":"Rome"}`
	oslo    = `{"city":"Oslo"}`
	fitting = `{"city":"Rome","inhabitants":2800000}`
)

func fine() *checkup {
	return &checkup{
		upstream: &Upstream{Name: "u", URL: "http://u/v1", Protocol: "chat"},
		model:    "m", window: 32768,
		text: said("1 2 3", 3), tools: called(rome, oslo), schema: said(fitting, 5), think: &outcome{status: 200, reasoned: true},
	}
}

// marks spells the marks of a diagnosis: reachable, streaming, tools, parallel,
// structured, reasoning.
func marks(d Diagnosis) string {
	short := map[Mark]string{Yes: "y", No: "n", Unknown: "-"}
	var b strings.Builder
	for _, m := range []Mark{d.Reachable, d.Streaming, d.Tools, d.Parallel, d.Structured, d.Reasoning} {
		b.WriteString(short[m])
	}
	return b.String()
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*checkup)
		marks  string
		advice []string // what each piece of advice contains
	}{
		{"fine", func(*checkup) {}, "yyyyyy", nil},
		{"no reasoning", func(c *checkup) { c.think = said("9.9", 1) }, "yyyyyn", nil},
		{"reasoning refused", func(c *checkup) { c.think = failed(400, "does not support thinking") }, "yyyyyn", nil},
		{"reasons unasked", func(c *checkup) { c.text.reasoned, c.think = true, nil }, "yyyyyy", nil},
		{"one call at a time", func(c *checkup) { c.tools = called(rome) }, "yyynyy", nil},
		{"in one piece", func(c *checkup) { c.text.pieces = 1 }, "ynyyyy", []string{"comes in one piece"}},
		{"said nothing", func(c *checkup) { c.text = &outcome{status: 200} }, "y-yyyy", nil},

		{"no tool calls", func(c *checkup) { c.tools, c.forced = said("Sunny", 2), said("Sunny", 2) }, "yyn-yy", []string{"answers in text where a tool call is required"}},
		{"only forced", func(c *checkup) { c.tools, c.forced = said("Sunny", 2), called(rome) }, "yyn-yy", []string{"only when it is forced to"}},
		{"wrong arguments", func(c *checkup) { c.tools, c.forced = called(`{"place":"Rome"}`), called(`Rome`) }, "yyn-yy", []string{"arguments that are not what the tool asks for"}},
		{
			"vLLM without a parser",
			func(c *checkup) {
				c.upstream.Engine, c.tools, c.forced = vllm, failed(400, `"auto" tool choice requires …`), called(rome)
			},
			"yyn-yy", []string{"--enable-auto-tool-choice and --tool-call-parser"},
		},
		{
			"llama.cpp without templates",
			func(c *checkup) {
				c.upstream.Engine, c.tools, c.forced = llamacpp, failed(500, "tools param requires --jinja flag"), failed(500, "")
			},
			"yyn-yy", []string{`"tools param requires --jinja flag". Start llama-server with --jinja`},
		},
		{
			"Ollama's model has none",
			func(c *checkup) {
				c.upstream.Engine, c.tools, c.forced = ollama, failed(400, "m does not support tools"), failed(400, "")
			},
			"yyn-yy", []string{"ollama show MODEL"},
		},
		{"tools refused", func(c *checkup) { c.tools, c.forced = failed(422, ""), failed(422, "") }, "yyn-yy", []string{"It does not take tools. "}},
		{"tools too slow", func(c *checkup) { c.tools = &outcome{status: 200, failed: true, late: true} }, "yy--yy", []string{"took too long"}},
		{"tools over the limit", func(c *checkup) { c.tools = failed(429, "slow down") }, "yy--yy", nil},

		{"words around the JSON", func(c *checkup) { c.schema = said("Here: "+fitting, 4) }, "yyyyny", []string{"JSON schema. Codex"}},
		{"members too many", func(c *checkup) { c.schema = said(`{"city":"Rome","inhabitants":1,"x":2}`, 4) }, "yyyyny", []string{"JSON schema"}},
		{"members too few", func(c *checkup) { c.schema = said(`{"city":"Rome"}`, 4) }, "yyyyny", []string{"JSON schema"}},
		{"schema refused", func(c *checkup) { c.schema = failed(400, "no \x1b[2Jsuch format") }, "yyyyny", []string{`JSON schema: "no \x1b[2Jsuch format". Codex`}},

		{"small window", func(c *checkup) { c.window = 4096 }, "yyyyyy", []string{"4096 tokens is too small for Codex"}},
		{"Ollama's small window", func(c *checkup) { c.upstream.Engine, c.window = ollama, 4096 }, "yyyyyy", []string{"OLLAMA_CONTEXT_LENGTH=32768"}},
		{"vLLM's small window", func(c *checkup) { c.upstream.Engine, c.window = vllm, 8192 }, "yyyyyy", []string{"--max-model-len 32768"}},
		{"llama.cpp's small window", func(c *checkup) { c.upstream.Engine, c.window = llamacpp, 8192 }, "yyyyyy", []string{"--ctx-size 32768"}},
		{"window that may be small", func(c *checkup) { c.upstream.Engine, c.upTo = ollama, true }, "yyyyyy", []string{"gives 4096 on most machines"}},
		{"window not known", func(c *checkup) { c.window = 0 }, "yyyyyy", nil},

		{
			"down",
			func(c *checkup) {
				*c = checkup{upstream: c.upstream}
				c.upstream.Err = errors.New("connection refused")
			},
			"n-----", []string{"cannot be reached at http://u/v1 (connection refused)"},
		},
		{"wants a key", func(c *checkup) { *c = checkup{upstream: c.upstream, listed: 401} }, "n-----", []string{"refused the key (status 401)"}},
		{"lists nothing", func(c *checkup) { *c = checkup{upstream: c.upstream, listed: 404} }, "y-----", []string{"Name one with --model"}},
		{"broken", func(c *checkup) { *c = checkup{upstream: c.upstream, listed: 503} }, "n-----", []string{"It failed (status 503)"}},
		{"went down", func(c *checkup) { alone(c, failed(0, "The upstream could not be reached.")) }, "n-----", []string{"(The upstream could not be reached). Start it"}},
		{"refuses the key", func(c *checkup) { alone(c, failed(403, "x")) }, "n-----", []string{"--key-env"}},
		{"unknown model", func(c *checkup) { alone(c, failed(404, "no m here")) }, "n-----", []string{`no such model: "no m here".`}},
		{"out of credit", func(c *checkup) { alone(c, failed(429, "pay")) }, "n-----", []string{`(status 429): "pay"`}},
		{"fails", func(c *checkup) { alone(c, failed(500, strings.Repeat("x", 1000))) }, "n-----", []string{`xxx…". Its own log`}},
		{"too slow", func(c *checkup) { alone(c, &outcome{failed: true, late: true}) }, "n-----", []string{"--timeout"}},
		{"slow", func(c *checkup) { alone(c, &outcome{status: 200, failed: true, late: true, pieces: 2}) }, "yy----", []string{"took too long"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := fine()
			tt.change(c)
			d := judge(c)
			if got := marks(d); got != tt.marks {
				t.Errorf("marks: got %s, want %s", got, tt.marks)
			}
			if len(d.Advice) != len(tt.advice) {
				t.Fatalf("advice: got %q, want %d pieces", d.Advice, len(tt.advice))
			}
			for i, want := range tt.advice {
				if !strings.Contains(d.Advice[i], want) {
					t.Errorf("advice: got %q, want %q in it", d.Advice[i], want)
				}
			}
		})
	}
}

// alone leaves a checkup with nothing but its first call.
func alone(c *checkup, text *outcome) {
	*c = checkup{upstream: c.upstream, model: c.model, window: c.window, text: text}
}

// TestOutcomes: an answer is read as a client would read it.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	frame := func(typ, data string) string { return "event: " + typ + "\ndata: " + data + "\n\n" }
	delta := frame("response.output_text.delta", `{"delta":"a"}`)
	completed := frame("response.completed", `{"response":{"usage":{"output_tokens_details":{"reasoning_tokens":0}}}}`)
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   outcome
	}{
		{"text", 200, delta + delta + completed, outcome{text: "aa", pieces: 2}},
		{"cut short", 200, delta + "event: response.output_text.delta\nda", outcome{text: "a", pieces: 1, failed: true}},
		{"incomplete", 200, delta + frame("response.incomplete", `{"response":{}}`), outcome{text: "a", pieces: 1}},
		{"calls", 200, frame("response.output_item.done", `{"item":{"type":"function_call","name":"get_weather","arguments":"{}"}}`) + completed, outcome{calls: []string{"{}"}}},
		{"another tool", 200, frame("response.output_item.done", `{"item":{"type":"function_call","name":"rm","arguments":"{}"}}`) + completed, outcome{}},
		{"reasoning", 200, frame("response.output_item.done", `{"item":{"type":"reasoning"}}`) + completed, outcome{reasoned: true}},
		{"hidden reasoning", 200, frame("response.completed", `{"response":{"usage":{"output_tokens_details":{"reasoning_tokens":7}}}}`), outcome{reasoned: true}},
		{"failed", 200, delta + frame("response.failed", `{"response":{"error":{"message":"broke"}}}`), outcome{text: "a", pieces: 1, failed: true, message: "broke"}},
		{"not JSON", 200, frame("response.output_text.delta", `{`), outcome{failed: true}},
		{"refused", 400, `{"error":{"message":"no"}}`, outcome{failed: true, message: "no"}},
		{"refused in other words", 502, `<html>`, outcome{failed: true}},
		{"nothing", 0, "", outcome{failed: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := capture{status: tt.status}
			c.body.WriteString(tt.body)
			if diff := cmp.Diff(&tt.want, c.outcome(), cmp.AllowUnexported(outcome{})); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCaptureIsBounded: an upstream that never stops does not fill the memory.
func TestCaptureIsBounded(t *testing.T) {
	t.Parallel()
	var c capture
	piece := make([]byte, 1<<20)
	var err error
	for n := 0; err == nil && n < 2*maxCapture; n += len(piece) {
		_, err = c.Write(piece)
	}
	if err == nil || c.body.Len() > maxCapture {
		t.Errorf("kept %d bytes, error %v", c.body.Len(), err)
	}
}
