package fakeupstream

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"net/http"
	"strings"
)

// responsesRequest is a Responses request, as far as the mind reads it or the
// response echoes it.
type responsesRequest struct {
	Model              string           `json:"model"`
	Input              *responsesInput  `json:"input"`
	Instructions       *string          `json:"instructions"`
	PreviousResponseID *string          `json:"previous_response_id"`
	Conversation       jsontext.Value   `json:"conversation"`
	Background         bool             `json:"background"`
	Include            []string         `json:"include"`
	MaxOutputTokens    *int             `json:"max_output_tokens"`
	MaxToolCalls       *int             `json:"max_tool_calls"`
	Metadata           jsontext.Value   `json:"metadata"`
	ParallelToolCalls  *bool            `json:"parallel_tool_calls"`
	PresencePenalty    float64          `json:"presence_penalty"`
	FrequencyPenalty   float64          `json:"frequency_penalty"`
	PromptCacheKey     *string          `json:"prompt_cache_key"`
	Reasoning          reasoningConfig  `json:"reasoning"`
	SafetyIdentifier   *string          `json:"safety_identifier"`
	Store              *bool            `json:"store"`
	Stream             bool             `json:"stream"`
	Temperature        *float64         `json:"temperature"`
	Text               textConfig       `json:"text"`
	ToolChoice         jsontext.Value   `json:"tool_choice"`
	Tools              []jsontext.Value `json:"tools"`
	TopLogprobs        int              `json:"top_logprobs"`
	TopP               *float64         `json:"top_p"`
	Truncation         string           `json:"truncation"`
	User               *string          `json:"user"`

	// Parameters of Chat Completions, which a wrong translation may leave in.
	Messages       jsontext.Value `json:"messages"`
	ResponseFormat jsontext.Value `json:"response_format"`
	MaxTokens      jsontext.Value `json:"max_tokens"`
}

type reasoningConfig struct {
	Effort  *string `json:"effort"`
	Summary *string `json:"summary"`
}

type textConfig struct {
	Format    jsontext.Value `json:"format"`
	Verbosity string         `json:"verbosity"`
}

// answerResponses answers POST /v1/responses.
func (m *Model) answerResponses(x *Exchange) Reply {
	var req responsesRequest
	p, err := req.decode(x.Body)
	if refused, ok := errors.AsType[*refusedError](err); ok {
		return refused.reply()
	}
	if failure, ok := p.faults.failure(req.Stream); ok {
		return failure
	}
	a := &responsesAnswer{model: m, request: &req, prompt: p}
	if req.Stream {
		return p.faults.apply(Reply{
			ContentType: eventStream,
			Header:      http.Header{"Cache-Control": {"no-cache"}},
			Stream:      a.stream,
		})
	}
	return p.faults.apply(a.whole())
}

// decode parses and checks a request and returns what the mind needs of it. The
// error is a *refusedError.
func (r *responsesRequest) decode(body []byte) (*prompt, error) {
	if err := decodeBody(body, r); err != nil {
		return nil, err
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	p := &prompt{parallel: r.ParallelToolCalls == nil || *r.ParallelToolCalls}
	if r.Instructions != nil {
		p.words = len(strings.Fields(*r.Instructions))
	}
	if r.MaxOutputTokens != nil {
		p.limit = *r.MaxOutputTokens
	}
	if err := r.decodeFormat(p); err != nil {
		return nil, err
	}
	if err := r.Input.read(p); err != nil {
		return nil, err
	}
	if err := p.checkThoughts("input"); err != nil {
		return nil, err
	}
	p.faults.shorten(&p.limit)
	return p, r.decodeTools(p)
}

// check refuses what the first-party API refuses, so that a translation that
// goes wrong is noticed, and what a provider without a memory cannot do.
func (r *responsesRequest) check() error {
	for _, foreign := range []struct {
		name  string
		value jsontext.Value
	}{{"messages", r.Messages}, {"response_format", r.ResponseFormat}, {"max_tokens", r.MaxTokens}} {
		if given(foreign.value) {
			return refuse(foreign.name, "unsupported_parameter", "Unsupported parameter: '%s'.", foreign.name)
		}
	}
	switch {
	case r.Model == "":
		return missing("model")
	case r.PreviousResponseID != nil:
		return refuse("previous_response_id", "previous_response_not_found", "Previous response with id '%s' not found.", *r.PreviousResponseID)
	case given(r.Conversation):
		return refuse("conversation", "unsupported_parameter", "This model remembers no conversations.")
	case r.Background:
		return refuse("background", "unsupported_parameter", "This model does not work in the background.")
	case r.Input == nil:
		return missing("input")
	case r.MaxOutputTokens != nil && *r.MaxOutputTokens < 1:
		return refuse("max_output_tokens", "integer_below_min_value", "Invalid value: the most tokens must be at least 1.")
	}
	return nil
}

func (r *responsesRequest) decodeFormat(p *prompt) error {
	var format struct {
		Type   string         `json:"type"`
		Name   string         `json:"name"`
		Schema jsontext.Value `json:"schema"`
	}
	if !given(r.Text.Format) {
		return nil
	}
	if err := json.Unmarshal(r.Text.Format, &format); err != nil {
		return refuse("text.format", "", "Invalid text.format: %v", err)
	}
	switch {
	case format.Type == "json_object":
		p.format.object = true
	case format.Type != "json_schema":
	case format.Name == "":
		return missing("text.format.name")
	case !given(format.Schema):
		return missing("text.format.schema")
	default:
		p.format.schema = format.Schema
	}
	return nil
}
