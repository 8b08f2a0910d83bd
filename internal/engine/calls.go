package engine

import (
	"context"
	"encoding/json/jsontext"
	"fmt"

	"github.com/antiphon-dev/antiphon/responses"
)

// A slot is what an item of a turn becomes in the response.
type slot struct {
	kind  slotKind
	index int            // in the response's output
	item  responses.Item // as the model said it, once it is done
	// Of a call of ours.
	tool     *hostedTool
	id       string  // of the mcp_call
	told     bool    // its arguments are done
	approved *string // the request for approval that led to it, nil if it needed none
	result   *responses.MCPCall
	// Of a hidden call.
	over bool // there were too many
}

type slotKind uint8

const (
	slotPassed   slotKind = iota // it is shown as it is
	slotHosted                   // a call that we run, shown as an mcp_call
	slotApproval                 // a call that the client must approve of
	slotHidden                   // a call that is suppressed
)

// take appends an event of a turn in a run that hosts tools.
func (r *Run) take(ctx context.Context, ev responses.Event) error {
	s := r.hosting.slots[ev.OutputIndex]
	if ev.Type == responses.EventItemAdded {
		return r.beginSlot(ctx, ev)
	}
	if s == nil {
		return r.item(ctx, ev) // about no item
	}
	if ev.Type == responses.EventItemDone {
		s.item = ev.Item
	}
	switch s.kind {
	case slotPassed:
		ev.OutputIndex = s.index
		if ev.Raw == nil && !r.showsSealed && isSealed(ev.Item) {
			ev.Item = unsealed(ev.Item) // sealed by the gateway for the rounds to come, and for nothing else
		}
		return r.emit(ctx, ev)
	case slotHosted:
		return r.takeHosted(ctx, s, ev)
	case slotApproval:
		if ev.Type == responses.EventItemDone && responses.ItemStatus(ev.Item) == responses.StatusCompleted {
			return r.requestApproval(ctx, s)
		}
	}
	return nil
}

// beginSlot decides what becomes of an item.
func (r *Run) beginSlot(ctx context.Context, ev responses.Event) error {
	h := r.hosting
	s := h.classify(ev.Item)
	h.slots[ev.OutputIndex] = s
	h.order = append(h.order, s)
	s.index = r.fold.Len()
	switch s.kind {
	case slotPassed:
		ev.OutputIndex = s.index
		return r.emit(ctx, ev)
	case slotHosted:
		return r.showCall(ctx, s)
	}
	return nil
}

func (h *hosting) classify(it responses.Item) *slot {
	var c called
	switch it := it.(type) {
	case *responses.FunctionCall:
		c = called{typ: responses.TypeFunction, name: it.Name, namespace: it.Namespace}
		if t := h.byFunction[it.Name]; t != nil && it.Namespace == "" {
			return h.classifyOwn(t)
		}
	case *responses.CustomToolCall:
		c = called{typ: responses.TypeCustom, name: it.Name, namespace: it.Namespace}
	default:
		return &slot{}
	}
	if h.limit.allows(c) {
		return &slot{}
	}
	return h.suppress(c.name)
}

func (h *hosting) classifyOwn(t *hostedTool) *slot {
	switch {
	case !h.limit.allows(t.called()):
		return h.suppress(t.Name)
	case h.calls >= h.maxCalls:
		return &slot{kind: slotHidden, over: true}
	}
	h.calls++
	if t.Approval {
		return &slot{kind: slotApproval, tool: t}
	}
	return &slot{kind: slotHosted, tool: t}
}

func (h *hosting) suppress(name string) *slot {
	h.lose(h.limit.param, fmt.Sprintf("the model called %s, which the request does not allow; the call was suppressed", name))
	return &slot{kind: slotHidden}
}

// showCall begins the item of a call that we run.
func (r *Run) showCall(ctx context.Context, s *slot) error {
	s.id = r.newID(responses.PrefixMCPCall)
	s.index = r.fold.Len()
	call := s.call("", responses.StatusInProgress)
	if err := r.emit(ctx, responses.Event{Type: responses.EventItemAdded, OutputIndex: s.index, Item: call}); err != nil {
		return err
	}
	return r.emit(ctx, responses.Event{Type: responses.EventMCPCallInProgress, OutputIndex: s.index, ItemID: s.id})
}

