package responses

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"slices"
	"strconv"
)

// A Request is the body of POST /v1/responses. Pointers tell absent from zero;
// null means absent everywhere. Make one from a client's bytes with
// [DecodeRequest].
type Request struct {
	Model              string            `json:"model,omitzero"`
	Input              Input             `json:"input,omitzero"`
	Instructions       *string           `json:"instructions,omitzero"`
	PreviousResponseID string            `json:"previous_response_id,omitzero"`
	Conversation       jsontext.Value    `json:"conversation,omitzero"`
	Include            []string          `json:"include,omitempty"`
	Tools              []Tool            `json:"tools,omitempty"`
	ToolChoice         *ToolChoice       `json:"tool_choice,omitzero"`
	ParallelToolCalls  *bool             `json:"parallel_tool_calls,omitzero"`
	MaxToolCalls       *int64            `json:"max_tool_calls,omitzero"`
	MaxOutputTokens    *int64            `json:"max_output_tokens,omitzero"`
	Temperature        *float64          `json:"temperature,omitzero"`
	TopP               *float64          `json:"top_p,omitzero"`
	PresencePenalty    *float64          `json:"presence_penalty,omitzero"`
	FrequencyPenalty   *float64          `json:"frequency_penalty,omitzero"`
	TopLogprobs        *int64            `json:"top_logprobs,omitzero"`
	Text               *TextConfig       `json:"text,omitzero"`
	Reasoning          *ReasoningConfig  `json:"reasoning,omitzero"`
	Truncation         string            `json:"truncation,omitzero"`
	Store              *bool             `json:"store,omitzero"`
	Background         *bool             `json:"background,omitzero"`
	Stream             *bool             `json:"stream,omitzero"`
	StreamOptions      *StreamOptions    `json:"stream_options,omitzero"`
	ServiceTier        string            `json:"service_tier,omitzero"`
	Metadata           map[string]string `json:"metadata,omitempty"`
	PromptCacheKey     string            `json:"prompt_cache_key,omitzero"`
	SafetyIdentifier   string            `json:"safety_identifier,omitzero"`
	User               string            `json:"user,omitzero"`
	Extra              jsontext.Value    `json:",embed"`

	// Raw is the body as it came. Drivers that speak the same protocol splice
	// it instead of encoding the struct, so that nothing changes that need not.
	// It is nil for a request that was built in Go.
	Raw jsontext.Value `json:"-"`
}

// TextConfig shapes the text of the answer.
type TextConfig struct {
	Format    *TextFormat    `json:"format,omitzero"`
	Verbosity string         `json:"verbosity,omitzero"`
	Extra     jsontext.Value `json:",embed"`
}

// TextFormat is text, json_object or json_schema.
type TextFormat struct {
	Type        string         `json:"type"`
	Name        string         `json:"name,omitzero"`
	Description string         `json:"description,omitzero"`
	Schema      jsontext.Value `json:"schema,omitzero"`
	Strict      *bool          `json:"strict,omitzero"`
	Extra       jsontext.Value `json:",embed"`
}

// The text formats.
const (
	FormatText       = "text"
	FormatJSONObject = "json_object"
	FormatJSONSchema = "json_schema"
)

// ReasoningConfig asks for reasoning. Effort and Summary are always encoded, as
// null if the client was silent: readers of the echo require them.
type ReasoningConfig struct {
	Effort  *string        `json:"effort"`
	Summary *string        `json:"summary"`
	Extra   jsontext.Value `json:",embed"`
}

// StreamOptions tune a stream.
type StreamOptions struct {
	IncludeObfuscation *bool          `json:"include_obfuscation,omitzero"`
	Extra              jsontext.Value `json:",embed"`
}

// Values of Request.Include that the gateway acts on.
const (
	IncludeEncryptedReasoning = "reasoning.encrypted_content"
	IncludeLogprobs           = "message.output_text.logprobs"
)

// Input is a request's input items in order. On the wire it may be a string,
// which is one user message here.
type Input struct {
	Items []Item
	// Normalized is true if Items say the same as the wire in other words than
	// every Responses server takes: bare content parts that were gathered into a
	// message, or an image URL that was an object.
	Normalized bool
}

// UserMessage returns a message of the user.
func UserMessage(text string) *Message {
	return &Message{Role: RoleUser, Content: TextContent(text)}
}

// UnmarshalJSONFrom accepts a string, an array of items, or null. Bare input
// parts in the array become one user message for each run of them (R3).
func (in *Input) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	*in = Input{}
	if dec.PeekKind() == '"' {
		var s string
		if err := json.UnmarshalDecode(dec, &s); err != nil {
			return err
		}
		in.Items = []Item{UserMessage(s)}
		return nil
	}
	if err := json.UnmarshalDecode(dec, &in.Items); err != nil {
		return err
	}
	if err := in.gatherBareParts(dec); err != nil {
		return err
	}
	in.Normalized = in.Normalized || slices.ContainsFunc(in.Items, hasImageObject)
	return nil
}

// hasImageObject reports whether an item has an image whose URL was an object.
func hasImageObject(it Item) bool {
	var parts []Part
	switch it := it.(type) {
	case *Message:
		parts = it.Content.Parts
	case *FunctionCallOutput:
		parts = it.Output.Parts
	case *CustomToolCallOutput:
		parts = it.Output.Parts
	}
	return slices.ContainsFunc(parts, func(p Part) bool {
		img, ok := p.(*InputImage)
		return ok && img.fromObject
	})
}

// gatherBareParts replaces items that are really input parts.
func (in *Input) gatherBareParts(dec *jsontext.Decoder) error {
	var items []Item
	var open *Message // the message that takes the current run of bare parts
	for i, it := range in.Items {
		u, ok := it.(*UnknownItem)
		if !ok || newInputPart(u.Name) == nil {
			items, open = append(items, it), nil
			continue
		}
		p := newInputPart(u.Name)
		if err := json.Unmarshal(u.Raw, p, dec.Options()); err != nil {
			return underPointer(dec.StackPointer().AppendToken(strconv.Itoa(i)), err)
		}
		if open == nil {
			open = &Message{Role: RoleUser}
			items = append(items, open)
		}
		open.Content.Parts = append(open.Content.Parts, p)
		in.Normalized = true
	}
	in.Items = items
	return nil
}

// newInputPart returns an empty part of a kind that may stand bare in an input.
func newInputPart(typ string) Part {
	switch typ {
	case TypeInputText, TypeInputImage, TypeInputFile:
		return newPart(typ)
	}
	return nil
}

// MarshalJSONTo writes the items as an array.
func (in Input) MarshalJSONTo(enc *jsontext.Encoder) error { return json.MarshalEncode(enc, in.Items) }

// ConversationID is the id of the conversation that the request belongs to, ""
// if none.
func (r *Request) ConversationID() string {
	if r.Conversation.Kind() == '{' {
		return stringMember(r.Conversation, "id")
	}
	return stringOf(r.Conversation)
}

// WantsStream reports whether the client asked for events (R7).
func (r *Request) WantsStream() bool { return r.Stream != nil && *r.Stream }

// Includes reports whether the client asked for the named extra.
func (r *Request) Includes(name string) bool {
	return slices.Contains(r.Include, name)
}
