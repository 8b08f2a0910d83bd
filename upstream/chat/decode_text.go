package chat

import (
	"encoding/json/jsontext"
	"encoding/json/v2"

	"github.com/antiphon-dev/antiphon/responses"
)

// text composes what was said in words.
func (d *decoder) text(said *spoken, logprobs *wireLogprobs) {
	// The two spellings of reasoning may come side by side with the same text.
	thought := said.ReasoningContent.text
	if thought == "" && said.Reasoning.text != "" {
		thought, d.field = said.Reasoning.text, fieldReasoning
	}
	thought += said.Content.thinking
	probs := logprobs.convert()
	if thought == "" && said.Content.text == "" && said.Refusal == "" && len(said.Annotations) == 0 && len(probs) == 0 {
		return
	}
	d.spoke, d.inCall = true, false
	d.beginCalls() // those that are waiting came before this text
	d.out.Reasoning(thought)
	d.out.Text(said.Content.text, probs)
	d.out.Refusal(said.Refusal)
	for _, a := range said.Annotations {
		if flat := flatAnnotation(a); flat != nil {
			d.out.Annotate(flat)
		}
	}
}

// said takes a piece of text that came alone.
func (d *decoder) said(text string) {
	if text == "" {
		return
	}
	d.spoke, d.inCall = true, false
	d.beginCalls()
	d.out.Text(text, nil)
}

// convert returns the log probabilities in our words. A nil p has none.
func (p *wireLogprobs) convert() []responses.LogProb {
	if p == nil || len(p.Content) == 0 {
		return nil
	}
	out := make([]responses.LogProb, len(p.Content))
	for i, token := range p.Content {
		out[i] = token.convert()
		out[i].TopLogprobs = make([]responses.LogProb, len(token.TopLogprobs))
		for j, top := range token.TopLogprobs {
			out[i].TopLogprobs[j] = top.convert()
		}
	}
	return out
}

func (t *wireToken) convert() responses.LogProb {
	return responses.LogProb{Token: t.Token, Logprob: t.Logprob, Bytes: t.Bytes}
}

// flatAnnotation returns an annotation as the Responses API has it: the members
// that Chat Completions nests under the type's own name are beside the type. It
// returns nil for what is no annotation.
func flatAnnotation(raw jsontext.Value) jsontext.Value {
	var outer map[string]jsontext.Value
	if raw.Kind() != '{' || json.Unmarshal(raw, &outer, wireOptions) != nil {
		return nil
	}
	var typ string
	if json.Unmarshal(outer["type"], &typ) != nil {
		return nil
	}
	flat := outer
	if nested := outer[typ]; nested.Kind() == '{' {
		flat = nil
		if json.Unmarshal(nested, &flat, wireOptions) != nil {
			return nil
		}
		flat["type"] = outer["type"]
	}
	if typ == "url_citation" {
		// Clients fail on a citation that lacks one of these.
		for name, missing := range map[string]string{"url": `""`, "title": `""`, "start_index": "0", "end_index": "0"} {
			if flat[name] == nil {
				flat[name] = jsontext.Value(missing)
			}
		}
	}
	out, err := json.Marshal(flat, json.Deterministic(true))
	if err != nil {
		return nil // its members came from the decoder
	}
	return out
}
