package chat

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
)

// parts is the content of a message: text and media in order.
type parts []part

// textType is the type word of text; every other part is media.
const textType = "text"

func textPart(s string) part { return part{Type: textType, Text: s} }

// text joins the text among p.
func (p parts) text() string {
	var texts []string
	for _, part := range p {
		if part.Type == textType {
			texts = append(texts, part.Text)
		}
	}
	return strings.Join(texts, "\n")
}

func (p parts) hasMedia() bool {
	for _, part := range p {
		if part.Type != textType {
			return true
		}
	}
	return false
}

// parts encodes content that stands at the given place. Parts without text are
// left out: they say nothing, and servers refuse them.
func (e *encoder) parts(at string, in []responses.Part) (parts, error) {
	var out parts
	for i, p := range in {
		at := fmt.Sprintf("%s[%d]", at, i)
		if text, extra, ok := textOfPart(p); ok {
			e.losses.ItemMembers(at, extra)
			if text != "" {
				out = append(out, textPart(text))
			}
			continue
		}
		media, err := e.media(at, p)
		if err != nil {
			return nil, err
		}
		out = append(out, media)
	}
	return out, nil
}

// textOfPart returns the text of a part that is text, and its unknown members.
func textOfPart(p responses.Part) (text string, extra jsontext.Value, ok bool) {
	switch p := p.(type) {
	case *responses.InputText:
		return p.Text, p.Extra, true
	case *responses.OutputText:
		return p.Text, p.Extra, true
	case *responses.Refusal:
		return p.Refusal, p.Extra, true
	case *responses.SummaryText:
		return p.Text, p.Extra, true
	case *responses.ReasoningText:
		return p.Text, p.Extra, true
	}
	return "", nil, false
}

// textOf joins the text of parts, whatever else is among them.
func textOf(in []responses.Part) string {
	var texts []string
	for _, p := range in {
		if text, _, ok := textOfPart(p); ok && text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}

// media encodes a part that is not text.
func (e *encoder) media(at string, p responses.Part) (part, error) {
	switch p := p.(type) {
	case *responses.InputImage:
		e.losses.ItemMembers(at, p.Extra)
		if p.ImageURL == "" {
			return part{}, responses.Unsupported(at, "This model's upstream takes images by image_url only.")
		}
		return part{Type: "image_url", ImageURL: &imageURL{URL: p.ImageURL, Detail: p.Detail}}, nil
	case *responses.InputFile:
		e.losses.ItemMembers(at, p.Extra)
		if p.FileData == "" && p.FileID == "" {
			return part{}, responses.Unsupported(at, "This model's upstream takes files by file_data or file_id only.")
		}
		return part{Type: "file", File: &file{Filename: p.Filename, FileData: p.FileData, FileID: p.FileID}}, nil
	case *responses.UnknownPart:
		return e.audio(at, p)
	}
	return part{}, responses.Unsupported(at, "This model's upstream cannot take content of type %q.", p.Type())
}

// audio encodes a part that both protocols spell alike.
func (e *encoder) audio(at string, p *responses.UnknownPart) (part, error) {
	var v struct {
		Type       string         `json:"type"`
		InputAudio jsontext.Value `json:"input_audio"`
		Extra      jsontext.Value `json:",embed"`
	}
	if p.Name != "input_audio" || json.Unmarshal(p.Raw, &v) != nil || v.InputAudio.Kind() != '{' {
		return part{}, responses.Unsupported(at, "This model's upstream cannot take content of type %q.", p.Name)
	}
	e.losses.ItemMembers(at, v.Extra)
	return part{Type: "input_audio", InputAudio: v.InputAudio}, nil
}
