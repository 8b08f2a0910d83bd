package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// loop runs the response to its end: the model, the calls that are ours, the model
// again with their results, until no such call is left, a call is the client's to
// run or to approve of, or a bound is reached (R44).
//
//	host: open the tools ─► lists, calls that were approved
//	  ┌──────────────────────────────────────────────┐
//	  ▼                                              │
//	turn ── events ─► take: a call of ours is shown as an mcp_call, and stays open
//	  │ its end                                      │
//	  ▼                                              │
//	run the calls ─► results, in the log ─► in the store ─► the next request
//	  │ nothing to go on for
//	  ▼
//	the end of the response
//
// A run that has nothing to do with tools of ours is one turn.
func (r *Run) loop(ctx context.Context) (*responses.TurnEnd, error) {
	h, err := r.host(ctx)
	if err != nil {
		return nil, err
	}
	if h == nil {
		return r.turn(ctx, &upstream.Turn{Request: r.memory.asked})
	}
	r.hosting = h
	if err := r.announce(ctx); err != nil {
		return nil, err
	}
	over, err := r.prologue(ctx)
	if err != nil {
		return nil, err
	}
	if over {
		return h.cut(&responses.TurnEnd{}, responses.ReasonMaxToolCalls), nil
	}
	for round := 0; ; round++ {
		end, err := r.round(ctx, round)
		if err != nil {
			return nil, h.costly(err)
		}
		if end != nil {
			return end, nil
		}
	}
}

// round calls the model and runs the calls that it makes. It returns the end of the
// response, or nil if there is another round.
func (r *Run) round(ctx context.Context, round int) (end *responses.TurnEnd, err error) {
	ctx = r.engine.tools.RoundStarted(ctx, &r.info, round)
	defer func() { r.engine.tools.RoundEnded(ctx, &r.info, round, err) }()
	h := r.hosting
	h.slots, h.order = map[int]*slot{}, nil
	if end, err = r.turn(ctx, &upstream.Turn{Request: h.request, Round: round, Returns: true}); err != nil {
		return nil, err
	}
	return r.afterTurn(ctx, round, end)
}

// afterTurn runs the calls of a turn. It returns the end of the response, or nil
// if there is another round.
func (r *Run) afterTurn(ctx context.Context, round int, end *responses.TurnEnd) (*responses.TurnEnd, error) {
	h := r.hosting
	h.usage = h.usage.Add(end.Usage)
	for _, l := range end.Losses {
		h.lose(l.Param, l.Reason)
	}
	if end.Status != responses.StatusCompleted {
		return h.total(end), r.closeCalls(ctx)
	}
	if err := r.runCalls(ctx); err != nil {
		return nil, err
	}
	switch {
	case slices.ContainsFunc(h.order, func(s *slot) bool { return s.kind == slotHidden && s.over }):
		return h.cut(end, responses.ReasonMaxToolCalls), nil
	case !h.goesOn():
		return h.total(end), nil
	}
	if reason := r.exhausted(round + 1); reason != "" {
		return h.cut(end, reason), nil
	}
	if err := r.persistStep(ctx); err != nil {
		return nil, err
	}
	h.next()
	return nil, nil
}

// goesOn reports whether the model has to be told something, and nobody else has
// to do something first.
func (h *hosting) goesOn() bool {
	again := false
	for _, s := range h.order {
		switch s.kind {
		case slotPassed:
			if clientsCall(s.item) {
				return false
			}
		case slotApproval:
			return false
		case slotHosted, slotHidden:
			again = true
		}
	}
	return again
}

// clientsCall reports whether an item is a call that the client answers, or one of
// the upstream's that the client has to approve of.
func clientsCall(it responses.Item) bool {
	switch it := it.(type) {
	case *responses.FunctionCall, *responses.CustomToolCall, *responses.MCPApprovalRequest:
		return true
	case *responses.ToolSearchCall:
		return it.Execution == "client"
	case *responses.UnknownItem:
		switch it.Name {
		case "computer_call", "local_shell_call", "shell_call", "apply_patch_call":
			return true
		}
	}
	return false
}

