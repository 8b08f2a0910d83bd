package fakeupstream

import (
	"net/http"
	"time"
)

const (
	serviceTier       = "default"
	systemFingerprint = "fp_fakeupstream"
)

// completion is one answer in Chat Completions.
type completion struct {
	id      string
	created int64
	request *chatRequest
	prompt  *prompt
	delay   time.Duration
	newID   func() string
}

type chatUsage struct {
	PromptTokens        int `json:"prompt_tokens"`
	CompletionTokens    int `json:"completion_tokens"`
	TotalTokens         int `json:"total_tokens"`
	PromptTokensDetails struct {
		CachedTokens int `json:"cached_tokens"`
		AudioTokens  int `json:"audio_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionTokensDetails struct {
		ReasoningTokens          int `json:"reasoning_tokens"`
		AudioTokens              int `json:"audio_tokens"`
		AcceptedPredictionTokens int `json:"accepted_prediction_tokens"`
		RejectedPredictionTokens int `json:"rejected_prediction_tokens"`
	} `json:"completion_tokens_details"`
}

func (c *completion) usage(t tally) *chatUsage {
	u := &chatUsage{
		PromptTokens:     c.prompt.words,
		CompletionTokens: t.output,
		TotalTokens:      c.prompt.words + t.output,
	}
	u.CompletionTokensDetails.ReasoningTokens = t.reasoning
	return u
}

func finishReason(t tally, calls int) string {
	switch {
	case t.truncated:
		return "length"
	case calls > 0:
		return "tool_calls"
	}
	return "stop"
}

// chatCompletion is the answer in one piece.
type chatCompletion struct {
	ID                string       `json:"id"`
	Object            string       `json:"object"`
	Created           int64        `json:"created"`
	Model             string       `json:"model"`
	Choices           []chatChoice `json:"choices"`
	Usage             *chatUsage   `json:"usage,omitzero"`
	ServiceTier       string       `json:"service_tier"`
	SystemFingerprint string       `json:"system_fingerprint"`
}

type chatChoice struct {
	Index        int              `json:"index"`
	Message      assistantMessage `json:"message"`
	Logprobs     *struct{}        `json:"logprobs"`
	FinishReason string           `json:"finish_reason"`
}

type assistantMessage struct {
	Role             string     `json:"role"`
	Content          *string    `json:"content"`
	ReasoningContent string     `json:"reasoning_content,omitzero"`
	Reasoning        string     `json:"reasoning,omitzero"`
	Refusal          *string    `json:"refusal"`
	ToolCalls        []chatCall `json:"tool_calls,omitzero"`
	Annotations      []struct{} `json:"annotations"`
}

type chatCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

func (c *completion) whole() Reply {
	v := &chatMessageVoice{newID: c.newID, short: c.prompt.faults.short, message: assistantMessage{Role: "assistant"}}
	// A voice that only collects has nothing to fail at.
	t, _ := speak(v, c.prompt.answer(), c.prompt.limit)
	body := chatCompletion{
		ID: c.id, Object: "chat.completion", Created: c.created, Model: c.request.Model,
		Choices:     []chatChoice{{Message: v.message, FinishReason: finishReason(t, len(v.message.ToolCalls))}},
		ServiceTier: serviceTier, SystemFingerprint: systemFingerprint,
	}
	if !c.prompt.faults.noUsage {
		body.Usage = c.usage(t)
	}
	reply := jsonReply(http.StatusOK, body)
	reply.Delay = time.Duration(max(t.output-1, 0)) * c.delay
	return reply
}

// chatMessageVoice collects an answer into one message.
type chatMessageVoice struct {
	newID   func() string
	short   bool // reasoning is called so
	message assistantMessage
	part    *part
	text    []byte // of the part
}

func (v *chatMessageVoice) open(p *part) error {
	v.part, v.text = p, v.text[:0]
	return nil
}

func (v *chatMessageVoice) token(tok []byte) error {
	v.text = append(v.text, tok...)
	return nil
}

func (v *chatMessageVoice) shut(bool) error {
	text := string(v.text)
	switch v.part.kind {
	case textPart:
		v.message.Content = &text
	case reasoningPart:
		v.message.ReasoningContent = text
		if v.short {
			v.message.Reasoning, v.message.ReasoningContent = text, ""
		}
	case refusalPart:
		v.message.Refusal = &text
	case callPart:
		v.message.ToolCalls = append(v.message.ToolCalls, chatCall{
			ID: "call_" + v.newID(), Type: "function", Function: chatFunction{v.part.tool.name, text},
		})
	}
	return nil
}
