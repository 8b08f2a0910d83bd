package fakeupstream_test

import (
	"encoding/json/jsontext"
	"fmt"
	"strings"
	"testing"
)

// response names every key that a response must have; decode refuses others.
type response struct {
	ID                 *string          `json:"id"`
	Object             *string          `json:"object"`
	CreatedAt          *int64           `json:"created_at"`
	Status             *string          `json:"status"`
	Background         *bool            `json:"background"`
	CompletedAt        jsontext.Value   `json:"completed_at"`
	Error              jsontext.Value   `json:"error"`
	FrequencyPenalty   *float64         `json:"frequency_penalty"`
	IncompleteDetails  jsontext.Value   `json:"incomplete_details"`
	Instructions       jsontext.Value   `json:"instructions"`
	MaxOutputTokens    jsontext.Value   `json:"max_output_tokens"`
	MaxToolCalls       jsontext.Value   `json:"max_tool_calls"`
	Model              *string          `json:"model"`
	Output             []jsontext.Value `json:"output"`
	ParallelToolCalls  *bool            `json:"parallel_tool_calls"`
	PresencePenalty    *float64         `json:"presence_penalty"`
	PreviousResponseID jsontext.Value   `json:"previous_response_id"`
	PromptCacheKey     jsontext.Value   `json:"prompt_cache_key"`
	Reasoning          jsontext.Value   `json:"reasoning"`
	SafetyIdentifier   jsontext.Value   `json:"safety_identifier"`
	ServiceTier        *string          `json:"service_tier"`
	Store              *bool            `json:"store"`
	Temperature        *float64         `json:"temperature"`
	Text               jsontext.Value   `json:"text"`
	ToolChoice         jsontext.Value   `json:"tool_choice"`
	Tools              []jsontext.Value `json:"tools"`
	TopLogprobs        *int             `json:"top_logprobs"`
	TopP               *float64         `json:"top_p"`
	Truncation         *string          `json:"truncation"`
	Usage              *responseUsage   `json:"usage"`
	User               jsontext.Value   `json:"user"`
	Metadata           jsontext.Value   `json:"metadata"`
}

type responseUsage struct {
	InputTokens         int            `json:"input_tokens"`
	InputTokensDetails  map[string]int `json:"input_tokens_details"`
	OutputTokens        int            `json:"output_tokens"`
	OutputTokensDetails map[string]int `json:"output_tokens_details"`
	TotalTokens         int            `json:"total_tokens"`
}

// item is an output item of any type.
type item struct {
	ID               string  `json:"id"`
	Type             string  `json:"type"`
	Status           string  `json:"status"`
	Role             string  `json:"role"`
	Content          []part  `json:"content"`
	Summary          []part  `json:"summary"`
	EncryptedContent *string `json:"encrypted_content"`
	CallID           string  `json:"call_id"`
	Name             string  `json:"name"`
	Namespace        string  `json:"namespace"`
	Arguments        *string `json:"arguments"`
	Input            *string `json:"input"`
}

type part struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Refusal     string `json:"refusal"`
	Annotations []int  `json:"annotations"`
	Logprobs    []int  `json:"logprobs"`
}

// event is an event of any type.
type event struct {
	Type           string         `json:"type"`
	SequenceNumber *int           `json:"sequence_number"`
	Response       jsontext.Value `json:"response"`
	Item           jsontext.Value `json:"item"`
	ItemID         string         `json:"item_id"`
	OutputIndex    *int           `json:"output_index"`
	ContentIndex   *int           `json:"content_index"`
	SummaryIndex   *int           `json:"summary_index"`
	Part           *part          `json:"part"`
	Delta          *string        `json:"delta"`
	Text           *string        `json:"text"`
	Refusal        *string        `json:"refusal"`
	Arguments      *string        `json:"arguments"`
	Input          *string        `json:"input"`
	Logprobs       []int          `json:"logprobs"`
}

// nullable are the keys that a response may have as null; no other may be.
var nullable = []string{
	"completed_at", "error", "incomplete_details", "instructions", "max_output_tokens", "max_tool_calls",
	"previous_response_id", "prompt_cache_key", "safety_identifier", "usage", "user",
}