// call is the item of a call that we run.
func (s *slot) call(arguments string, status responses.Status) *responses.MCPCall {
	return &responses.MCPCall{
		ID: s.id, ServerLabel: s.tool.label, Name: s.tool.Name, Arguments: arguments, Status: status, ApprovalRequestID: s.approved,
	}
}

func (r *Run) newID(prefix string) string {
	return responses.NewID(prefix, r.shard, r.engine.opts.Now())
}

// takeHosted shows how the arguments of a call grow. The item stays open until it
// was run.
func (r *Run) takeHosted(ctx context.Context, s *slot, ev responses.Event) error {
	at := responses.Event{OutputIndex: s.index, ItemID: s.id, Text: ev.Text}
	switch ev.Type {
	case responses.EventArgumentsDelta:
		at.Type = responses.EventMCPArgumentsDelta
	case responses.EventArgumentsDone:
		at.Type, s.told = responses.EventMCPArgumentsDone, true
	case responses.EventItemDone:
		if call, ok := ev.Item.(*responses.FunctionCall); ok && !s.told {
			at.Type, at.Text, s.told = responses.EventMCPArgumentsDone, call.Arguments, true
			break
		}
		return nil
	default:
		return nil
	}
	return r.emit(ctx, at)
}

// requestApproval shows a call that the client has to approve of.
func (r *Run) requestApproval(ctx context.Context, s *slot) error {
	call, ok := s.item.(*responses.FunctionCall)
	if !ok {
		return nil
	}
	s.index = r.fold.Len()
	it := &responses.MCPApprovalRequest{
		ID: r.newID(responses.PrefixMCPApproval), ServerLabel: s.tool.label, Name: s.tool.Name, Arguments: call.Arguments,
	}
	return r.whole(ctx, it)
}

// whole shows an item that has no events of its own between its begin and its end.
func (r *Run) whole(ctx context.Context, it responses.Item, progress ...responses.EventType) error {
	index := r.fold.Len()
	added := it
	if l, ok := it.(*responses.MCPListTools); ok {
		added = &responses.MCPListTools{ID: l.ID, ServerLabel: l.ServerLabel, Tools: []responses.MCPListedTool{}}
	}
	if err := r.emit(ctx, responses.Event{Type: responses.EventItemAdded, OutputIndex: index, Item: added}); err != nil {
		return err
	}
	for _, typ := range progress {
		if err := r.emit(ctx, responses.Event{Type: typ, OutputIndex: index, ItemID: it.ItemID()}); err != nil {
			return err
		}
	}
	return r.emit(ctx, responses.Event{Type: responses.EventItemDone, OutputIndex: index, Item: it})
}

// announce shows the tools of servers, unless the client has seen them in what the
// response goes on from.
func (r *Run) announce(ctx context.Context) error {
	seen := map[string]bool{}
	for _, it := range r.memory.asked.Input.Items {
		if l, ok := it.(*responses.MCPListTools); ok && l.Error == nil {
			seen[l.ServerLabel] = true
		}
	}
	for _, o := range r.hosting.sets {
		if o.err == nil && !o.set.Listed || o.err == nil && seen[o.label] {
			continue
		}
		list := &responses.MCPListTools{ID: r.newID(responses.PrefixMCPListTools), ServerLabel: o.label, Tools: []responses.MCPListedTool{}}
		end := responses.EventMCPListCompleted
		if o.err != nil {
			end = responses.EventMCPListFailed
			list.Error, _ = jsontext.AppendQuote(nil, shortened(o.err)) // the error only reports invalid UTF-8
		} else {
			for _, t := range o.set.Tools {
				listed := responses.MCPListedTool{Name: t.Name, InputSchema: t.Parameters, Annotations: t.Annotations}
				if t.Description != "" {
					listed.Description = &t.Description
				}
				if listed.InputSchema == nil {
					listed.InputSchema = noParameters
				}
				list.Tools = append(list.Tools, listed)
			}
		}
		if err := r.whole(ctx, list, responses.EventMCPListInProgress, end); err != nil {
			return err
		}
	}
	return nil
}
