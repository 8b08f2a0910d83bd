package fakeupstream

import (
	"crypto/rand"
	"encoding/json/v2"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// Protocol is a set of wire protocols.
type Protocol int

// The protocols that a [Model] can speak.
const (
	Chat      Protocol = 1 << iota // POST /v1/chat/completions
	Responses                      // POST /v1/responses
)

// ModelOptions configures [NewModel]. The zero value is usable.
type ModelOptions struct {
	// Protocol says which paths exist. Zero means all; the others answer 404.
	Protocol Protocol
	// Delay is the time between two tokens. A prompt can override it.
	Delay time.Duration
	// ID returns what follows the prefix of an id: new each time, letters and
	// digits, at most 48. Nil means unique ids that differ between models.
	ID func() string
	// Now is the clock. Nil means [time.Now].
	Now func() time.Time
}

// A Model is a small mind that answers Chat Completions and Responses requests
// from the request alone: it echoes, counts, thinks, refuses, calls the tools
// it is given and fills in JSON schemas. A prompt can write down what it does,
// step by step, and which faults it has, in double brackets. It holds no state
// and is safe for concurrent use.
//
// Let text be the text of the last user message. Directives in it are obeyed
// and removed:
//
//	[[call NAME ARGUMENT]]  a step: call that tool
//	[[and NAME ARGUMENT]]   another call in the same step
//	[[reason]]              think before the next step or, behind the last, before the answer
//	[[insist]]              refuse calls that come back without the reasoning they were made with
//	[[short-reasoning]]     chat: call reasoning "reasoning" instead of "reasoning_content", as some servers do
//
//	[[status 500]]      that HTTP status with an error body
//	[[retry-after 2]]   that header
//	[[error]]           an error inside the stream after the first text token; whole: a status
//	[[error CODE]]      such an error with that code
//	[[cut]]             connection closed in the frame after the first token; whole: mid-body
//	[[cut 100]]         closed after 100 bytes of body
//	[[stall]]           nothing after the first token until the client leaves; whole: mid-body
//	[[stall-first]]     no headers until the client leaves
//	[[bytes 1]]         one byte per write
//	[[type text/html]]  that content type
//	[[delay 20ms]]      between tokens
//	[[no-usage]]        no token counts
//	[[limit 5]]         at most 5 tokens, as if the request had said so
//
// The k-th turn after the message does the k-th step: the calls that are in the
// input since then tell which steps are done. NAME may be the end of a tool's
// name, with or without its namespace, because gateways rename tools. ARGUMENT
// is a JSON object for the arguments, or else text, as it is or as a JSON
// string: it is the input of a custom tool, and for a function it takes the
// place of the required strings. Tools come from the request, from
// additional_tools and from what a tool_search has found; the search itself is
// called tool_search. Each step has a thought of its own, so that [[insist]]
// notices one at the wrong call. An input that ends in compaction_trigger is
// answered with a compaction and nothing else, whatever the prompt says.
//
// After the last step, and in a prompt without any, the first rule that applies
// decides:
//
//	a tool result is the last input        The tool answered: RESULT, RESULT
//	tools, no steps, no "no tool"          call the first; two calls for "both" or "parallel"
//	a JSON schema or object is asked for   a minimal instance, {"ok":true}
//	"refuse"                               a refusal
//	"think" or "reason"                    reasoning, then Thought about: TEXT
//	"count to N"                           1 2 3 … N
//	an image                               I see 1 image(s): image/png.
//	otherwise                              You said: TEXT
//
// A call's arguments are a minimal instance of the tool's schema whose strings
// are what text names after " in ": Rome for the first call and Oslo for the
// second in "weather in Rome and Oslo, both". Tokens are words.
type Model struct {
	protocol Protocol
	delay    time.Duration
	id       func() string
	now      func() time.Time
}

// NewModel returns a model. A nil opts means the zero value.
func NewModel(opts *ModelOptions) *Model {
	if opts == nil {
		opts = &ModelOptions{}
	}
	m := &Model{protocol: opts.Protocol, delay: opts.Delay, id: opts.ID, now: opts.Now}
	if m.protocol == 0 {
		m.protocol = Chat | Responses
	}
	if m.id == nil {
		m.id = uniqueIDs()
	}
	if m.now == nil {
		m.now = time.Now
	}
	return m
}

// Answer answers one request. It is what [NewServer] wants.
func (m *Model) Answer(x *Exchange) Reply {
	reply := m.route(x)
	if reply.Header == nil {
		reply.Header = http.Header{}
	}
	reply.Header.Set("X-Request-Id", "req_"+m.id())
	return reply
}

func (m *Model) route(x *Exchange) Reply {
	var method string
	var answer func(*Exchange) Reply
	switch {
	case x.Path == "/v1/models":
		method, answer = http.MethodGet, m.listModels
	case x.Path == "/v1/chat/completions" && m.protocol&Chat != 0:
		method, answer = http.MethodPost, m.answerChat
	case x.Path == "/v1/responses" && m.protocol&Responses != 0:
		method, answer = http.MethodPost, m.answerResponses
	default:
		return errorReply(http.StatusNotFound, fmt.Sprintf("Invalid URL (%s %s)", x.Method, x.Path))
	}
	if x.Method != method {
		return errorReply(http.StatusMethodNotAllowed, fmt.Sprintf("Not allowed to %s on %s.", x.Method, x.Path))
	}
	return answer(x)
}

// modelCard is an entry of the list of models. MaxModelLen is how vLLM tells
// the context window, so it is there if the Chat Completions protocol is.
type modelCard struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	OwnedBy     string `json:"owned_by"`
	MaxModelLen int    `json:"max_model_len,omitzero"`
}

func (m *Model) listModels(*Exchange) Reply {
	list := struct {
		Object string      `json:"object"`
		Data   []modelCard `json:"data"`
	}{Object: "list"}
	for _, id := range []string{"tiny", "tiny-2"} {
		card := modelCard{ID: id, Object: "model", Created: m.now().Unix(), OwnedBy: "fakeupstream"}
		if m.protocol&Chat != 0 {
			card.MaxModelLen = 32768
		}
		list.Data = append(list.Data, card)
	}
	return jsonReply(http.StatusOK, list)
}

// pace returns the time between tokens for a prompt.
func (m *Model) pace(faults *directives) time.Duration {
	if faults.delay > 0 {
		return faults.delay
	}
	return m.delay
}

// uniqueIDs numbers ids behind a random word, so that two models never agree.
func uniqueIDs() func() string {
	model := rand.Text()[:16]
	var n atomic.Uint64
	return func() string { return fmt.Sprintf("%s%08x", model, n.Add(1)) }
}

// jsonReply encodes a value of ours, which cannot fail.
func jsonReply(status int, value any) Reply {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return Reply{Status: status, Body: body}
}
