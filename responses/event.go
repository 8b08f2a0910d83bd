package responses

import (
	"encoding/json/jsontext"
)

// An EventType is the wire's type word of an event.
type EventType string

// The events we act on. Every other type passes through as it came.
const (
	EventCreated    EventType = "response.created"
	EventQueued     EventType = "response.queued"
	EventInProgress EventType = "response.in_progress"
	EventCompleted  EventType = "response.completed"
	EventIncomplete EventType = "response.incomplete"
	EventFailed     EventType = "response.failed"
	EventError      EventType = "error"

	EventItemAdded EventType = "response.output_item.added"
	EventItemDone  EventType = "response.output_item.done"
	EventPartAdded EventType = "response.content_part.added"
	EventPartDone  EventType = "response.content_part.done"

	EventTextDelta       EventType = "response.output_text.delta"
	EventTextDone        EventType = "response.output_text.done"
	EventAnnotationAdded EventType = "response.output_text.annotation.added"
	EventRefusalDelta    EventType = "response.refusal.delta"
	EventRefusalDone     EventType = "response.refusal.done"

	EventArgumentsDelta   EventType = "response.function_call_arguments.delta"
	EventArgumentsDone    EventType = "response.function_call_arguments.done"
	EventCustomInputDelta EventType = "response.custom_tool_call_input.delta"
	EventCustomInputDone  EventType = "response.custom_tool_call_input.done"

	EventReasoningDelta   EventType = "response.reasoning_text.delta"
	EventReasoningDone    EventType = "response.reasoning_text.done"
	EventSummaryPartAdded EventType = "response.reasoning_summary_part.added"
	EventSummaryPartDone  EventType = "response.reasoning_summary_part.done"
	EventSummaryDelta     EventType = "response.reasoning_summary_text.delta"
	EventSummaryDone      EventType = "response.reasoning_summary_text.done"

	EventMCPListInProgress EventType = "response.mcp_list_tools.in_progress"
	EventMCPListCompleted  EventType = "response.mcp_list_tools.completed"
	EventMCPListFailed     EventType = "response.mcp_list_tools.failed"
	EventMCPCallInProgress EventType = "response.mcp_call.in_progress"
	EventMCPArgumentsDelta EventType = "response.mcp_call_arguments.delta"
	EventMCPArgumentsDone  EventType = "response.mcp_call_arguments.done"
	EventMCPCallCompleted  EventType = "response.mcp_call.completed"
	EventMCPCallFailed     EventType = "response.mcp_call.failed"

	// EventTurnEnd never reaches a client: it is how a driver ends a turn.
	EventTurnEnd EventType = "antiphon:turn_end"
)

// An Event is one event of a response. It is a plain value that is passed by
// value, so that a text delta costs no allocation of its own; which fields
// matter is a property of the type (see shapes).
type Event struct {
	Type EventType
	// Seq is the sequence number: from 0 without gaps, given by the run.
	Seq int64
	// OutputIndex is the item's place in the output. Drivers count from zero in
	// each turn.
	OutputIndex int
	// ItemID is the id of the item that the event is about.
	ItemID string
	// Index is the place within the item: content_index, or summary_index for
	// the events of a reasoning summary.
	Index int
	// Text is the increment of a delta event, or the whole text of its done
	// event, whatever the wire calls it.
	Text string
	// Logprobs belong to the text of an output_text event.
	Logprobs []LogProb
	// Item is the payload of output_item events.
	Item Item
	// Part is the payload of content_part and reasoning_summary_part events.
	Part Part
	// Response is the payload of lifecycle events.
	Response *Response
	// Err is the payload of the error event.
	Err *ErrorBody
	// End is the payload of EventTurnEnd.
	End *TurnEnd
	// Raw is the event as an upstream sent it, nil if we made it. If set, the
	// encoder splices the fields that we own into it and keeps the rest.
	Raw jsontext.Value
}

// A TurnEnd says how a model call ended.
type TurnEnd struct {
	// Status is completed or incomplete. A failure is an error, not an end.
	Status Status
	// Reason is the reason of an incomplete end.
	Reason string
	// Usage is nil if the upstream did not say.
	Usage *Usage
	// Losses are those that only the answer revealed.
	Losses []Loss
	// Stripped is what was taken out of the answer, where it is sanitized.
	Stripped []Loss
	// Upstream is the response object of an upstream that has one: what it
	// says beyond what we own reaches the client.
	Upstream *Response
}

