package responses

import (
	"cmp"
	"encoding/json/jsontext"
	"encoding/json/v2"
)

// A Part is a piece of an item's content: one of the structs below, always by
// pointer.
type Part interface {
	// Type is the wire's type word.
	Type() string
}

// The type words of the parts we act on.
const (
	TypeInputText     = "input_text"
	TypeInputImage    = "input_image"
	TypeInputFile     = "input_file"
	TypeOutputText    = "output_text"
	TypeRefusal       = "refusal"
	TypeSummaryText   = "summary_text"
	TypeReasoningText = "reasoning_text"
)

type (
	// InputText is text from a user, a system prompt or a tool.
	InputText struct {
		Kind  kind[*InputText] `json:"type"`
		Text  string           `json:"text"`
		Extra jsontext.Value   `json:",embed"`
	}
	// InputImage is an image by URL (https: or data:) or by the upstream's file id.
	InputImage struct {
		Kind     kind[*InputImage] `json:"type"`
		ImageURL string            `json:"image_url,omitzero"`
		FileID   string            `json:"file_id,omitzero"`
		Detail   string            `json:"detail,omitzero"`
		Extra    jsontext.Value    `json:",embed"`

		fromObject bool // image_url was an object on the wire
	}
	// InputFile is a document, inline, by URL or by the upstream's file id.
	InputFile struct {
		Kind     kind[*InputFile] `json:"type"`
		Filename string           `json:"filename,omitzero"`
		FileData string           `json:"file_data,omitzero"`
		FileURL  string           `json:"file_url,omitzero"`
		FileID   string           `json:"file_id,omitzero"`
		Extra    jsontext.Value   `json:",embed"`
	}
	// OutputText is text that a model wrote.
	OutputText struct {
		Kind        kind[*OutputText] `json:"type"`
		Text        string            `json:"text"`
		Annotations []jsontext.Value  `json:"annotations"`
		Logprobs    []LogProb         `json:"logprobs"`
		Extra       jsontext.Value    `json:",embed"`
	}
	// Refusal is a model's refusal to answer.
	Refusal struct {
		Kind    kind[*Refusal] `json:"type"`
		Refusal string         `json:"refusal"`
		Extra   jsontext.Value `json:",embed"`
	}
	// SummaryText is one part of a reasoning summary.
	SummaryText struct {
		Kind  kind[*SummaryText] `json:"type"`
		Text  string             `json:"text"`
		Extra jsontext.Value     `json:",embed"`
	}
	// ReasoningText is raw reasoning.
	ReasoningText struct {
		Kind  kind[*ReasoningText] `json:"type"`
		Text  string               `json:"text"`
		Extra jsontext.Value       `json:",embed"`
	}
	// UnknownPart is a part of a kind this version does not act on, unchanged.
	UnknownPart struct {
		Name string         `json:"type"`
		Raw  jsontext.Value `json:",embed"`
	}
)

// LogProb is the log probability of one token.
type LogProb struct {
	Token       string         `json:"token"`
	Logprob     float64        `json:"logprob"`
	Bytes       []int          `json:"bytes"`
	TopLogprobs []LogProb      `json:"top_logprobs,omitzero"`
	Extra       jsontext.Value `json:",embed"`
}

// Type implements [Part].
func (*InputText) Type() string     { return TypeInputText }
func (*InputImage) Type() string    { return TypeInputImage }
func (*InputFile) Type() string     { return TypeInputFile }
func (*OutputText) Type() string    { return TypeOutputText }
func (*Refusal) Type() string       { return TypeRefusal }
func (*SummaryText) Type() string   { return TypeSummaryText }
func (*ReasoningText) Type() string { return TypeReasoningText }
func (p *UnknownPart) Type() string { return p.Name }

// MarshalJSONTo writes the part as it came.
func (p *UnknownPart) MarshalJSONTo(enc *jsontext.Encoder) error { return enc.WriteValue(p.Raw) }

// newPart returns an empty part of the named kind for the decoder, or nil.
func newPart(typ string) Part {
	switch typ {
	case TypeInputText:
		return new(InputText)
	case TypeInputImage:
		return new(InputImage)
	case TypeInputFile:
		return new(InputFile)
	case TypeOutputText:
		return new(OutputText)
	case TypeRefusal:
		return new(Refusal)
	case TypeSummaryText:
		return new(SummaryText)
	case TypeReasoningText:
		return new(ReasoningText)
	}
	return nil
}

// UnmarshalJSONFrom accepts image_url as a string and, in the manner of Chat
// Completions, as {"url", "detail"} (R3). It is always encoded as a string.
func (p *InputImage) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type plain InputImage
	var v struct {
		plain
		ImageURL jsontext.Value `json:"image_url"`
	}
	if err := json.UnmarshalDecode(dec, &v); err != nil {
		return err
	}
	*p = InputImage(v.plain)
	if v.ImageURL.Kind() != '{' {
		return decodeAt(dec, "image_url", v.ImageURL, &p.ImageURL)
	}
	var o struct {
		URL    string `json:"url"`
		Detail string `json:"detail"`
	}
	if err := decodeAt(dec, "image_url", v.ImageURL, &o); err != nil {
		return err
	}
	if o.URL == "" {
		at := dec.StackPointer().AppendToken("image_url").AppendToken("url")
		return &pointerError{at, InvalidParam(CodeMissing, "", "Missing url.")}
	}
	p.ImageURL, p.fromObject = o.URL, true
	p.Detail = cmp.Or(p.Detail, o.Detail)
	return nil
}

// TextOf joins the text of the parts that carry any, in order.
func TextOf(parts []Part) string {
	var text string
	for _, p := range parts {
		switch p := p.(type) {
		case *InputText:
			text += p.Text
		case *OutputText:
			text += p.Text
		case *Refusal:
			text += p.Refusal
		case *SummaryText:
			text += p.Text
		case *ReasoningText:
			text += p.Text
		}
	}
	return text
}
