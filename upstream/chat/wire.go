package chat

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"strings"
)

// The request, as the endpoint takes it. A member that a server need not know
// is left out unless the client asked for it: some refuse what they do not know.
type (
	request struct {
		Model               string          `json:"model"`
		Messages            []message       `json:"messages"`
		Tools               []tool          `json:"tools,omitempty"`
		ToolChoice          *toolChoice     `json:"tool_choice,omitzero"`
		ParallelToolCalls   *bool           `json:"parallel_tool_calls,omitzero"`
		ResponseFormat      *responseFormat `json:"response_format,omitzero"`
		MaxTokens           *int64          `json:"max_tokens,omitzero"`
		MaxCompletionTokens *int64          `json:"max_completion_tokens,omitzero"`
		Temperature         *float64        `json:"temperature,omitzero"`
		TopP                *float64        `json:"top_p,omitzero"`
		PresencePenalty     *float64        `json:"presence_penalty,omitzero"`
		FrequencyPenalty    *float64        `json:"frequency_penalty,omitzero"`
		Logprobs            bool            `json:"logprobs,omitzero"`
		TopLogprobs         *int64          `json:"top_logprobs,omitzero"`
		ReasoningEffort     string          `json:"reasoning_effort,omitzero"`
		ServiceTier         string          `json:"service_tier,omitzero"`
		PromptCacheKey      string          `json:"prompt_cache_key,omitzero"`
		SafetyIdentifier    string          `json:"safety_identifier,omitzero"`
		User                string          `json:"user,omitzero"`
		Stream              bool            `json:"stream"`
		StreamOptions       *streamOptions  `json:"stream_options,omitzero"`
		Extra               jsontext.Value  `json:",embed"`
	}
	streamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	}
	message struct {
		Role             string     `json:"role"`
		Content          content    `json:"content"`
		ReasoningContent string     `json:"reasoning_content,omitzero"`
		Reasoning        string     `json:"reasoning,omitzero"`
		ToolCalls        []toolCall `json:"tool_calls,omitempty"`
		ToolCallID       string     `json:"tool_call_id,omitzero"`
	}
	toolCall struct {
		ID       string   `json:"id"`
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	part struct {
		Type       string         `json:"type"`
		Text       string         `json:"text,omitzero"`
		ImageURL   *imageURL      `json:"image_url,omitzero"`
		File       *file          `json:"file,omitzero"`
		InputAudio jsontext.Value `json:"input_audio,omitzero"`
	}
	imageURL struct {
		URL    string `json:"url"`
		Detail string `json:"detail,omitzero"`
	}
	file struct {
		Filename string `json:"filename,omitzero"`
		FileData string `json:"file_data,omitzero"`
		FileID   string `json:"file_id,omitzero"`
	}
	tool struct {
		Type     string       `json:"type"`
		Function toolFunction `json:"function"`
	}
	toolFunction struct {
		Name        string         `json:"name"`
		Description string         `json:"description,omitzero"`
		Parameters  jsontext.Value `json:"parameters"`
		Strict      *bool          `json:"strict,omitzero"`
	}
	responseFormat struct {
		Type       string      `json:"type"`
		JSONSchema *jsonSchema `json:"json_schema,omitzero"`
	}
	jsonSchema struct {
		Name        string         `json:"name"`
		Description string         `json:"description,omitzero"`
		Schema      jsontext.Value `json:"schema"`
		Strict      *bool          `json:"strict,omitzero"`
	}
)

// content is a string, a list of parts, or null if it is the zero value.
type content struct {
	text  *string
	parts parts
}

func textContent(s string) content { return content{text: &s} }

// MarshalJSONTo implements [json.MarshalerTo].
func (c content) MarshalJSONTo(enc *jsontext.Encoder) error {
	switch {
	case c.parts != nil:
		return json.MarshalEncode(enc, c.parts)
	case c.text != nil:
		return enc.WriteToken(jsontext.String(*c.text))
	default:
		return enc.WriteToken(jsontext.Null)
	}
}

// toolChoice is one of the words, or the name of the one function to call.
type toolChoice struct{ word, function string }

// MarshalJSONTo implements [json.MarshalerTo].
func (c toolChoice) MarshalJSONTo(enc *jsontext.Encoder) error {
	if c.function == "" {
		return enc.WriteToken(jsontext.String(c.word))
	}
	type name struct {
		Name string `json:"name"`
	}
	return json.MarshalEncode(enc, struct {
		Type     string `json:"type"`
		Function name   `json:"function"`
	}{"function", name{c.function}})
}

