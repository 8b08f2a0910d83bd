package codex

import (
	"bytes"
	"encoding/json/jsontext"
	"slices"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// rawItem takes an item of the model's answer, as the Responses API has it.
func (d *decoder) rawItem(raw jsontext.Value) error {
	ev, err := responses.DecodeEvent(slices.Concat([]byte(`{"type":"response.output_item.done","output_index":0,"item":`), raw, []byte("}")))
	if err != nil {
		return upstream.Malformed(raw, err)
	}
	switch it := ev.Item.(type) {
	case *responses.Message:
		if it.Role == responses.RoleAssistant {
			d.message(it)
		}
	case *responses.Reasoning:
		d.reasoning(it)
	case *responses.FunctionCall:
		d.call(it)
	case *responses.FunctionCallOutput, *responses.CustomToolCallOutput: // what Codex put into its own history
	default:
		d.whole(it)
	}
	return nil
}

// resume makes the item with that id the open one, if it is not done already.
func (d *decoder) resume(it responses.Item) (ok bool) {
	if d.open == it.ItemID() && d.typ == it.Type() {
		return true
	}
	if it.ItemID() != "" && d.begun[it.ItemID()] {
		return false
	}
	d.begin(it.Type(), it.ItemID())
	return true
}

func (d *decoder) message(m *responses.Message) {
	if !d.resume(m) {
		return
	}
	d.told = true
	text := responses.TextOf(m.Content.Parts)
	if rest, ok := bytes.CutPrefix([]byte(text), d.said); ok {
		d.out.Text(string(rest), nil)
	}
	for _, p := range m.Content.Parts {
		if t, ok := p.(*responses.OutputText); ok {
			for _, a := range t.Annotations {
				d.out.Annotate(a)
			}
		}
	}
	if m.Status == responses.StatusIncomplete {
		return // the end of the turn will say so
	}
	d.finish(func(done responses.Item) {
		if done, ok := done.(*responses.Message); ok {
			done.Phase, done.Extra = m.Phase, withoutMetadata(m.Extra)
		}
	})
}

func (d *decoder) reasoning(r *responses.Reasoning) {
	if !d.resume(r) {
		return
	}
	if len(d.said) == 0 {
		for i, p := range r.Summary {
			d.summaryPart(i)
			d.out.Reasoning(responses.TextOf([]responses.Part{p}))
		}
	}
	d.finish(func(done responses.Item) {
		if done, ok := done.(*responses.Reasoning); ok {
			done.Content, done.EncryptedContent, done.Extra = r.Content, r.EncryptedContent, withoutMetadata(r.Extra)
		}
	})
}

func (d *decoder) finish(complete func(responses.Item)) {
	d.out.Finish(complete)
	d.open, d.typ, d.said = "", "", nil
}

func (d *decoder) call(c *responses.FunctionCall) {
	d.began = true
	d.finish(nil)
	callee := d.box.Callee(c.Name)
	if c.Namespace != "" && callee.Namespace == "" {
		callee.Namespace = c.Namespace
	}
	d.out.Name(c.ID)
	call := d.out.Call(c.CallID, callee, upstream.UnwrapInput)
	call.Arguments(c.Arguments)
	call.Finish()
}

// whole passes on an item of a kind that Codex does not stream.
func (d *decoder) whole(it responses.Item) {
	d.began = true
	d.finish(nil)
	if u, ok := it.(*responses.UnknownItem); ok {
		c := *u
		c.Raw = withoutMetadata(u.Raw)
		it = &c
	}
	d.out.Whole(it)
}

// withoutMetadata returns the members of obj without what Codex adds for itself.
func withoutMetadata(obj jsontext.Value) jsontext.Value {
	if len(obj) == 0 {
		return obj
	}
	clean, err := responses.SetMembers(obj, responses.Member{Name: metadataMember})
	if err != nil || string(clean) == "{}" {
		return nil
	}
	return clean
}
