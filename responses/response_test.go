package responses_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/responses"
)

// TestNewResponseDefaults: every member that strict readers require is there,
// with the API's defaults where the client was silent (R10). Only the store can
// say that it has stored.
func TestNewResponseDefaults(t *testing.T) {
	t.Parallel()
	resp := responses.NewResponse(decode(t, `{"model":"m","input":"hi"}`), "resp_1", time.Unix(1700000000, 999))
	got, err := resp.Encode()
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, got, []byte(`{
		"id":"resp_1","object":"response","created_at":1700000000,"completed_at":null,"status":"in_progress",
		"background":false,"error":null,"incomplete_details":null,"instructions":null,"max_output_tokens":null,
		"max_tool_calls":null,"model":"m","output":[],"parallel_tool_calls":true,"previous_response_id":null,
		"prompt_cache_key":null,"reasoning":null,"safety_identifier":null,"service_tier":"auto","store":false,
		"temperature":1,"text":{"format":{"type":"text"}},"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1,
		"presence_penalty":0,"frequency_penalty":0,"truncation":"disabled","usage":null,"user":null,"metadata":{}
	}`))
}

// TestNewResponseEchoes: what the client set comes back, zero or not.
func TestNewResponseEchoes(t *testing.T) {
	t.Parallel()
	r := decode(t, `{
		"model":"m","instructions":"i","max_output_tokens":16,"max_tool_calls":2,"parallel_tool_calls":false,
		"previous_response_id":"resp_0","prompt_cache_key":"k","reasoning":{"effort":"low"},"safety_identifier":"s",
		"service_tier":"flex","store":true,"background":true,"temperature":0,"text":{"verbosity":"low"},
		"tool_choice":{"type":"function","name":"f"},"tools":[{"type":"function","name":"f"}],"top_logprobs":3,"top_p":0,
		"presence_penalty":-1,"frequency_penalty":1,"truncation":"auto","user":"u","metadata":{"a":"b"}
	}`)
	got, err := responses.NewResponse(r, "resp_1", time.Unix(1, 0)).Encode()
	if err != nil {
		t.Fatal(err)
	}
	sameJSON(t, got, []byte(`{
		"id":"resp_1","object":"response","created_at":1,"completed_at":null,"status":"in_progress","background":true,
		"error":null,"incomplete_details":null,"instructions":"i","max_output_tokens":16,"max_tool_calls":2,"model":"m",
		"output":[],"parallel_tool_calls":false,"previous_response_id":"resp_0","prompt_cache_key":"k",
		"reasoning":{"effort":"low","summary":null},"safety_identifier":"s","service_tier":"flex","store":false,
		"temperature":0,"text":{"format":{"type":"text"},"verbosity":"low"},"tool_choice":{"type":"function","name":"f"},
		"tools":[{"type":"function","name":"f","description":null,"parameters":null,"strict":null}],"top_logprobs":3,
		"top_p":0,"presence_penalty":-1,"frequency_penalty":1,"truncation":"auto","usage":null,"user":"u","metadata":{"a":"b"}
	}`))
	if r.Text.Format != nil {
		t.Error("NewResponse wrote the default format into the request")
	}
}

