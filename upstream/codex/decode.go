package codex

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"slices"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// A decoder turns the notifications about one thread into the events of a turn,
// which it leaves in out. It is a pure state machine for one goroutine.
//
// Text and reasoning are streamed by notifications of Codex's own; the raw item
// that follows says what they do not: encrypted content, annotations, the phase.
// Calls come whole. The turn is over with the first model response, whatever Codex
// would do next.
type decoder struct {
	out *responses.Composer
	box *upstream.Toolbox // whose functions the model may call
	// degrade makes a loss of an image that Codex cannot read.
	degrade bool

	turn   string // the id of the turn, "" before it has begun
	open   string // the upstream's id of the open message or reasoning
	typ    string // its type
	said   []byte // what was streamed of it
	told   bool   // its raw item has come
	parts  int    // summary parts that it has
	begun  map[string]bool
	began  bool // something was shown
	ended  bool
	losses []responses.Loss
}

func newDecoder(out *responses.Composer, box *upstream.Toolbox) *decoder {
	return &decoder{out: out, box: box, begun: map[string]bool{}}
}

// Ended reports whether the turn has ended.
func (d *decoder) Ended() bool { return d.ended }

// Push takes the next notification about the thread. The error is the failure of
// the turn.
func (d *decoder) Push(method string, n *note) error {
	if d.ended {
		return nil
	}
	if method == noteTurnStarted && d.turn == "" {
		d.turn = n.Turn.ID
	}
	if n.TurnID != "" && n.TurnID != d.turn {
		return d.past(method, n)
	}
	return d.present(method, n)
}

// past takes what is about the items that we injected.
func (d *decoder) past(method string, n *note) error {
	var m itemMetadata
	if method != noteRawItem || json.Unmarshal(n.Item, &m) != nil || !slices.Contains(m.Metadata.Kinds, kindImageError) {
		return nil
	}
	const reason = "The Codex app-server could not read an image and left it out."
	if !d.degrade {
		return responses.InvalidParam(responses.CodeInvalidValue, "input", "%s", reason)
	}
	d.losses = append(d.losses, responses.Loss{Param: "input", Reason: reason})
	return nil
}

// present takes what is about the turn.
func (d *decoder) present(method string, n *note) error {
	switch method {
	case noteItemStarted:
		return d.started(n.Item)
	case noteTextDelta:
		d.continueWith(responses.TypeMessage, n.ItemID)
		d.said = append(d.said, n.Delta...)
		d.out.Text(n.Delta, nil)
	case noteSummaryPartAdded:
		d.continueWith(responses.TypeReasoning, n.ItemID)
		d.summaryPart(n.SummaryIndex)
	case noteSummaryDelta:
		d.continueWith(responses.TypeReasoning, n.ItemID)
		d.summaryPart(n.SummaryIndex)
		d.said = append(d.said, n.Delta...)
		d.out.Reasoning(n.Delta)
	case noteRawItem:
		return d.rawItem(n.Item)
	case noteRawResponse:
		return d.end(&responses.TurnEnd{Status: responses.StatusCompleted, Usage: decodeUsage(n.Usage)})
	case noteError:
		if n.WillRetry && !d.began {
			return nil // Codex tries again, and nothing of the first try was shown
		}
		return d.fail(n.Error)
	case noteTurnCompleted:
		return d.turnCompleted(n)
	case noteRerouted:
		d.losses = append(d.losses, responses.Loss{Param: "model", Reason: "The provider answered with another model: " + n.ToModel + "."})
	case noteCompacted:
		d.losses = append(d.losses, responses.Loss{Param: "input", Reason: "The Codex app-server shortened the context by itself."})
	}
	return nil
}

// continueWith makes the item that a delta is about the open one.
func (d *decoder) continueWith(typ, id string) {
	d.began = true
	if d.typ == typ && d.open == id {
		return
	}
	d.begin(typ, id)
}

func (d *decoder) begin(typ, id string) {
	d.began = true
	d.out.Name(id)
	d.out.Begin(typ)
	d.open, d.typ, d.said, d.told, d.parts = id, typ, nil, false, 0
	d.begun[id] = true
}

// started begins an item. What Codex does beside the model's answer is not of it.
func (d *decoder) started(item jsontext.Value) error {
	var it threadItem
	if err := json.Unmarshal(item, &it); err != nil {
		return upstream.Malformed(item, err)
	}
	switch it.Type {
	case itemAgentMessage:
		d.begin(responses.TypeMessage, it.ID)
	case itemReasoning:
		d.begin(responses.TypeReasoning, it.ID)
	}
	return nil
}

// summaryPart makes the part with that index the open one.
func (d *decoder) summaryPart(index int) {
	if index >= d.parts {
		d.out.NextPart()
		d.parts = index + 1
	}
}

// end ends the turn. A message that began and was never said whole is one that
// Codex could not read; an answer without it would be a lie.
func (d *decoder) end(end *responses.TurnEnd) error {
	if d.typ != "" && !d.told && end.Status == responses.StatusCompleted {
		err := responses.UpstreamErrorf(responses.CodeUpstream,
			"The Codex app-server could not read the model's %s. It may have been a refusal, which Codex does not pass on.", d.typ)
		if end.Usage != nil {
			return &upstream.Costly{Err: err, Usage: end.Usage}
		}
		return err
	}
	end.Losses = d.losses
	d.out.End(end)
	d.began, d.ended = true, true
	return nil
}

// turnCompleted takes the end of a turn that no model response has ended.
func (d *decoder) turnCompleted(n *note) error {
	if n.Turn.Error != nil {
		return d.fail(n.Turn.Error)
	}
	if n.Turn.Status == turnCompleted {
		return responses.UpstreamErrorf(responses.CodeUpstream, "The Codex app-server ended the turn without an answer of the model.")
	}
	return responses.UpstreamErrorf(responses.CodeUpstream, "The Codex app-server gave the turn up (%s).", n.Turn.Status)
}

// maxTokens is more than any turn can use. Counts are added up, so one that is
// absurd must not get through.
const maxTokens = 1 << 40

// decodeUsage returns nil for a usage that is not whole (R16) or not possible.
func decodeUsage(raw jsontext.Value) *responses.Usage {
	var w usage
	if raw.Kind() != '{' || json.Unmarshal(raw, &w) != nil || w.InputTokens == nil || w.OutputTokens == nil {
		return nil
	}
	u := &responses.Usage{InputTokens: *w.InputTokens, OutputTokens: *w.OutputTokens, TotalTokens: *w.InputTokens + *w.OutputTokens}
	if w.TotalTokens != nil {
		u.TotalTokens = *w.TotalTokens
	}
	u.InputTokensDetails.CachedTokens = w.CachedInputTokens
	u.OutputTokensDetails.ReasoningTokens = w.ReasoningOutputTokens
	for _, n := range []int64{u.InputTokens, u.OutputTokens, u.TotalTokens, w.CachedInputTokens, w.ReasoningOutputTokens} {
		if n < 0 || n > maxTokens {
			return nil
		}
	}
	return u
}
