package fakeupstream

import (
	"cmp"
	"encoding/json/jsontext"
)

// partWire is how Responses spells a part of an answer.
type partWire struct {
	idPrefix string // of the item
	event    string // of the text, without .delta or .done; none if the item comes whole
	text     string // member that has the whole text in the .done event
	part     string // event of the content part, if the item has one
	index    string // member that counts the content parts
}

func wireOf(p *part) partWire {
	switch {
	case p.kind == reasoningPart:
		return partWire{"rs_", "response.reasoning_summary_text", "text", "reasoning_summary_part", "summary_index"}
	case p.kind == refusalPart:
		return partWire{"msg_", "response.refusal", "refusal", "content_part", "content_index"}
	case p.kind == compactionPart:
		return partWire{idPrefix: "cmp_"}
	case p.kind == callPart && p.tool.kind == searchTool:
		return partWire{idPrefix: "tsc_"}
	case p.kind == callPart && p.tool.kind == customTool:
		return partWire{idPrefix: "ctc_", event: "response.custom_tool_call_input", text: "input"}
	case p.kind == callPart:
		return partWire{idPrefix: "fc_", event: "response.function_call_arguments", text: "arguments"}
	default:
		return partWire{"msg_", "response.output_text", "text", "content_part", "content_index"}
	}
}

// content returns the content part of the open item with a text.
func (v *responsesVoice) content(text string) any {
	switch v.part.kind {
	case reasoningPart:
		return summaryText{"summary_text", text}
	case refusalPart:
		return outputRefusal{"refusal", text}
	default:
		return outputText{Type: "output_text", Text: text}
	}
}

// item returns the open item: empty as it is added, or filled as it is done.
func (v *responsesVoice) item(status string, filled bool) any {
	text := string(v.text)
	switch {
	case v.part.kind == reasoningPart:
		item := reasoningItem{ID: v.itemID, Type: "reasoning"}
		if v.sealed {
			item.EncryptedContent = fakeEncryptedContent
		}
		if filled {
			item.Summary = []summaryText{{"summary_text", text}}
		}
		return item
	case v.part.kind == compactionPart:
		return compactionItem{v.itemID, "compaction", fakeCompaction}
	case v.part.kind == callPart:
		return v.call(status, text)
	}
	item := messageItem{ID: v.itemID, Type: "message", Status: status, Role: "assistant"}
	if filled {
		item.Content = []any{v.content(text)}
	}
	return item
}

// call returns the call that is the open item.
func (v *responsesVoice) call(status, text string) any {
	t := v.part.tool
	switch t.kind {
	case customTool:
		return customCallItem{v.itemID, "custom_tool_call", status, v.callID, text, t.name, t.namespace}
	case searchTool:
		return searchCallItem{v.itemID, "tool_search_call", status, jsontext.Value(cmp.Or(text, "{}")), v.callID, "client"}
	default:
		return functionCallItem{v.itemID, "function_call", status, text, v.callID, t.name, t.namespace}
	}
}