// Terminal reports whether t ends a response.
func (t EventType) Terminal() bool {
	return t == EventCompleted || t == EventIncomplete || t == EventFailed
}

// ItemEvent reports whether t is about the output rather than about the life of
// the response. The first one is the commit point of a run.
func (t EventType) ItemEvent() bool {
	c := shapes[t].class
	return c != classLifecycle && c != classError && c != classTurnEnd
}

// class groups the events that play the same part in the grammar.
type class uint8

const (
	classOther     class = iota // unknown, and progress of hosted tools
	classLifecycle              // the life of the response
	classError
	classTurnEnd
	classItemAdded
	classItemDone
	classPartAdded
	classPartDone
	classDelta
	classTextDone
	classAnnotation
	classProgress // of an item that a server runs by itself
)

// shape says which members an event type has on the wire and what it does.
type shape struct {
	class    class
	index    string // content_index or summary_index; "" if it has none
	text     string // the member that holds Text; "" if it has none
	part     string // type of the part that the event belongs to; "" if to none
	item     string // type of the item whose own text it is; "" if of a part
	logprobs bool
}

// shapes is the wire, event by event. Types that are not here have class
// classOther and keep their raw form.
var shapes = map[EventType]shape{
	EventCreated:    {class: classLifecycle},
	EventQueued:     {class: classLifecycle},
	EventInProgress: {class: classLifecycle},
	EventCompleted:  {class: classLifecycle},
	EventIncomplete: {class: classLifecycle},
	EventFailed:     {class: classLifecycle},
	EventError:      {class: classError},
	EventTurnEnd:    {class: classTurnEnd},

	EventItemAdded: {class: classItemAdded},
	EventItemDone:  {class: classItemDone},

	EventPartAdded:        {class: classPartAdded, index: "content_index"},
	EventPartDone:         {class: classPartDone, index: "content_index"},
	EventSummaryPartAdded: {class: classPartAdded, index: "summary_index"},
	EventSummaryPartDone:  {class: classPartDone, index: "summary_index"},

	EventTextDelta:       {class: classDelta, index: "content_index", text: "delta", part: TypeOutputText, logprobs: true},
	EventTextDone:        {class: classTextDone, index: "content_index", text: "text", part: TypeOutputText, logprobs: true},
	EventAnnotationAdded: {class: classAnnotation, index: "content_index", part: TypeOutputText},
	EventRefusalDelta:    {class: classDelta, index: "content_index", text: "delta", part: TypeRefusal},
	EventRefusalDone:     {class: classTextDone, index: "content_index", text: "refusal", part: TypeRefusal},
	EventReasoningDelta:  {class: classDelta, index: "content_index", text: "delta", part: TypeReasoningText},
	EventReasoningDone:   {class: classTextDone, index: "content_index", text: "text", part: TypeReasoningText},
	EventSummaryDelta:    {class: classDelta, index: "summary_index", text: "delta", part: TypeSummaryText},
	EventSummaryDone:     {class: classTextDone, index: "summary_index", text: "text", part: TypeSummaryText},

	EventArgumentsDelta:   {class: classDelta, text: "delta", item: TypeFunctionCall},
	EventArgumentsDone:    {class: classTextDone, text: "arguments", item: TypeFunctionCall},
	EventCustomInputDelta: {class: classDelta, text: "delta", item: TypeCustomToolCall},
	EventCustomInputDone:  {class: classTextDone, text: "input", item: TypeCustomToolCall},

	EventMCPListInProgress: {class: classProgress, item: TypeMCPListTools},
	EventMCPListCompleted:  {class: classProgress, item: TypeMCPListTools},
	EventMCPListFailed:     {class: classProgress, item: TypeMCPListTools},
	EventMCPCallInProgress: {class: classProgress, item: TypeMCPCall},
	EventMCPArgumentsDelta: {class: classDelta, text: "delta", item: TypeMCPCall},
	EventMCPArgumentsDone:  {class: classTextDone, text: "arguments", item: TypeMCPCall},
	EventMCPCallCompleted:  {class: classProgress, item: TypeMCPCall},
	EventMCPCallFailed:     {class: classProgress, item: TypeMCPCall},
}
