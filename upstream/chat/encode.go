package chat

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// This file and its siblings encode_*.go turn a request into a body for Chat
// Completions, without I/O. What that protocol lacks is refused by name where
// the answer would be about something else, and reported as a loss where it
// would only be worse (R31):
//
//	refused    hosted tools, but for web search; choices of such tools
//	           item_reference and compaction: the gateway resolves them before
//	           video; audio that is not input_audio; files by URL; images by file id
//	           media in messages of other roles than user
//	           text formats other than text, json_object, json_schema
//	           stored prompts
//	loss       text.verbosity, truncation "auto"
//	           include, but for logprobs
//	           web search: it is left out
//	           a custom tool's grammar: it stands in the description, unenforced
//	           items of kinds that are not known here: they are left out
//	           encrypted reasoning that was not sealed for this upstream
//	           reasoning that led to nothing said and no call
//	           phase of past items
//	           members that the Responses API does not have, unless the server
//	           is said to understand them ([Options.Extensions]); one report for
//	           each name within the input
//	no loss    metadata, store, background and the like: the gateway's own
//	           max_tool_calls: it counts calls of hosted tools
//	           reasoning.summary: what the model thinks is always shown
//	           ids and statuses of past items, annotations and logprobs of past
//	           text: no model reads them
//
// What is expressed in other words:
//
//   - Instructions are the first system message. System and developer messages
//     stay where they are, developer as system unless [Options.DeveloperRole].
//   - Text-only content is one string, parts joined by line feeds: many servers
//     take nothing else.
//   - What the assistant said in a row (reasoning, text, calls) is one message.
//     The results of its calls follow it directly, wherever they stand in the
//     input: servers refuse anything between a call and its result.
//   - Reasoning travels as reasoning_content, or under the name that the server
//     gave it: servers of reasoning models want it back after tool calls.
//   - Images and files in a tool's result follow in a user message that says
//     which call they belong to: tool messages hold text.
//   - Tools of every kind are functions; see [upstream.Toolbox].
//   - allowed_tools is a hard limit: the other tools are not sent.
//   - A refusal of the assistant is its text.

// encoded is a turn in the server's words.
type encoded struct {
	body   []byte
	losses []responses.Loss
	box    *upstream.Toolbox // whose functions the model may call
}

// encode fails only with *responses.Error, for what cannot be expressed.
func encode(t *upstream.Turn, opts *Options) (*encoded, error) {
	r := t.Request
	box, err := upstream.NewToolbox(r)
	if err != nil {
		return nil, err
	}
	e := &encoder{req: r, owner: t.Owner, opts: opts, box: box, wire: request{Model: r.Model}}
	e.tools()
	for _, step := range []func() error{e.messages, e.toolChoice, e.text, e.extensions} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	e.sampling()
	e.logprobs()
	e.reasoning()
	e.stream()
	body, err := json.Marshal(&e.wire)
	if err != nil {
		return nil, responses.Errorf(responses.CodeServer, "The request could not be encoded for the upstream.").WithCause(err)
	}
	return &encoded{body: body, losses: e.losses.List, box: box}, nil
}

// encoder builds one request.
type encoder struct {
	req    *responses.Request
	owner  string
	opts   *Options
	wire   request
	box    *upstream.Toolbox
	losses upstream.Losses
}

func (e *encoder) sampling() {
	r := e.req
	if e.opts.MaxCompletionTokens {
		e.wire.MaxCompletionTokens = r.MaxOutputTokens
	} else {
		e.wire.MaxTokens = r.MaxOutputTokens
	}
	e.wire.Temperature, e.wire.TopP = r.Temperature, r.TopP
	e.wire.PresencePenalty, e.wire.FrequencyPenalty = r.PresencePenalty, r.FrequencyPenalty
	e.wire.ServiceTier, e.wire.PromptCacheKey = r.ServiceTier, r.PromptCacheKey
	e.wire.SafetyIdentifier, e.wire.User = r.SafetyIdentifier, r.User
	if r.Truncation == "auto" {
		e.losses.Add("truncation", "The upstream does not shorten the context by itself; one that is too long fails.")
	}
}

// logprobs asks for them if the client did, and reports every other wish for
// extra output.
func (e *encoder) logprobs() {
	top := e.req.TopLogprobs
	if e.req.Includes(responses.IncludeLogprobs) || top != nil && *top > 0 {
		e.wire.Logprobs, e.wire.TopLogprobs = true, top
	}
	for i, name := range e.req.Include {
		sealed := name == responses.IncludeEncryptedReasoning && e.opts.Sealer != nil
		if name != responses.IncludeLogprobs && !sealed {
			e.losses.Add(fmt.Sprintf("include[%d]", i), "The upstream has no %s.", name)
		}
	}
}

func (e *encoder) reasoning() {
	r := e.req.Reasoning
	if r == nil {
		return
	}
	if r.Effort != nil {
		e.wire.ReasoningEffort = *r.Effort
	}
	e.losses.Members("reasoning", r.Extra)
}

// text encodes the format of the answer.
func (e *encoder) text() error {
	t := e.req.Text
	if t == nil {
		return nil
	}
	if t.Verbosity != "" {
		e.losses.Add("text.verbosity", "The upstream cannot be told how much to say.")
	}
	e.losses.Members("text", t.Extra)
	f := t.Format
	if f == nil {
		return nil
	}
	e.losses.Members("text.format", f.Extra)
	switch f.Type {
	case responses.FormatText:
	case responses.FormatJSONObject:
		e.wire.ResponseFormat = &responseFormat{Type: f.Type}
	case responses.FormatJSONSchema:
		e.wire.ResponseFormat = &responseFormat{
			Type:       f.Type,
			JSONSchema: &jsonSchema{Name: f.Name, Description: f.Description, Schema: f.Schema, Strict: f.Strict},
		}
	default:
		return responses.Unsupported("text.format", "This model's upstream has no text format %q.", f.Type)
	}
	return nil
}

func (e *encoder) stream() {
	if e.opts.NoStream {
		return
	}
	e.wire.Stream = true
	e.wire.StreamOptions = &streamOptions{IncludeUsage: true}
}

// chatOnly are parameters of Chat Completions that the Responses API lacks.
var chatOnly = []string{"logit_bias", "seed", "stop"}

// ourMembers are the members that the encoder sets. A client that sends one of
// them, max_tokens say, speaks the other API; it could only contradict us.
var ourMembers = func() map[string]bool {
	names := map[string]bool{}
	for f := range reflect.TypeFor[request]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names[name] = true
	}
	return names
}()

// extensions passes on the members that the server understands.
func (e *encoder) extensions() error {
	var pass []responses.Member
	extra := upstream.Members(e.req.Extra)
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		switch {
		case name == "prompt":
			return responses.Unsupported("prompt", "This model's upstream has no stored prompts.")
		case ourMembers[name]:
			e.losses.Add(name, "This is the Responses API, which has another name for it.")
		case slices.Contains(chatOnly, name) || slices.Contains(e.opts.Extensions, name):
			pass = append(pass, responses.Member{Name: name, Value: extra[name]})
		default:
			e.losses.Add(name, upstream.NotSent)
		}
	}
	if pass == nil {
		return nil
	}
	var err error
	e.wire.Extra, err = responses.SetMembers(jsontext.Value("{}"), pass...)
	return err
}