// responseSaid checks what every response has and takes the answer out of it.
func responseSaid(t *testing.T, r response) said {
	t.Helper()
	if !strings.HasPrefix(*r.ID, "resp_") || *r.Object != "response" || *r.CreatedAt == 0 {
		t.Errorf("envelope %s %s %d", *r.ID, *r.Object, *r.CreatedAt)
	}
	got := said{Truncated: *r.Status == "incomplete"}
	wantDetails := map[string]string{"completed": "null", "incomplete": `{"reason":"max_output_tokens"}`}[*r.Status]
	if string(r.IncompleteDetails) != wantDetails || (string(r.CompletedAt) == "null") != got.Truncated {
		t.Errorf("status %s, incomplete_details %s, completed_at %s", *r.Status, r.IncompleteDetails, r.CompletedAt)
	}
	for i, raw := range r.Output {
		last := i == len(r.Output)-1
		it := decode[item](t, string(raw))
		want := "completed"
		if got.Truncated && last {
			want = "incomplete"
		}
		if it.Type != "reasoning" && it.Status != want {
			t.Errorf("item %s, want status %s", raw, want)
		}
		got.add(t, it)
	}
	if u := r.Usage; u != nil {
		got.In, got.Out, got.Thought = u.InputTokens, u.OutputTokens, u.OutputTokensDetails["reasoning_tokens"]
		if u.TotalTokens != got.In+got.Out {
			t.Errorf("usage %+v", u)
		}
		diff(t, "input_tokens_details", map[string]int{"cached_tokens": 0, "cache_write_tokens": 0}, u.InputTokensDetails)
	}
	return got
}

func (s *said) add(t *testing.T, it item) {
	t.Helper()
	prefix := map[string]string{"message": "msg_", "reasoning": "rs_", "function_call": "fc_", "custom_tool_call": "ctc_"}[it.Type]
	if prefix == "" || !strings.HasPrefix(it.ID, prefix) {
		t.Errorf("item %+v", it)
	}
	switch it.Type {
	case "message":
		if it.Role != "assistant" || len(it.Content) != 1 {
			t.Fatalf("message %+v", it)
		}
		if p := it.Content[0]; p.Type == "output_text" && (p.Annotations == nil || p.Logprobs == nil) {
			t.Errorf("text part without annotations or logprobs: %+v", p)
		}
		s.Text += it.Content[0].Text
		s.Refusal += it.Content[0].Refusal
	case "reasoning":
		s.Reasoning += it.Summary[0].Text
	default:
		if !strings.HasPrefix(it.CallID, "call_") {
			t.Errorf("call_id %q", it.CallID)
		}
		s.Calls = append(s.Calls, saidCall{it.Name, it.body()})
	}
}

// body returns the text of an item, whatever it is.
func (it item) body() string {
	var b strings.Builder
	for _, p := range append(it.Content, it.Summary...) {
		b.WriteString(p.Text + p.Refusal)
	}
	for _, s := range []*string{it.Arguments, it.Input} {
		if s != nil {
			b.WriteString(*s)
		}
	}
	return b.String()
}

// followResponses checks a stream event by event and returns the terminal
// response and the number of deltas.
func followResponses(t *testing.T, body string) (jsontext.Value, int) {
	t.Helper()
	list, rest := frames(t, body)
	if rest != "" || len(list) < 3 {
		t.Fatalf("stream of %d frames, rest %q", len(list), rest)
	}
	var events []event
	for i, f := range list {
		e := decode[event](t, f.data)
		if f.event != e.Type || e.SequenceNumber == nil || *e.SequenceNumber != i {
			t.Fatalf("event %d: %s: %s", i, f.event, f.data)
		}
		events = append(events, e)
	}
	for i, want := range []string{"response.created", "response.in_progress"} {
		r := decode[response](t, string(events[i].Response))
		checkKeys(t, string(events[i].Response))
		if events[i].Type != want || *r.Status != "in_progress" || r.Usage != nil || len(r.Output) != 0 || *r.ServiceTier != "auto" {
			t.Errorf("event %d: %s %s", i, events[i].Type, events[i].Response)
		}
	}
	terminal := events[len(events)-1]
	checkKeys(t, string(terminal.Response))
	r := decode[response](t, string(terminal.Response))
	if terminal.Type != "response."+*r.Status {
		t.Errorf("%s of a response that is %s", terminal.Type, *r.Status)
	}
	items := events[2 : len(events)-1]
	deltas := 0
	for index, output := range r.Output {
		n, more := followItem(t, items, index, output)
		items, deltas = items[n:], deltas+more
	}
	if len(items) > 0 {
		t.Errorf("events of no item: %+v", items)
	}
	return terminal.Response, deltas
}

