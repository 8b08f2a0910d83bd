package native

import (
	"context"
	"encoding/json/v2"
	"net/http"
	"slices"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

var _ upstream.TokenCounter = (*driver)(nil)

// countedMembers are the members of a request that the call to count takes.
var countedMembers = []string{
	"model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "text", "reasoning", "truncation", "personality",
}

// CountTokens implements [upstream.TokenCounter]. Servers that speak this API but
// have no such call say so with a status.
func (d *driver) CountTokens(ctx context.Context, t *upstream.Turn) (int64, error) {
	enc := encoding{stateful: true, upstreamID: d.upstreamID}
	body, _, err := enc.encode(t.Request)
	if err != nil {
		return 0, err
	}
	var drop []responses.Member
	for name := range responses.Members(body) {
		if !slices.Contains(countedMembers, name) {
			drop = append(drop, responses.Member{Name: name})
		}
	}
	if body, err = responses.SetMembers(body, drop...); err != nil {
		return 0, err
	}
	resp, err := d.endpoint.Relay(ctx, &upstream.Passage{Method: http.MethodPost, Path: "responses/input_tokens", Header: t.Header, Body: body})
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := readAll(ctx, resp.Body)
	if err != nil {
		return 0, err
	}
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return 0, upstream.ErrCannotCount
	default:
		return 0, upstream.StatusError(resp, answer)
	}
	var counted struct {
		InputTokens *int64 `json:"input_tokens"`
	}
	if err := json.Unmarshal(answer, &counted); err != nil {
		return 0, upstream.Malformed(answer, err)
	}
	if counted.InputTokens == nil || *counted.InputTokens < 0 {
		return 0, upstream.ErrCannotCount // whatever it answered, it is no count
	}
	return *counted.InputTokens, nil
}
