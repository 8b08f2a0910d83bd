package native

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"slices"

	"github.com/antiphon-dev/antiphon/responses"
)

// asSaid returns final with the text that was streamed, where it has none or
// another: clients have read what was streamed.
func (it *item) asSaid(final responses.Item) responses.Item {
	switch f := final.(type) {
	case *responses.Message:
		c := *f
		if parts, ok := it.said("content_index", f.Content.Parts); !ok {
			c.Content = responses.Content{Parts: parts}
		}
		return &c
	case *responses.Reasoning:
		c := *f
		c.Content, _ = it.said("content_index", f.Content)
		c.Summary, _ = it.said("summary_index", f.Summary)
		return &c
	case *responses.FunctionCall:
		c := *f
		if it.part != nil {
			c.Arguments = it.part.full
		}
		return &c
	case *responses.CustomToolCall:
		c := *f
		if it.part != nil {
			c.Input = it.part.full
		}
		return &c
	}
	return final
}

// said returns parts if their text is what was streamed, else the parts that
// were, and false.
func (it *item) said(index string, parts []responses.Part) ([]responses.Part, bool) {
	streamed := it.closed[index]
	if len(streamed) == 0 || responses.TextOf(streamed) == responses.TextOf(parts) {
		return parts, true
	}
	return streamed, false
}

// emptied returns a copy of it as it was when it began.
func emptied(it responses.Item) responses.Item {
	it = withStatus(it, responses.StatusInProgress)
	switch it := it.(type) {
	case *responses.Message:
		it.Content = responses.Content{}
	case *responses.FunctionCall:
		it.Arguments = ""
	case *responses.CustomToolCall:
		it.Input = ""
	case *responses.Reasoning:
		it.Summary, it.Content, it.EncryptedContent = nil, nil, ""
	}
	return it
}

// withStatus returns a copy of it with the given status. Items of a kind that we
// do not stream ourselves get one only in place of another.
func withStatus(it responses.Item, s responses.Status) responses.Item {
	switch it := it.(type) {
	case *responses.Message:
		c := *it
		c.Status = s
		return &c
	case *responses.FunctionCall:
		c := *it
		c.Status = s
		return &c
	case *responses.CustomToolCall:
		c := *it
		c.Status = s
		return &c
	case *responses.Reasoning:
		c := *it
		c.Status = s
		return &c
	}
	if responses.ItemStatus(it) == "" {
		return it
	}
	return withStatusOnWire(it, s)
}

// withStatusOnWire is withStatus for every kind of item, by way of its wire form.
func withStatusOnWire(it responses.Item, s responses.Status) responses.Item {
	raw, err := json.Marshal(it)
	if err == nil {
		raw, err = responses.SetMembers(raw, responses.Member{Name: "status", Value: quote(string(s))})
	}
	if err != nil {
		return it // it came from the decoder, so it can be encoded
	}
	ev, err := responses.DecodeEvent(slices.Concat([]byte(`{"type":"response.output_item.done","item":`), raw, []byte("}")))
	if err != nil {
		return it
	}
	return ev.Item
}

// encryptedContent is the opaque form of an item that only its upstream can
// read, "" if it has none.
func encryptedContent(it responses.Item) string {
	switch it := it.(type) {
	case *responses.Reasoning:
		return it.EncryptedContent
	case *responses.Compaction:
		return it.EncryptedContent
	case *responses.UnknownItem:
		var w struct {
			EncryptedContent jsontext.Value `json:"encrypted_content"`
		}
		if json.Unmarshal(it.Raw, &w) == nil {
			return text(w.EncryptedContent)
		}
	}
	return ""
}
