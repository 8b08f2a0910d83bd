package chat

import (
	"bytes"
	"encoding/json/v2"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// A decoder turns the chunks of one answer into events, which it leaves in out.
// A whole answer is one chunk. It is a pure state machine for one goroutine.
//
// The finish reason does not end the turn: usage may come after it, in a chunk
// of its own without choices (R16). The end is what [decoder.End] makes of what
// was seen, once there is nothing more to read.
type decoder struct {
	out *responses.Composer
	box *upstream.Toolbox // whose functions the model may call
	// skipMalformed makes Push pass over what it cannot understand.
	skipMalformed bool

	field  string // the member that reasoning came under
	plain  textReader
	chunk  chunk   // reused from chunk to chunk
	spoke  bool    // the model has said something
	finish string  // the last finish reason, "" before it came
	usage  []byte  // the last usage object, as it came
	calls  []*call // in the order in which they began
	inCall bool    // the last that came was a piece of a call
}

func newDecoder(out *responses.Composer, box *upstream.Toolbox) *decoder {
	return &decoder{out: out, box: box, field: fieldReasoningContent}
}

// finished reports whether the model has said that it is done.
func (d *decoder) finished() bool { return d.finish != "" }

// Push takes the next chunk. After an error the decoder must not be used.
func (d *decoder) Push(data []byte) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil // a heartbeat
	}
	if text, ok := d.plain.read(data); ok {
		d.said(text)
		return nil
	}
	c := &d.chunk
	c.Choices, c.Usage, c.Error = c.Choices[:0], c.Usage[:0], c.Error[:0]
	if err := json.Unmarshal(data, c, wireOptions); err != nil {
		if d.skipMalformed {
			return nil
		}
		return upstream.Malformed(data, err)
	}
	if err := chunkError(c, data); err != nil {
		return err
	}
	if c.Usage.Kind() == '{' {
		d.usage = append(d.usage[:0], c.Usage...)
	}
	for i := range c.Choices {
		// One answer was asked for; others are not part of it.
		if c.Choices[i].Index == 0 {
			if err := d.choice(&c.Choices[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *decoder) choice(c *choice) error {
	if c.FinishReason != "" {
		d.finish = c.FinishReason
	}
	said := &c.Delta
	if c.Message != nil && !d.spoke {
		// Some servers repeat the whole message at the end of a stream.
		said = c.Message
		numberCalls(said.ToolCalls)
	}
	d.text(said, c.Logprobs)
	if fc := said.FunctionCall; fc != nil {
		if err := d.call(&callDelta{Function: *fc}); err != nil {
			return err
		}
	}
	for i := range said.ToolCalls {
		if err := d.call(&said.ToolCalls[i]); err != nil {
			return err
		}
	}
	return nil
}

// End ends the turn. It fails if the model did not finish: an answer that just
// stops must not pass for a whole one (R15).
func (d *decoder) End() error {
	end, err := d.turnEnd()
	if err != nil {
		return err
	}
	cut := end.Status == responses.StatusIncomplete && d.inCall
	if err := d.finishCalls(cut); err != nil {
		return err
	}
	d.out.End(end)
	return nil
}

// turnEnd reads the finish reason. A word that is not in the list is some
// server's own for a normal end.
func (d *decoder) turnEnd() (*responses.TurnEnd, error) {
	end := &responses.TurnEnd{Status: responses.StatusCompleted, Usage: decodeUsage(d.usage)}
	switch d.finish {
	case "":
		return nil, responses.UpstreamErrorf(responses.CodeUpstream, "The upstream's answer ended without a finish reason; it may be cut off.")
	case "length", "max_tokens", "model_length":
		end.Status, end.Reason = responses.StatusIncomplete, responses.ReasonMaxOutputTokens
	case "content_filter":
		end.Status, end.Reason = responses.StatusIncomplete, responses.ReasonContentFilter
	case "error", "abort", "insufficient_system_resource":
		return nil, responses.UpstreamErrorf(responses.CodeUpstream, "The upstream gave up in the middle of its answer (%s).", d.finish)
	}
	return end, nil
}

// maxTokens is more than any turn can use. Counts are added up, so one that is
// absurd must not get through.
const maxTokens = 1 << 40

// decodeUsage returns nil for a usage that is not whole (R16) or not possible.
func decodeUsage(raw []byte) *responses.Usage {
	var w wireUsage
	if raw == nil || json.Unmarshal(raw, &w, wireOptions) != nil || w.PromptTokens == nil || w.CompletionTokens == nil {
		return nil
	}
	u := &responses.Usage{InputTokens: *w.PromptTokens, OutputTokens: *w.CompletionTokens}
	u.InputTokensDetails.CachedTokens = max(w.PromptTokensDetails.CachedTokens, w.PromptCacheHitTokens)
	u.OutputTokensDetails.ReasoningTokens = w.CompletionTokensDetails.ReasoningTokens
	u.TotalTokens = u.InputTokens + u.OutputTokens
	if w.TotalTokens != nil {
		u.TotalTokens = *w.TotalTokens
	}
	for _, n := range []int64{
		u.InputTokens, u.OutputTokens, u.TotalTokens,
		u.InputTokensDetails.CachedTokens, u.OutputTokensDetails.ReasoningTokens,
	} {
		if n < 0 || n > maxTokens {
			return nil
		}
	}
	return u
}
