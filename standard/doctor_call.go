package standard

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/antiphon-dev/antiphon/internal/sse"
	"github.com/antiphon-dev/antiphon/responses"
)

// A question is the part of a request that differs between the calls of a checkup.
// Nothing bounds the length of the answers but time: servers disagree about the
// member that would, and some refuse it.
type question map[string]any

const cityTool = "get_weather"

var (
	askText = question{"input": "Count from 1 to 10 in digits, with a space between them. Write nothing else."}

	askTools = question{
		"input":               "What is the weather in Rome and Oslo? Call the tool for both cities at once, in parallel, before you answer.",
		"tools":               []any{weatherTool},
		"tool_choice":         "auto",
		"parallel_tool_calls": true,
	}
	askForced = question{
		"input":       "What is the weather in Rome? Call the tool.",
		"tools":       []any{weatherTool},
		"tool_choice": "required",
	}
	weatherTool = map[string]any{
		"type": "function", "name": cityTool, "strict": false,
		"description": "Returns the weather in one city.",
		"parameters": map[string]any{
			"type": "object", "required": []string{"city"},
			"properties": map[string]any{"city": map[string]any{"type": "string"}},
		},
	}

	askSchema = question{
		"input": "Rome has about 2800000 inhabitants. Answer in JSON: the city and the number.",
		"text": map[string]any{"format": map[string]any{
			"type": "json_schema", "name": "city", "strict": true,
			"schema": map[string]any{
				"type": "object", "additionalProperties": false, "required": []string{"city", "inhabitants"},
				"properties": map[string]any{"city": map[string]any{"type": "string"}, "inhabitants": map[string]any{"type": "integer"}},
			},
		}},
	}

	askThink = question{
		"input":     "Think about it step by step: which is larger, 9.11 or 9.9? Then answer with that number alone.",
		"reasoning": map[string]any{"effort": "low", "summary": "auto"},
	}
)

// A caller makes calls to the gateway as a client would, without a network between.
type caller struct {
	handler http.Handler
	time    time.Duration // for each call
}

// ask sends q for the model and returns what came of it.
func (c *caller) ask(ctx context.Context, model string, q question) (*outcome, error) {
	body := question{"model": model, "stream": true, "store": false}
	for member, value := range q {
		body[member] = value
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	callCtx, cancel := context.WithTimeout(ctx, c.time)
	defer cancel()
	var w witness
	req, err := http.NewRequestWithContext(context.WithValue(callCtx, witnessKey{}, &w), http.MethodPost, "/v1/responses", bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	answer := capture{header: http.Header{}}
	c.handler.ServeHTTP(&answer, req)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	o := answer.outcome()
	o.status = int(w.status.Load())
	o.late = o.failed && callCtx.Err() != nil
	return o, nil
}

// A witness stands in the context of a call and sees with which status the upstream
// answered: the gateway itself keeps that from its clients.
type witness struct{ status atomic.Int64 }

type witnessKey struct{}

// A witnessing transport tells the witness.
type witnessing struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t witnessing) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(req)
	if w, ok := req.Context().Value(witnessKey{}).(*witness); ok && err == nil {
		w.status.Store(int64(resp.StatusCode))
	}
	return resp, err
}

// maxCapture bounds an answer in bytes. The answers to our questions are short.
const maxCapture = 4 << 20

// A capture is a ResponseWriter that keeps the answer.
type capture struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (c *capture) Header() http.Header { return c.header }

func (c *capture) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
}

func (c *capture) Write(b []byte) (int, error) {
	c.WriteHeader(http.StatusOK)
	if c.body.Len()+len(b) > maxCapture {
		return 0, errors.New("the answer is too long")
	}
	return c.body.Write(b)
}

// Flush implements [http.Flusher]: there is nothing to flush.
func (c *capture) Flush() {}

// outcome reads the answer. One that was cut short tells what it has.
func (c *capture) outcome() *outcome {
	o := &outcome{failed: true}
	if c.status != http.StatusOK {
		var refusal struct {
			Error responses.ErrorBody `json:"error"`
		}
		_ = json.Unmarshal(c.body.Bytes(), &refusal) // an answer of another kind has no message
		o.message = refusal.Error.Message
		return o
	}
	for ev, err := range sse.Read(&c.body, &sse.ReadOptions{MaxLine: maxCapture}) {
		if err != nil {
			break
		}
		o.event(responses.EventType(ev.Type), ev.Data)
	}
	return o
}

// event notes what an event of the stream says.
func (o *outcome) event(t responses.EventType, data []byte) {
	var ev struct {
		Delta string `json:"delta"`
		Item  struct {
			Type      string `json:"type"`
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"item"`
		Response struct {
			Error *responses.ErrorBody `json:"error"`
			Usage *responses.Usage     `json:"usage"`
		} `json:"response"`
	}
	if json.Unmarshal(data, &ev) != nil {
		return
	}
	switch t {
	case responses.EventTextDelta:
		o.pieces++
		o.text += ev.Delta
	case responses.EventItemDone:
		switch {
		case ev.Item.Type == responses.TypeFunctionCall && ev.Item.Name == cityTool:
			o.calls = append(o.calls, ev.Item.Arguments)
		case ev.Item.Type == responses.TypeReasoning:
			o.reasoned = true
		}
	case responses.EventFailed:
		if ev.Response.Error != nil {
			o.message = strings.TrimSpace(ev.Response.Error.Message)
		}
	case responses.EventCompleted, responses.EventIncomplete:
		o.failed = false
		if u := ev.Response.Usage; u != nil && u.OutputTokensDetails.ReasoningTokens > 0 {
			o.reasoned = true
		}
	}
}