// TestToolChoiceBuiltInGo: an embedder may make one without wire bytes.
func TestToolChoiceBuiltInGo(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		choice responses.ToolChoice
		want   string
	}{
		{"word", responses.ToolChoice{Mode: responses.ToolChoiceRequired}, `"required"`},
		{"function", responses.ToolChoice{Type: responses.TypeFunction, Name: "f"}, `{"type":"function","name":"f"}`},
		{"allowed tools", responses.ToolChoice{Type: responses.TypeAllowedTools, Mode: "auto", Tools: []responses.ToolRef{{Type: "function", Name: "f"}}},
			`{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"}]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sameJSON(t, encode(t, tt.choice), []byte(tt.want))
		})
	}
}

func TestUsageAdd(t *testing.T) {
	t.Parallel()
	a := &responses.Usage{
		InputTokens: 1, InputTokensDetails: responses.InputTokensDetails{CachedTokens: 2, CacheWriteTokens: 3},
		OutputTokens: 4, OutputTokensDetails: responses.OutputTokensDetails{ReasoningTokens: 5}, TotalTokens: 6,
	}
	sum := &responses.Usage{
		InputTokens: 2, InputTokensDetails: responses.InputTokensDetails{CachedTokens: 4, CacheWriteTokens: 6},
		OutputTokens: 8, OutputTokensDetails: responses.OutputTokensDetails{ReasoningTokens: 10}, TotalTokens: 12,
	}
	tests := []struct {
		name       string
		u, v, want *responses.Usage
	}{
		{"both unknown", nil, nil, nil},
		{"first unknown", nil, a, a},
		{"second unknown", a, nil, a},
		{"both known", a, a, sum},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, tt.u.Add(tt.v)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequestQuestions(t *testing.T) {
	t.Parallel()
	r := decode(t, `{"stream":true,"include":["reasoning.encrypted_content"]}`)
	if !r.WantsStream() || !r.Includes(responses.IncludeEncryptedReasoning) || r.Includes(responses.IncludeLogprobs) {
		t.Errorf("got stream %t, include %q", r.WantsStream(), r.Include)
	}
	for _, body := range []string{`{}`, `{"stream":false}`, `{"stream":null}`} {
		if decode(t, body).WantsStream() {
			t.Errorf("%s wants a stream (R7)", body)
		}
	}
}

func TestTextOf(t *testing.T) {
	t.Parallel()
	parts := []responses.Part{
		&responses.InputText{Text: "a"}, &responses.OutputText{Text: "b"}, &responses.Refusal{Refusal: "c"},
		&responses.InputImage{ImageURL: "x"}, &responses.SummaryText{Text: "d"}, &responses.ReasoningText{Text: "e"},
		&responses.UnknownPart{Name: "acme:x", Raw: []byte(`{"type":"acme:x","text":"x"}`)},
	}
	if got := responses.TextOf(parts); got != "abcde" {
		t.Errorf("TextOf = %q, want abcde", got)
	}
	if got := responses.TextContent("hi").Text(); got != "hi" {
		t.Errorf("TextContent(hi).Text() = %q", got)
	}
}

// TestPlainContentThatChanged: the flag says how the wire spelled it, and must
// not hide what was added since.
func TestPlainContentThatChanged(t *testing.T) {
	t.Parallel()
	c := responses.TextContent("hi")
	c.Parts = append(c.Parts, &responses.InputImage{ImageURL: "u"})
	sameJSON(t, encode(t, c), []byte(`[{"type":"input_text","text":"hi"},{"type":"input_image","image_url":"u"}]`))
	c = responses.Content{Plain: true, Parts: []responses.Part{&responses.OutputText{Text: "hi"}}}
	sameJSON(t, encode(t, c), []byte(`[{"type":"output_text","text":"hi","annotations":[],"logprobs":[]}]`))
}

func TestFold(t *testing.T) {
	t.Parallel()
	var f responses.Fold
	if _, err := f.Response(); err == nil {
		t.Error("a fold of nothing has a response")
	}
	item := func(id string) responses.Item { return &responses.Message{ID: id, Role: responses.RoleAssistant} }
	add := func(ev responses.Event) { f.Add(&ev) }
	add(responses.Event{Type: responses.EventCreated, Response: &responses.Response{ID: "resp_1", Status: responses.StatusInProgress}})
	add(responses.Event{Type: responses.EventItemAdded, OutputIndex: 0, Item: item("a")})
	add(responses.Event{Type: responses.EventItemAdded, OutputIndex: 1, Item: item("b")})
	add(responses.Event{Type: responses.EventItemDone, OutputIndex: 1, Item: item("b")})
	if got := f.Output(); f.Len() != 2 || len(got) != 1 || got[0].ItemID() != "b" {
		t.Errorf("with one item open: %d added, done %v", f.Len(), got)
	}
	add(responses.Event{Type: responses.EventItemDone, OutputIndex: 0, Item: item("a")})
	// Indexes that cannot come from a legal stream must not make it grow.
	add(responses.Event{Type: responses.EventItemDone, OutputIndex: 1 << 40, Item: item("x")})
	add(responses.Event{Type: responses.EventItemDone, OutputIndex: -1, Item: item("x")})
	last := &responses.Response{ID: "resp_1", Status: responses.StatusFailed, Output: []responses.Item{item("other")}}
	add(responses.Event{Type: responses.EventFailed, Response: last})
	got, err := f.Response()
	if err != nil {
		t.Fatal(err)
	}
	if got.Status != responses.StatusFailed || len(got.Output) != 2 || got.Output[0].ItemID() != "a" || got.Output[1].ItemID() != "b" {
		t.Errorf("got %+v, want the last lifecycle event with the items that were streamed", got)
	}
	if len(last.Output) != 1 {
		t.Error("the fold changed the event's payload")
	}
}
