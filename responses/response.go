package responses

import (
	"cmp"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"time"
)

// A Response is the response object: the JSON answer, and the payload of
// lifecycle events. Every member that strict readers require is always encoded
// (R10); start from [NewResponse].
type Response struct {
	ID                 string             `json:"id"`
	Object             string             `json:"object"`
	CreatedAt          int64              `json:"created_at"`
	CompletedAt        *int64             `json:"completed_at"`
	Status             Status             `json:"status"`
	Background         bool               `json:"background"`
	Error              *ErrorBody         `json:"error"`
	IncompleteDetails  *IncompleteDetails `json:"incomplete_details"`
	Instructions       *string            `json:"instructions"`
	MaxOutputTokens    *int64             `json:"max_output_tokens"`
	MaxToolCalls       *int64             `json:"max_tool_calls"`
	Model              string             `json:"model"`
	Output             []Item             `json:"output"`
	ParallelToolCalls  bool               `json:"parallel_tool_calls"`
	PreviousResponseID *string            `json:"previous_response_id"`
	PromptCacheKey     *string            `json:"prompt_cache_key"`
	Reasoning          *ReasoningConfig   `json:"reasoning"`
	SafetyIdentifier   *string            `json:"safety_identifier"`
	ServiceTier        string             `json:"service_tier"`
	Store              bool               `json:"store"`
	Temperature        float64            `json:"temperature"`
	Text               TextConfig         `json:"text"`
	ToolChoice         ToolChoice         `json:"tool_choice"`
	Tools              []Tool             `json:"tools"`
	TopLogprobs        int64              `json:"top_logprobs"`
	TopP               float64            `json:"top_p"`
	PresencePenalty    float64            `json:"presence_penalty"`
	FrequencyPenalty   float64            `json:"frequency_penalty"`
	Truncation         string             `json:"truncation"`
	Usage              *Usage             `json:"usage"`
	User               *string            `json:"user"`
	Metadata           map[string]string  `json:"metadata"`
	Conversation       *ConversationRef   `json:"conversation,omitzero"`
	Extra              jsontext.Value     `json:",embed"`
}

// A ConversationRef names the conversation that a response belongs to.
type ConversationRef struct {
	ID    string         `json:"id"`
	Extra jsontext.Value `json:",embed"`
}

// IncompleteDetails says why a response stopped early.
type IncompleteDetails struct {
	Reason string         `json:"reason"`
	Extra  jsontext.Value `json:",embed"`
}

// Reasons for an incomplete response.
const (
	ReasonMaxOutputTokens = "max_output_tokens"
	ReasonContentFilter   = "content_filter"
	ReasonMaxToolCalls    = "max_tool_calls"
)

// Usage counts tokens. It is whole or absent, never partial (R16).
type Usage struct {
	InputTokens         int64               `json:"input_tokens"`
	InputTokensDetails  InputTokensDetails  `json:"input_tokens_details"`
	OutputTokens        int64               `json:"output_tokens"`
	OutputTokensDetails OutputTokensDetails `json:"output_tokens_details"`
	TotalTokens         int64               `json:"total_tokens"`
	Extra               jsontext.Value      `json:",embed"`
}

// InputTokensDetails splits the input tokens.
type InputTokensDetails struct {
	CachedTokens     int64          `json:"cached_tokens"`
	CacheWriteTokens int64          `json:"cache_write_tokens"`
	Extra            jsontext.Value `json:",embed"`
}

// OutputTokensDetails splits the output tokens.
type OutputTokensDetails struct {
	ReasoningTokens int64          `json:"reasoning_tokens"`
	Extra           jsontext.Value `json:",embed"`
}

// Add returns the sum of u and v; nil stands for unknown, and the sum of unknown
// and known is what is known.
func (u *Usage) Add(v *Usage) *Usage {
	if u == nil || v == nil {
		return cmp.Or(u, v)
	}
	return &Usage{
		InputTokens: u.InputTokens + v.InputTokens,
		InputTokensDetails: InputTokensDetails{
			CachedTokens:     u.InputTokensDetails.CachedTokens + v.InputTokensDetails.CachedTokens,
			CacheWriteTokens: u.InputTokensDetails.CacheWriteTokens + v.InputTokensDetails.CacheWriteTokens,
		},
		OutputTokens: u.OutputTokens + v.OutputTokens,
		OutputTokensDetails: OutputTokensDetails{
			ReasoningTokens: u.OutputTokensDetails.ReasoningTokens + v.OutputTokensDetails.ReasoningTokens,
		},
		TotalTokens: u.TotalTokens + v.TotalTokens,
		Extra:       v.Extra,
	}
}

// NewResponse returns the response object with which the answer to r begins:
// in progress, nothing generated, the request's settings echoed and the API's
// defaults where the client was silent. Store is false: whoever stores the
// response says so.
func NewResponse(r *Request, id string, created time.Time) *Response {
	resp := &Response{
		ID:                id,
		Object:            "response",
		CreatedAt:         created.Unix(),
		Status:            StatusInProgress,
		Instructions:      r.Instructions,
		MaxOutputTokens:   r.MaxOutputTokens,
		MaxToolCalls:      r.MaxToolCalls,
		Model:             r.Model,
		Output:            []Item{},
		ParallelToolCalls: valueOr(r.ParallelToolCalls, true),
		PromptCacheKey:    nonEmpty(r.PromptCacheKey),
		Reasoning:         r.Reasoning,
		SafetyIdentifier:  nonEmpty(r.SafetyIdentifier),
		ServiceTier:       cmp.Or(r.ServiceTier, "auto"),
		Background:        valueOr(r.Background, false),
		Temperature:       valueOr(r.Temperature, 1),
		ToolChoice:        valueOr(r.ToolChoice, ToolChoice{Mode: ToolChoiceAuto}),
		Tools:             r.Tools,
		TopLogprobs:       valueOr(r.TopLogprobs, 0),
		TopP:              valueOr(r.TopP, 1),
		PresencePenalty:   valueOr(r.PresencePenalty, 0),
		FrequencyPenalty:  valueOr(r.FrequencyPenalty, 0),
		Truncation:        cmp.Or(r.Truncation, "disabled"),
		User:              nonEmpty(r.User),
		Metadata:          r.Metadata,
	}
	resp.PreviousResponseID = nonEmpty(r.PreviousResponseID)
	if r.Text != nil {
		resp.Text = *r.Text
	}
	if resp.Text.Format == nil {
		resp.Text.Format = &TextFormat{Type: FormatText}
	}
	return resp
}

// DecodeResponse decodes the response object of a server.
func DecodeResponse(data []byte) (*Response, error) {
	r := new(Response)
	if err := decode(data, r); err != nil {
		return nil, err
	}
	return r, nil
}

// Encode returns the wire form of r.
func (r *Response) Encode() ([]byte, error) { return json.Marshal(r) }

func valueOr[T any](p *T, def T) T {
	if p == nil {
		return def
	}
	return *p
}

func nonEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
