package engine

import (
	"context"
	"fmt"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/tool"
)

// prologue runs the calls that the client has approved of, and makes the request
// of the first round. over reports that there were more than may be run.
func (r *Run) prologue(ctx context.Context) (over bool, err error) {
	h, req := r.hosting, r.memory.asked
	calls, err := r.approved()
	if err != nil {
		return false, err
	}
	if n := h.maxCalls; len(calls) > n {
		calls, over = calls[:n], true
	}
	h.calls = len(calls)
	for _, s := range calls {
		if err := r.showCall(ctx, s); err != nil {
			return false, err
		}
		at := responses.Event{OutputIndex: s.index, ItemID: s.id, Text: rawArguments(s.item)}
		if at.Type = responses.EventMCPArgumentsDelta; at.Text != "" {
			if err := r.emit(ctx, at); err != nil {
				return false, err
			}
		}
		at.Type = responses.EventMCPArgumentsDone
		if err := r.emit(ctx, at); err != nil {
			return false, err
		}
	}
	if err := r.runAll(ctx, calls); err != nil {
		return false, err
	}
	items := req.Input.Items
	if len(calls) > 0 {
		items = items[:len(items):len(items)]
		for _, s := range calls {
			items = append(items, s.result)
		}
		if err := r.persistStep(ctx); err != nil {
			return false, err
		}
	}
	return over, h.ask(req, items)
}

// approved returns the calls that the request's own input approves of and that
// were not run yet.
func (r *Run) approved() ([]*slot, error) {
	requests, ran := map[string]*responses.MCPApprovalRequest{}, map[string]bool{}
	for _, it := range r.memory.asked.Input.Items {
		switch it := it.(type) {
		case *responses.MCPApprovalRequest:
			requests[it.ID] = it
		case *responses.MCPCall:
			if it.ApprovalRequestID != nil {
				ran[*it.ApprovalRequestID] = true
			}
		}
	}
	var calls []*slot
	for i, it := range r.memory.added {
		answer, ok := it.(*responses.MCPApprovalResponse)
		if !ok || !ours(answer) {
			continue
		}
		req := requests[answer.ApprovalRequestID]
		switch {
		case req == nil:
			return nil, responses.InvalidParam(responses.CodeInvalidValue, fmt.Sprintf("input[%d].approval_request_id", i),
				"There is no such request for approval: send it before its answer, or go on from the response that has it.")
		case !answer.Approve || ran[req.ID]:
			continue
		}
		ran[req.ID] = true
		calls = append(calls, r.hosting.approvedSlot(req))
	}
	return calls, nil
}

// approvedSlot makes a call of a request for approval. A tool that the request does
// not bring any more fails.
func (h *hosting) approvedSlot(req *responses.MCPApprovalRequest) *slot {
	t := h.byTool[[2]string{req.ServerLabel, req.Name}]
	if t == nil || !h.limit.allows(t.called()) {
		t = &hostedTool{label: req.ServerLabel, Tool: tool.Tool{Name: req.Name}, set: &tool.Set{
			Run: func(context.Context, *tool.Call) (*tool.Result, error) {
				return nil, fmt.Errorf("the tool %s of %s is not among the tools of this request", req.Name, req.ServerLabel)
			},
		}}
	}
	call := &responses.FunctionCall{Name: req.Name, Arguments: req.Arguments}
	return &slot{kind: slotHosted, tool: t, item: call, approved: &req.ID}
}
