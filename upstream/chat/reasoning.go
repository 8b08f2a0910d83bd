package chat

import (
	"encoding/json/v2"

	"github.com/antiphon-dev/antiphon/responses"
)

// The members under which servers give a model's reasoning, and want it back.
const (
	fieldReasoningContent = "reasoning_content"
	fieldReasoning        = "reasoning"
)

// sealedReasoning is what travels in encrypted_content: the reasoning exactly as
// the server gave it, and where it belongs in the next request.
type sealedReasoning struct {
	Field string `json:"field"`
	Text  string `json:"text"`
}

// purpose binds a seal to this upstream.
func (o *Options) purpose() string { return "reasoning of " + o.Name }

func (o *Options) sealReasoning(owner, field, text string) string {
	plain, err := json.Marshal(sealedReasoning{Field: field, Text: text})
	if err != nil {
		return "" // cannot be: the composer keeps text valid
	}
	return o.Sealer.Seal(o.purpose(), owner, plain)
}

// openReasoning returns what an envelope of ours holds, and false for any other.
func (o *Options) openReasoning(owner, envelope string) (sealedReasoning, bool) {
	var r sealedReasoning
	if o.Sealer == nil {
		return r, false
	}
	plain, err := o.Sealer.Open(o.purpose(), owner, envelope)
	return r, err == nil && json.Unmarshal(plain, &r) == nil
}

// pastReasoning adds what the assistant thought to what it says next. The seal
// comes first: it holds exactly what the server gave. Without one that opens, the
// readable text serves.
func (e *encoder) pastReasoning(h *history, at string, r *responses.Reasoning) {
	e.losses.ItemMembers(at, r.Extra)
	thought := sealedReasoning{Field: fieldReasoningContent, Text: textOf(r.Content)}
	if thought.Text == "" {
		thought.Text = textOf(r.Summary)
	}
	if r.EncryptedContent != "" {
		if opened, ok := e.opts.openReasoning(e.owner, r.EncryptedContent); ok {
			thought = opened
		} else {
			e.losses.Once(at, "encrypted_content", "It cannot be opened for this upstream and was not sent.")
		}
	}
	switch {
	case thought.Text == "":
	case e.opts.OmitReasoning:
		e.losses.Once(at, "summary", "The upstream does not take reasoning back; it was not sent.")
	default:
		p := h.assistant(at)
		p.thought, p.field = append(p.thought, thought.Text), thought.Field
	}
}
