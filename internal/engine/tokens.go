package engine

import (
	"context"
	"encoding/json/v2"

	"github.com/antiphon-dev/antiphon/responses"
)

// Resolve returns a request of owner as models would get it: with what it goes on
// from, and what it refers to, before its own input. Nothing is stored.
func (e *Engine) Resolve(ctx context.Context, owner string, req *responses.Request) (*responses.Request, error) {
	req, err := withoutRendered(req)
	if err != nil {
		return nil, err
	}
	asking := *req
	asking.Store, asking.Background = new(false), nil
	m, err := e.recall(ctx, owner, &asking)
	if err != nil {
		return nil, err
	}
	return m.asked, nil
}

// What an estimate goes by. It is made for text in English; for other languages and
// for code it is too low by up to a half.
const (
	bytesPerToken  = 4
	tokensPerItem  = 4
	tokensPerImage = 765
)

// EstimateTokens guesses how many tokens the input of a request has, with its
// instructions and tools: a token for every four bytes of text, four for every item
// and tool, 765 for every image.
func EstimateTokens(req *responses.Request) int64 {
	var e estimate
	if req.Instructions != nil {
		e.add(*req.Instructions)
	}
	for _, it := range req.Input.Items {
		e.item(it)
	}
	for _, t := range req.Tools {
		e.encoded(t)
	}
	return e.whole + (e.bytes+bytesPerToken-1)/bytesPerToken
}

type estimate struct{ bytes, whole int64 }

func (e *estimate) add(texts ...string) {
	e.whole += tokensPerItem
	for _, t := range texts {
		e.bytes += int64(len(t))
	}
}

func (e *estimate) item(it responses.Item) {
	switch it := it.(type) {
	case *responses.Message:
		e.add()
		e.parts(it.Content.Parts)
	case *responses.FunctionCall:
		e.add(it.Name, it.Arguments)
	case *responses.FunctionCallOutput:
		e.add()
		e.parts(it.Output.Parts)
	case *responses.CustomToolCall:
		e.add(it.Name, it.Input)
	case *responses.CustomToolCallOutput:
		e.add()
		e.parts(it.Output.Parts)
	case *responses.Reasoning:
		e.add()
		e.parts(it.Summary)
		e.parts(it.Content)
	default:
		e.encoded(it)
	}
}

func (e *estimate) parts(parts []responses.Part) {
	for _, p := range parts {
		switch p := p.(type) {
		case *responses.InputImage:
			e.whole += tokensPerImage
		case *responses.InputFile:
			e.bytes += int64(len(p.FileData))
		default:
			e.bytes += int64(len(responses.TextOf([]responses.Part{p})))
		}
	}
}

// encoded counts what has no text of its own as it is written.
func (e *estimate) encoded(v any) {
	data, err := json.Marshal(v)
	if err == nil { // it was decoded, so it can be encoded
		e.add(string(data))
	}
}
