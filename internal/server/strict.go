package server

import (
	"github.com/antiphon-dev/antiphon/internal/relay"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// In strict mode every request is decoded, checked, and stripped of what is not
// published; none passes as it came (R30). What was stripped is named, and never a
// reason to refuse: the API grows (R6). Answers are cleaned where they come from, by
// the router and, of the APIs that can only be relayed, by the relay.

// createStrict is POST /v1/responses.
func (s *Server) createStrict(x *exchange) error {
	body, err := s.readJSON(x)
	if err != nil {
		return err
	}
	req, err := s.decode(x, body)
	if err != nil {
		return err
	}
	return s.run(x, req)
}

// decode decodes a request as the mode has it. Every body that is a request comes
// in through here.
func (s *Server) decode(x *exchange, body []byte) (*responses.Request, error) {
	req, err := responses.DecodeRequest(body, s.requestLimits())
	if err != nil || !x.gen.Strict {
		return req, err
	}
	req, stripped, err := req.Strip()
	x.setStripped(stripped)
	return req, err
}

// setStripped reports what was taken out of the request.
func (x *exchange) setStripped(stripped []responses.Loss) {
	x.stripped = stripped
	x.listLosses(headerStripped, stripped)
}

// published are the APIs that are not run and can be cleaned.
var published = map[string]*relay.API{
	upstream.PathChatCompletions: relay.ChatCompletions,
	upstream.PathEmbeddings:      relay.Embeddings,
}