// exhausted returns the reason for which no further round may begin, "" if one may.
func (r *Run) exhausted(rounds int) string {
	h, now := r.hosting, r.engine.opts.Now()
	switch {
	case rounds >= h.limits.Rounds:
		h.lose("tools", fmt.Sprintf("the response ended after %d rounds, which is the gateway's limit", rounds))
	case now.Sub(r.started) >= h.limits.Time:
		h.lose("tools", fmt.Sprintf("the response ended after %s, when the gateway begins no further round", h.limits.Time))
	case h.limits.Tokens > 0 && h.usage != nil && h.usage.TotalTokens >= h.limits.Tokens:
		h.lose("tools", fmt.Sprintf("the response ended after %d tokens, when the gateway begins no further round", h.usage.TotalTokens))
		return responses.ReasonMaxOutputTokens
	case h.tokensLeft() < minOutputTokens:
		return responses.ReasonMaxOutputTokens
	default:
		return ""
	}
	return responses.ReasonMaxToolCalls
}

// minOutputTokens is the smallest limit that the API knows.
const minOutputTokens = 16

// tokensLeft is how much of the request's max_output_tokens is left for the rounds
// to come.
func (h *hosting) tokensLeft() int64 {
	if h.maxOutput == nil {
		return minOutputTokens
	}
	left := *h.maxOutput
	if h.usage != nil {
		left -= h.usage.OutputTokens
	}
	return left
}

// next makes the request of the next round: what the model said, in its own words,
// and what became of its calls.
func (h *hosting) next() {
	req := *h.request
	if left := h.tokensLeft(); h.maxOutput != nil {
		req.MaxOutputTokens = &left
	}
	items := slices.Clip(req.Input.Items)
	var outputs []responses.Item
	for _, s := range h.order {
		if s.item == nil {
			continue
		}
		s.item = h.uniqueCall(s.item)
		items = append(items, s.item)
		if out := s.output(); out != nil {
			outputs = append(outputs, out)
		}
	}
	req.Input.Items = append(items, outputs...)
	req.ToolChoice = h.relaxed(req.ToolChoice)
	h.request = &req
}

// callID is the id of a call, "" for any other item.
func callID(it responses.Item) string {
	switch it := it.(type) {
	case *responses.FunctionCall:
		return it.CallID
	case *responses.CustomToolCall:
		return it.CallID
	}
	return ""
}

// uniqueCall returns a call under another call id, if its own stands for an earlier
// call, of this response or of one before: some upstreams count anew in each round.
func (h *hosting) uniqueCall(it responses.Item) responses.Item {
	id := callID(it)
	if id == "" {
		return it
	}
	if !h.callIDs[id] {
		h.callIDs[id] = true
		return it
	}
	id = fmt.Sprintf("%s%d_%s", responses.PrefixCall, len(h.callIDs), id[max(0, len(id)-32):])
	h.callIDs[id] = true
	switch it := it.(type) {
	case *responses.FunctionCall:
		c := *it
		c.CallID = id
		return &c
	case *responses.CustomToolCall:
		c := *it
		c.CallID = id
		return &c
	}
	return it
}

// relaxed is the tool choice of the rounds after a call was run: what had to be
// called was. The limit stays.
func (h *hosting) relaxed(c *responses.ToolChoice) *responses.ToolChoice {
	if c == nil || !slices.ContainsFunc(h.order, func(s *slot) bool { return s.kind == slotHosted }) {
		return c
	}
	switch {
	case c.Type == responses.TypeAllowedTools && c.Mode == responses.ToolChoiceRequired:
		return &responses.ToolChoice{Type: c.Type, Mode: responses.ToolChoiceAuto, Tools: c.Tools}
	case c.Type == responses.TypeFunction:
		return &responses.ToolChoice{Mode: responses.ToolChoiceAuto}
	case c.Mode == responses.ToolChoiceRequired:
		return &responses.ToolChoice{Mode: responses.ToolChoiceAuto}
	}
	return c
}

// total is the end of the response that ends with a turn.
func (h *hosting) total(end *responses.TurnEnd) *responses.TurnEnd {
	out := *end
	out.Usage, out.Losses = h.usage, h.losses
	return &out
}

// cut is the end of a response that would go on.
func (h *hosting) cut(end *responses.TurnEnd, reason string) *responses.TurnEnd {
	out := h.total(end)
	out.Status, out.Reason = responses.StatusIncomplete, reason
	return out
}

// costly adds what the rounds before a failure cost to what the failure did (R16).
func (h *hosting) costly(err error) error {
	usage := h.usage
	if c, ok := errors.AsType[*upstream.Costly](err); ok {
		usage = usage.Add(c.Usage)
	}
	if usage == nil {
		return err
	}
	return &upstream.Costly{Err: err, Usage: usage}
}

func panicked(p any) error {
	return errPanic.WithCause(errors.Join(errPanic, fmt.Errorf("panic: %v\n%s", p, debug.Stack())))
}
