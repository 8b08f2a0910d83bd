package codex

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"maps"
	"slices"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// This file and its siblings encode_*.go turn a request into what the app-server
// is told, without I/O. What Codex has no place for is refused by name, or, where
// the operator accepts that ([Options.Degrade]), reported as a loss (R31, R51):
//
//	refused    temperature, top_p, penalties, max_output_tokens, logprobs: Codex has no settings for them
//	           tool_choice other than none and auto, parallel_tool_calls: false
//	           text.format json_object
//	           strict tools, a custom tool's grammar, web search
//	           images by URL or file id, or with detail "low"
//	           items that Codex would leave out without a word
//	always     hosted tools but for web search, tools with a name that Codex reserves
//	refused    input_file, video; item_reference and compaction: the gateway resolves them before
//	           calls without an output and outputs without a call; stored prompts
//	loss       prompt_cache_key, safety_identifier, user, truncation "auto", include but for encrypted reasoning
//	           what Codex strips from JSON schemas of tools; members that it does not know
//	           text.format.description, and strict other than true: Codex always is
//	no loss    metadata, store, background and the like: the gateway's own
//	           max_tool_calls: it counts calls of hosted tools
//
// What is expressed in other words:
//
//   - Instructions are Codex's base instructions, which reach the model as the
//     first developer message. Codex's own never do.
//   - System messages are developer messages, where they stand: Codex drops them
//     otherwise.
//   - Tools of every kind are functions; see [upstream.Toolbox]. tool_choice none
//     and allowed_tools are kept by not sending the other tools.
//   - A refusal of the assistant is its text.

// encoded is a turn in the app-server's words. The thread's id is filled in when
// there is one.
type encoded struct {
	start  threadStart
	items  []jsontext.Value
	turn   turnStart
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
	e := &encoder{req: r, degrade: opts.Degrade, box: box}
	e.out.box = box
	e.out.start = threadStart{
		Model: r.Model, DynamicTools: []dynamicTool{},
		ApprovalPolicy: "never", Sandbox: "read-only", Environments: []string{}, RawEvents: true,
	}
	e.out.turn = turnStart{Input: []string{}, Summary: "none"}
	if r.Instructions != nil {
		e.out.start.BaseInstructions = *r.Instructions
	}
	for _, step := range []func() error{e.sampling, e.include, e.text, e.tools, e.toolChoice, e.input, e.extra} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	e.reasoning()
	e.service()
	e.out.losses = e.losses.List
	return &e.out, nil
}

// encoder builds one turn.
type encoder struct {
	req     *responses.Request
	degrade bool
	box     *upstream.Toolbox
	out     encoded
	losses  upstream.Losses
}

// cannot is for what Codex has no place for and the answer depends on: the request
// is refused, or the loss reported.
func (e *encoder) cannot(param, format string, args ...any) error {
	if !e.degrade {
		return responses.Unsupported(param, "%s Leave it out, or choose another model.", fmt.Sprintf(format, args...))
	}
	e.losses.Add(param, format, args...)
	return nil
}

// sampling refuses what Codex does not let its users set. A value that is the
// default asks for nothing.
func (e *encoder) sampling() error {
	r := e.req
	for _, s := range []struct {
		param string
		asked bool
	}{
		{"temperature", r.Temperature != nil && *r.Temperature != 1},
		{"top_p", r.TopP != nil && *r.TopP != 1},
		{"presence_penalty", r.PresencePenalty != nil && *r.PresencePenalty != 0},
		{"frequency_penalty", r.FrequencyPenalty != nil && *r.FrequencyPenalty != 0},
		{"max_output_tokens", r.MaxOutputTokens != nil},
		{"top_logprobs", r.TopLogprobs != nil && *r.TopLogprobs > 0},
	} {
		if s.asked {
			if err := e.cannot(s.param, "The Codex app-server has no setting for %s.", s.param); err != nil {
				return err
			}
		}
	}
	if r.Truncation == "auto" {
		e.losses.Add("truncation", "The upstream does not shorten the context by itself; one that is too long fails.")
	}
	return nil
}

func (e *encoder) include() error {
	for i, name := range e.req.Include {
		switch name {
		case responses.IncludeEncryptedReasoning: // it always is
		case responses.IncludeLogprobs:
			if err := e.cannot(fmt.Sprintf("include[%d]", i), "The Codex app-server tells no log probabilities."); err != nil {
				return err
			}
		default:
			e.losses.Add(fmt.Sprintf("include[%d]", i), "The upstream has no %s.", name)
		}
	}
	return nil
}

// text encodes the format of the answer.
func (e *encoder) text() error {
	t := e.req.Text
	if t == nil {
		return nil
	}
	if t.Verbosity != "" {
		e.out.start.Config = map[string]any{"model_verbosity": t.Verbosity}
	}
	e.losses.Members("text", t.Extra)
	f := t.Format
	if f == nil {
		return nil
	}
	e.losses.Members("text.format", f.Extra)
	switch f.Type {
	case responses.FormatText:
	case responses.FormatJSONSchema:
		e.out.turn.OutputSchema = f.Schema
		if f.Strict == nil || !*f.Strict {
			e.losses.Add("text.format.strict", "The Codex app-server always enforces the schema strictly.")
		}
		if f.Description != "" {
			e.losses.Add("text.format.description", "%s", upstream.NotSent)
		}
	default:
		return e.cannot("text.format", "The Codex app-server has no text format %q; it has json_schema.", f.Type)
	}
	return nil
}

func (e *encoder) reasoning() {
	r := e.req.Reasoning
	if r == nil {
		return
	}
	if r.Effort != nil {
		e.out.turn.Effort = *r.Effort
	}
	if r.Summary != nil && *r.Summary != "" {
		e.out.turn.Summary = *r.Summary
	}
	e.losses.Members("reasoning", r.Extra)
}

// service encodes what is between the client and the provider.
func (e *encoder) service() {
	r := e.req
	if r.ServiceTier != "auto" && r.ServiceTier != "default" {
		e.out.start.ServiceTier = r.ServiceTier
	}
	if r.SafetyIdentifier != "" {
		e.losses.Add("safety_identifier", "%s", upstream.NotSent)
	}
	if r.User != "" {
		e.losses.Add("user", "%s", upstream.NotSent)
	}
	if r.PromptCacheKey != "" {
		e.losses.Add("prompt_cache_key", "The Codex app-server makes a cache key of its own.")
	}
}

// extra reports the members that the Responses API does not have.
func (e *encoder) extra() error {
	extra := upstream.Members(e.req.Extra)
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if name == "prompt" {
			return responses.Unsupported("prompt", "This model's upstream has no stored prompts.")
		}
		e.losses.Add(name, "%s", upstream.NotSent)
	}
	return nil
}

// add appends an item of the past.
func (e *encoder) add(item any) error {
	raw, err := json.Marshal(item)
	if err != nil {
		return responses.Errorf(responses.CodeServer, "The request could not be encoded for the upstream.").WithCause(err)
	}
	e.out.items = append(e.out.items, raw)
	return nil
}
