package upstream

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
)

// A Sealer seals text that clients carry for the gateway between turns. An
// envelope opens only for the purpose and the tenant that it was made for; one
// that does not is an error, never a panic, whatever the client sends.
type Sealer interface {
	Seal(purpose, tenant string, plain []byte) string
	Open(purpose, tenant, envelope string) ([]byte, error)
}

// purposeCompaction is what summaries are sealed for.
const purposeCompaction = "compaction"

// summaryRequest asks the model for what a later turn can go on from.
const summaryRequest = "Write a summary of this conversation from which another assistant can go on without having seen it. " +
	"Keep what the user wants and which limits they set, what was decided and why, what was done and what came of it, " +
	"names, paths, commands and values exactly as they are, what failed, and what is to be done next. " +
	"Answer with the summary alone."

// summaryIntroduction stands before a summary that comes back.
const summaryIntroduction = "Summary of the conversation so far:\n\n"

// Compacting returns a driver that gives the upstream of d the compaction of the
// Responses API. An input that ends in a compaction_trigger is answered with one
// compaction item, which holds the model's own summary under seal; a compaction
// item in the input is context again. A seal that does not open is left out and
// reported as a loss.
func Compacting(d Driver, s Sealer) Driver { return &compacting{Wrapped{d}, s} }

type compacting struct {
	Wrapped
	sealer Sealer
}

// CountTokens implements [TokenCounter].
func (c *compacting) CountTokens(ctx context.Context, t *Turn) (int64, error) {
	return CountTokens(ctx, c.Driver, t)
}

// Open implements [Driver].
func (c *compacting) Open(ctx context.Context, t *Turn) (*Stream, error) {
	items, losses, err := c.expand(t)
	if err != nil {
		return nil, err
	}
	if items == nil {
		return c.Driver.Open(ctx, t)
	}
	turn, req := *t, *t.Request
	turn.Request = &req
	req.Raw, req.Input = nil, responses.Input{Items: items}
	_, wanted := t.Request.Input.Items[len(t.Request.Input.Items)-1].(*responses.CompactionTrigger)
	if wanted {
		askForSummary(&req)
	}
	s, err := c.Driver.Open(ctx, &turn)
	if err != nil {
		return nil, err
	}
	compacted := *s
	compacted.Losses = append(losses, s.Losses...)
	if wanted {
		compacted.Events = c.summarize(t, s.Events)
	}
	return &compacted, nil
}

// expand returns the input with its compactions opened and its trigger removed;
// nil if it has neither.
func (c *compacting) expand(t *Turn) (items []responses.Item, losses []responses.Loss, err error) {
	in := t.Request.Input.Items
	changed := false
	for i, it := range in {
		switch it := it.(type) {
		case *responses.CompactionTrigger:
			if i != len(in)-1 {
				return nil, nil, responses.InvalidParam(responses.CodeInvalidValue, fmt.Sprintf("input[%d]", i), "A compaction_trigger must be the last item.")
			}
			changed = true
		case *responses.Compaction:
			changed = true
			summary, err := c.sealer.Open(purposeCompaction, t.Owner, it.EncryptedContent)
			if err != nil {
				losses = append(losses, responses.Loss{Param: fmt.Sprintf("input[%d]", i), Reason: "This compaction cannot be opened here; it was left out."})
				continue
			}
			items = append(items, responses.UserMessage(summaryIntroduction+string(summary)))
		default:
			items = append(items, it)
		}
	}
	if !changed {
		return nil, nil, nil
	}
	if items == nil {
		items = []responses.Item{}
	}
	return items, losses, nil
}

// askForSummary turns a request into one for a summary: a plain text about the
// same input, without tools that the model might rather call.
func askForSummary(r *responses.Request) {
	var items []responses.Item
	for _, it := range r.Input.Items {
		if _, ok := it.(*responses.AdditionalTools); !ok {
			items = append(items, it)
		}
	}
	r.Input.Items = append(items, responses.UserMessage(summaryRequest))
	r.Tools, r.ToolChoice, r.ParallelToolCalls, r.Text, r.Include = nil, nil, nil, nil, nil
}

// summarize makes one compaction item of what the model writes.
func (c *compacting) summarize(t *Turn, events iter.Seq2[responses.Event, error]) iter.Seq2[responses.Event, error] {
	return func(yield func(responses.Event, error) bool) {
		shard, _ := responses.Shard(t.RunID)
		item := &responses.Compaction{ID: responses.NewID(responses.PrefixCompaction, shard, time.Now())}
		var summary strings.Builder
		begun := false
		for ev, err := range events {
			if err != nil {
				yield(responses.Event{}, err)
				return
			}
			if !begun {
				// The item begins with the model's first word, so that the time
				// to the first event means what it says.
				begun = true
				if !yield(responses.Event{Type: responses.EventItemAdded, Item: item}, nil) {
					return
				}
			}
			switch ev.Type {
			case responses.EventTextDelta:
				summary.WriteString(ev.Text)
			case responses.EventTurnEnd:
				c.finish(t, *item, strings.TrimSpace(summary.String()), ev, yield)
				return
			}
		}
	}
}

// finish yields the done item and the end of the turn.
func (c *compacting) finish(t *Turn, item responses.Compaction, summary string, end responses.Event, yield func(responses.Event, error) bool) {
	if summary == "" {
		yield(responses.Event{}, responses.UpstreamErrorf(responses.CodeUpstream, "The model was asked for a summary and gave none."))
		return
	}
	item.EncryptedContent = c.sealer.Seal(purposeCompaction, t.Owner, []byte(summary))
	if yield(responses.Event{Type: responses.EventItemDone, Item: &item}, nil) {
		yield(end, nil)
	}
}
