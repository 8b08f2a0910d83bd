package upstream

import (
	"fmt"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
)

// AsFunctions returns items with those that tell of tools which a server ran (mcp_
// items) in the words of functions, so that a model that knows nothing else can
// read them. which says which items to translate, and name what the function of a
// server's tool is called.
//
//   - Calls that follow each other, also those of the client's own functions, become
//     calls, and then their outputs, as if the model had made them together.
//   - A request for approval that led to a call is that call. One that was denied,
//     or not answered, is a call whose output says so.
//   - Lists of tools and answers to requests are left out: models have the tools,
//     and the outcome.
//
// items is left as it is, and returned as it is if there is nothing to translate.
func AsFunctions(items []responses.Item, which func(responses.Item) bool, name func(label, tool string) string) []responses.Item {
	t := translation{name: name, answers: map[string]*responses.MCPApprovalResponse{}, ran: map[string]bool{}}
	found := false
	for _, it := range items {
		found = t.note(it) && which(it) || found
	}
	if !found {
		return items
	}
	for i, it := range items {
		if !hosted(it) || !which(it) {
			if !isCall(it) {
				t.flush()
			}
			t.out = append(t.out, it)
			continue
		}
		t.item(i, it)
	}
	t.flush()
	return t.out
}

func hosted(it responses.Item) bool {
	switch it.(type) {
	case *responses.MCPCall, *responses.MCPListTools, *responses.MCPApprovalRequest, *responses.MCPApprovalResponse:
		return true
	}
	return false
}

// isCall reports whether an item is a call that its client runs.
func isCall(it responses.Item) bool {
	switch it.(type) {
	case *responses.FunctionCall, *responses.CustomToolCall:
		return true
	}
	return false
}

type translation struct {
	name    func(label, tool string) string
	answers map[string]*responses.MCPApprovalResponse // by the request's id
	ran     map[string]bool                           // requests that led to a call
	out     []responses.Item
	outputs []responses.Item // of the calls at the end of out
}

// note remembers what decides about requests for approval.
func (t *translation) note(it responses.Item) bool {
	switch it := it.(type) {
	case *responses.MCPApprovalResponse:
		t.answers[it.ApprovalRequestID] = it
	case *responses.MCPCall:
		if it.ApprovalRequestID != nil {
			t.ran[*it.ApprovalRequestID] = true
		}
	}
	return hosted(it)
}

func (t *translation) item(at int, it responses.Item) {
	switch it := it.(type) {
	case *responses.MCPCall:
		t.call(at, it.ID, it.ServerLabel, it.Name, it.Arguments, it.Result())
	case *responses.MCPApprovalRequest:
		if !t.ran[it.ID] {
			t.call(at, it.ID, it.ServerLabel, it.Name, it.Arguments, responses.TextContent(verdict(t.answers[it.ID])))
		}
	}
}

// verdict says why a call that needed approval was not run.
func verdict(answer *responses.MCPApprovalResponse) string {
	switch {
	case answer == nil || answer.Approve:
		return "The call was not run: it needs the user's approval, which was not given."
	case answer.Reason != nil && *answer.Reason != "":
		return "The call was not run: the user denied it, saying: " + *answer.Reason
	}
	return "The call was not run: the user denied it."
}

func (t *translation) call(at int, id, label, tool, arguments string, result responses.Content) {
	callID := fmt.Sprintf("call_hosted_%d", at)
	if _, digits, ok := strings.Cut(id, "_"); ok && responses.ValidID("", id) {
		callID = responses.PrefixCall + digits
	}
	t.out = append(t.out, &responses.FunctionCall{
		CallID: callID, Name: t.name(label, tool), Arguments: arguments, Status: responses.StatusCompleted,
	})
	t.outputs = append(t.outputs, &responses.FunctionCallOutput{CallID: callID, Output: result})
}

// flush puts the outputs of calls behind them.
func (t *translation) flush() {
	t.out = append(t.out, t.outputs...)
	t.outputs = nil
}

// HostedFunction is the name under which a model calls a tool of a labelled server,
// where it knows nothing but functions.
func HostedFunction(label, tool string) string {
	return functionName(responses.Callee{Namespace: label, Name: tool})
}
