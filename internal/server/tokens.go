package server

import (
	"context"
	"errors"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// inputTokens is the answer to a count.
type inputTokens struct {
	Object      string `json:"object"`
	InputTokens int64  `json:"input_tokens"`
}

// countInputTokens is POST /v1/responses/input_tokens: how many tokens the input of
// a request would have. An upstream that cannot count is spared, and the answer is
// an estimate that says so.
func (s *Server) countInputTokens(x *exchange, body []byte) error {
	req, err := responses.DecodeRequest(body, s.requestLimits())
	if err != nil {
		return err
	}
	x.shape = shapeOf(req)
	if req, err = s.transform(x, req); err != nil {
		return err
	}
	if req, err = s.engine.Resolve(x.r.Context(), x.owner(), req); err != nil {
		return err
	}
	n, err := x.countTokens(x.r.Context(), req)
	if errors.Is(err, upstream.ErrCannotCount) {
		n, err = engine.EstimateTokens(req), nil
		x.setDegraded([]responses.Loss{{Param: "input_tokens", Reason: "this is an estimate: nobody who serves the model can count"}})
	}
	if err != nil {
		return err
	}
	return x.writeValue(inputTokens{Object: "response.input_tokens", InputTokens: n})
}

// countTokens asks who serves the request's model. A request need not name one.
func (x *exchange) countTokens(ctx context.Context, req *responses.Request) (int64, error) {
	if req.Model == "" {
		return 0, upstream.ErrCannotCount
	}
	if x.key != nil && !x.key.allows(req.Model) {
		return 0, noModel(req.Model)
	}
	counter, ok := x.gen.Router.(interface {
		CountTokens(ctx context.Context, t *upstream.Turn) (int64, error)
	})
	if !ok {
		return 0, upstream.ErrCannotCount
	}
	return counter.CountTokens(ctx, &upstream.Turn{Request: req, Owner: x.owner(), RunID: x.id, Header: x.forwarded()})
}
