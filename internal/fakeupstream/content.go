package fakeupstream

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"strings"
)

// content is the content of a message in either protocol: a string, a list of
// parts, or null. Parts that are neither text nor image are passed over.
type content struct {
	text   string   // of all text parts, one per line
	images []string // media type of a data URL, "url" or "file"
}

var _ json.UnmarshalerFrom = (*content)(nil)

// contentPart is a part of either protocol: Chat Completions nests the URL of
// an image, Responses does not.
type contentPart struct {
	Type     string         `json:"type"`
	Text     string         `json:"text"`
	Refusal  string         `json:"refusal"`
	ImageURL jsontext.Value `json:"image_url"`
}

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (c *content) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	switch kind := d.PeekKind(); kind {
	case 'n', '"':
		return json.UnmarshalDecode(d, &c.text)
	case '[':
		var parts []contentPart
		if err := json.UnmarshalDecode(d, &parts); err != nil {
			return err
		}
		c.add(parts)
		return nil
	default:
		return fmt.Errorf("content must be a string or a list of parts, not %v", kind)
	}
}

func (c *content) add(parts []contentPart) {
	var lines []string
	for _, p := range parts {
		switch p.Type {
		case "text", "input_text", "output_text", "summary_text":
			lines = append(lines, p.Text)
		case "refusal":
			lines = append(lines, p.Refusal)
		case "image_url", "input_image":
			c.images = append(c.images, imageKind(p.ImageURL))
		}
	}
	c.text = strings.Join(lines, "\n")
}

// imageKind says what an image is: the media type of a data URL, "url" for
// another URL, "file" for none.
func imageKind(source jsontext.Value) string {
	var nested struct {
		URL string `json:"url"`
	}
	url := &nested.URL
	if json.Unmarshal(source, url) != nil {
		_ = json.Unmarshal(source, &nested)
	}
	if *url == "" {
		return "file"
	}
	data, inline := strings.CutPrefix(*url, "data:")
	if !inline {
		return "url"
	}
	media, _, _ := strings.Cut(data, ",")
	media, _, _ = strings.Cut(media, ";")
	return media
}