// followItem checks the events of one item, which come first in events and give
// output. It returns their number and the number of deltas.
func followItem(t *testing.T, events []event, index int, output jsontext.Value) (n, deltas int) {
	t.Helper()
	final := decode[item](t, string(output))
	text := map[string]string{
		"reasoning": "response.reasoning_summary_text", "function_call": "response.function_call_arguments",
		"custom_tool_call": "response.custom_tool_call_input", "message": "response.output_text",
	}[final.Type]
	part := map[string]string{"reasoning": "response.reasoning_summary_part", "message": "response.content_part"}[final.Type]
	if final.Type == "message" && final.Content[0].Type == "refusal" {
		text = "response.refusal"
	}
	next := func(want string) event {
		t.Helper()
		if n == len(events) {
			t.Fatalf("item %d: the stream ends before %s", index, want)
		}
		e := events[n]
		n++
		id := e.ItemID
		if e.Item != nil {
			id = decode[item](t, string(e.Item)).ID
		}
		if e.Type != want || *e.OutputIndex != index || id != final.ID {
			t.Fatalf("event %s of item %s at %d, want %s of %s at %d", e.Type, id, *e.OutputIndex, want, final.ID, index)
		}
		if part != "" && e.Item == nil && e.ContentIndex == nil && e.SummaryIndex == nil {
			t.Errorf("event %s has no index of its part", e.Type)
		}
		return e
	}
	checkAdded(t, decode[item](t, string(next("response.output_item.added").Item)), final)
	if part != "" {
		if p := next(part + ".added").Part; p.Text+p.Refusal != "" {
			t.Errorf("part added with text: %+v", p)
		}
	}
	var said strings.Builder
	for n < len(events) && events[n].Type == text+".delta" {
		said.WriteString(*next(text + ".delta").Delta)
		deltas++
	}
	done := next(text + ".done")
	whole := ""
	for _, s := range []*string{done.Text, done.Refusal, done.Arguments, done.Input} {
		if s != nil {
			whole += *s
		}
	}
	if whole != said.String() || whole != final.body() {
		t.Errorf("deltas %q, done %q, item %q", said.String(), whole, final.body())
	}
	if part != "" {
		if p := next(part + ".done").Part; p.Text+p.Refusal != whole {
			t.Errorf("part done with %+v, want %q", p, whole)
		}
	}
	diff(t, "item done", string(output), string(next("response.output_item.done").Item))
	return n, deltas
}

// checkAdded checks that an item is announced as what it becomes, but empty.
func checkAdded(t *testing.T, added, final item) {
	t.Helper()
	if added.body() != "" || added.Type != final.Type || added.CallID != final.CallID || added.Name != final.Name || added.Role != final.Role {
		t.Errorf("added %+v, done %+v", added, final)
	}
	if added.Type != "reasoning" && added.Status != "in_progress" {
		t.Errorf("added with status %q", added.Status)
	}
	if added.Type == "function_call" && added.Arguments == nil {
		t.Error("function call added without arguments")
	}
}

// checkKeys checks that a response has every key, and null only where it may be.
func checkKeys(t *testing.T, text string) {
	t.Helper()
	var bad []string
	members := decode[map[string]jsontext.Value](t, text)
	may := map[string]bool{}
	for _, name := range nullable {
		may[name] = true
		if _, ok := members[name]; !ok {
			bad = append(bad, name+" is missing")
		}
	}
	for name, value := range members {
		if value.Kind() == jsontext.KindNull && !may[name] {
			bad = append(bad, name+" is null")
		}
	}
	if len(members) != 32 {
		bad = append(bad, fmt.Sprintf("%d keys, want 32", len(members)))
	}
	if bad != nil {
		t.Errorf("response %s: %s", text, strings.Join(bad, ", "))
	}
}