// wireOptions are for what servers send. Some repeat members, and some cut a
// character in two; neither is a reason to fail a turn.
var wireOptions = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// The answer: a chunk of a stream or the whole of it. Only what is acted on is
// here, because this is decoded for every token.
type (
	chunk struct {
		Choices []choice       `json:"choices"`
		Usage   jsontext.Value `json:"usage"`
		Error   jsontext.Value `json:"error"`
	}
	choice struct {
		Index        int           `json:"index"`
		Delta        spoken        `json:"delta"`
		Message      *spoken       `json:"message"` // instead of Delta in a whole answer
		FinishReason string        `json:"finish_reason"`
		Logprobs     *wireLogprobs `json:"logprobs"`
	}
	// spoken is what the model said, or a piece of it.
	spoken struct {
		Content          spokenText       `json:"content"`
		ReasoningContent spokenText       `json:"reasoning_content"`
		Reasoning        spokenText       `json:"reasoning"`
		Refusal          string           `json:"refusal"`
		Annotations      []jsontext.Value `json:"annotations"`
		ToolCalls        []callDelta      `json:"tool_calls"`
		FunctionCall     *functionDelta   `json:"function_call"` // the form before tool_calls
	}
	callDelta struct {
		Index    *int          `json:"index"`
		ID       string        `json:"id"`
		Function functionDelta `json:"function"`
	}
	functionDelta struct {
		Name      string        `json:"name"`
		Arguments callArguments `json:"arguments"`
	}
	wireLogprobs struct {
		Content []wireLogprob `json:"content"`
	}
	wireLogprob struct {
		wireToken
		TopLogprobs []wireToken `json:"top_logprobs"`
	}
	wireToken struct {
		Token   string  `json:"token"`
		Logprob float64 `json:"logprob"`
		Bytes   []int   `json:"bytes"`
	}
	// wireUsage has pointers where a missing number makes the usage unknown.
	wireUsage struct {
		PromptTokens        *int64 `json:"prompt_tokens"`
		CompletionTokens    *int64 `json:"completion_tokens"`
		TotalTokens         *int64 `json:"total_tokens"`
		PromptTokensDetails struct {
			CachedTokens int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		CompletionTokensDetails struct {
			ReasoningTokens int64 `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
		PromptCacheHitTokens int64 `json:"prompt_cache_hit_tokens"` // DeepSeek's word for cached tokens
	}
)

// spokenText is a string on the wire, or a list of parts, some of which are
// what the model thought.
type spokenText struct{ text, thinking string }

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (t *spokenText) UnmarshalJSONFrom(dec *jsontext.Decoder) (err error) {
	*t = spokenText{}
	if dec.PeekKind() == '[' {
		return t.readParts(dec)
	}
	t.text, err = readText(dec)
	return err
}

func (t *spokenText) readParts(dec *jsontext.Decoder) error {
	var parts []struct {
		Text     string `json:"text"`
		Thinking []struct {
			Text string `json:"text"`
		} `json:"thinking"`
	}
	if err := json.UnmarshalDecode(dec, &parts); err != nil {
		return err
	}
	var text, thinking strings.Builder
	for _, p := range parts {
		text.WriteString(p.Text)
		for _, th := range p.Thinking {
			thinking.WriteString(th.Text)
		}
	}
	*t = spokenText{text.String(), thinking.String()}
	return nil
}

// callArguments is a string on the wire. A server that sends the object itself
// gets it encoded once, with sorted keys (R11).
type callArguments string

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (a *callArguments) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		s, err := readText(dec)
		*a = callArguments(s)
		return err
	}
	v, err := dec.ReadValue()
	if err != nil {
		return err
	}
	v = v.Clone()
	// Numbers stay as they are: an id of 19 digits is not a float.
	err = v.Compact(jsontext.ReorderRawObjects(true), wireOptions)
	*a = callArguments(v)
	return err
}

// readText reads a string, or null as an empty one.
func readText(dec *jsontext.Decoder) (string, error) {
	tok, err := dec.ReadToken()
	switch {
	case err != nil:
		return "", err
	case tok.Kind() == '"':
		return tok.String(), nil
	case tok.Kind() == 'n':
		return "", nil
	}
	return "", fmt.Errorf("%s where text belongs", tok.Kind())
}
