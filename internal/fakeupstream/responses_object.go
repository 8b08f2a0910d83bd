package fakeupstream

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"slices"
)

// What is sealed for the client to bring back.
const (
	fakeEncryptedContent = "ZmFrZSByZWFzb25pbmc=" // of reasoning, if a request includes it
	fakeCompaction       = "ZmFrZSBzdW1tYXJ5"     // of a compaction
)

// responseObject is a response with all of its keys, in the order in which the
// first-party API sends them. What is null there may be null here.
type responseObject struct {
	ID                 string             `json:"id"`
	Object             string             `json:"object"`
	CreatedAt          int64              `json:"created_at"`
	Status             string             `json:"status"`
	Background         bool               `json:"background"`
	CompletedAt        *int64             `json:"completed_at"`
	Error              *responseError     `json:"error"`
	FrequencyPenalty   float64            `json:"frequency_penalty"`
	IncompleteDetails  *incompleteDetails `json:"incomplete_details"`
	Instructions       *string            `json:"instructions"`
	MaxOutputTokens    *int               `json:"max_output_tokens"`
	MaxToolCalls       *int               `json:"max_tool_calls"`
	Model              string             `json:"model"`
	Output             []any              `json:"output"`
	ParallelToolCalls  bool               `json:"parallel_tool_calls"`
	PresencePenalty    float64            `json:"presence_penalty"`
	PreviousResponseID *string            `json:"previous_response_id"`
	PromptCacheKey     *string            `json:"prompt_cache_key"`
	Reasoning          reasoningConfig    `json:"reasoning"`
	SafetyIdentifier   *string            `json:"safety_identifier"`
	ServiceTier        string             `json:"service_tier"`
	Store              bool               `json:"store"`
	Temperature        float64            `json:"temperature"`
	Text               textConfig         `json:"text"`
	ToolChoice         jsontext.Value     `json:"tool_choice"`
	Tools              []jsontext.Value   `json:"tools"`
	TopLogprobs        int                `json:"top_logprobs"`
	TopP               float64            `json:"top_p"`
	Truncation         string             `json:"truncation"`
	Usage              *responseUsage     `json:"usage"`
	User               *string            `json:"user"`
	Metadata           jsontext.Value     `json:"metadata"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incompleteDetails struct {
	Reason string `json:"reason"`
}

type responseUsage struct {
	InputTokens        int `json:"input_tokens"`
	InputTokensDetails struct {
		CachedTokens     int `json:"cached_tokens"`
		CacheWriteTokens int `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	OutputTokens        int `json:"output_tokens"`
	OutputTokensDetails struct {
		ReasoningTokens int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	TotalTokens int `json:"total_tokens"`
}

// The output items and their contents.
type (
	messageItem struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Status  string `json:"status"`
		Content []any  `json:"content"`
		Role    string `json:"role"`
	}
	// reasoningItem has no status, as the first-party API has it.
	reasoningItem struct {
		ID               string        `json:"id"`
		Type             string        `json:"type"`
		EncryptedContent string        `json:"encrypted_content,omitzero"`
		Summary          []summaryText `json:"summary"`
	}
	functionCallItem struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Status    string `json:"status"`
		Arguments string `json:"arguments"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Namespace string `json:"namespace,omitzero"`
	}
	customCallItem struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Status    string `json:"status"`
		CallID    string `json:"call_id"`
		Input     string `json:"input"`
		Name      string `json:"name"`
		Namespace string `json:"namespace,omitzero"`
	}
	// searchCallItem has its arguments as an object, not as text.
	searchCallItem struct {
		ID        string         `json:"id"`
		Type      string         `json:"type"`
		Status    string         `json:"status"`
		Arguments jsontext.Value `json:"arguments"`
		CallID    string         `json:"call_id"`
		Execution string         `json:"execution"`
	}
	compactionItem struct {
		ID               string `json:"id"`
		Type             string `json:"type"`
		EncryptedContent string `json:"encrypted_content"`
	}

	outputText struct {
		Type        string     `json:"type"`
		Annotations []struct{} `json:"annotations"`
		Logprobs    []struct{} `json:"logprobs"`
		Text        string     `json:"text"`
	}
	outputRefusal struct {
		Type    string `json:"type"`
		Refusal string `json:"refusal"`
	}
	summaryText struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
)

// newResponse returns the response to r before anything was said.
func newResponse(r *responsesRequest, id string, createdAt int64) *responseObject {
	o := &responseObject{
		ID: id, Object: "response", CreatedAt: createdAt, Status: "in_progress", Model: r.Model,
		Instructions: r.Instructions, MaxOutputTokens: r.MaxOutputTokens, MaxToolCalls: r.MaxToolCalls,
		PresencePenalty: r.PresencePenalty, FrequencyPenalty: r.FrequencyPenalty, TopLogprobs: r.TopLogprobs,
		ParallelToolCalls: orDefault(r.ParallelToolCalls, true), Store: orDefault(r.Store, true),
		Temperature: orDefault(r.Temperature, 1), TopP: orDefault(r.TopP, 1),
		PromptCacheKey: r.PromptCacheKey, SafetyIdentifier: r.SafetyIdentifier, User: r.User,
		Reasoning: r.Reasoning, Text: r.Text, ToolChoice: r.ToolChoice, Metadata: r.Metadata,
		ServiceTier: "auto", Truncation: r.Truncation,
	}
	if o.Truncation == "" {
		o.Truncation = "disabled"
	}
	if o.Text.Verbosity == "" {
		o.Text.Verbosity = "medium"
	}
	o.Text.Format = echo(o.Text.Format, `{"type":"text"}`)
	o.ToolChoice = echo(o.ToolChoice, `"auto"`)
	o.Metadata = echo(o.Metadata, `{}`)
	for _, tool := range r.Tools {
		o.Tools = append(o.Tools, echo(tool, `{}`))
	}
	return o
}

func orDefault[T any](value *T, fallback T) T {
	if value == nil {
		return fallback
	}
	return *value
}

// given reports whether a member was there and not null.
func given(value jsontext.Value) bool {
	return len(value) > 0 && value.Kind() != jsontext.KindNull
}

// echoDefaults are what the API adds to the things that it echoes, by type, if
// the request left them out.
var echoDefaults = map[string][]struct{ name, value string }{
	"function":      {{"description", "null"}, {"parameters", "null"}, {"strict", "true"}},
	"json_schema":   {{"description", "null"}, {"strict", "false"}},
	"allowed_tools": {{"mode", `"auto"`}},
}

// echo returns value as a response repeats it, or fallback for null.
func echo(value jsontext.Value, fallback string) jsontext.Value {
	if !given(value) {
		return jsontext.Value(fallback)
	}
	value = compact(value)
	var typed struct {
		Type string `json:"type"`
	}
	if value.Kind() != jsontext.KindBeginObject || json.Unmarshal(value, &typed) != nil {
		return value
	}
	var names []string
	for name := range members(value) {
		names = append(names, name)
	}
	for _, added := range echoDefaults[typed.Type] {
		if !slices.Contains(names, added.name) {
			value = append(value[:len(value)-1], `,"`+added.name+`":`+added.value+`}`...)
		}
	}
	return value
}
