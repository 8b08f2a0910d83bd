package server

import (
	"encoding/json/v2"
	"net/http"

	"github.com/antiphon-dev/antiphon/responses"
)

// retrieveResponse is GET /v1/responses/{id}.
func (s *Server) retrieveResponse(x *exchange) error {
	query := x.r.URL.Query()
	if query.Get("stream") == "true" {
		return responses.InvalidParam(responses.CodeUnsupported, "stream", "The events of this response are no longer there: leave out `stream` to get the response.")
	}
	kept, err := s.engine.Retrieve(x.r.Context(), x.owner(), x.r.PathValue("id"))
	if err != nil {
		return err
	}
	body, err := kept.Encode(included(query))
	if err != nil {
		return err
	}
	x.setDegraded(kept.Losses())
	return x.writeJSON(http.StatusOK, body)
}

// deleted is the answer to a deletion.
type deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

// deleteResponse is DELETE /v1/responses/{id}.
func (s *Server) deleteResponse(x *exchange) error {
	id, err := s.engine.Delete(x.r.Context(), x.owner(), x.r.PathValue("id"))
	if err != nil {
		return err
	}
	return x.writeValue(deleted{ID: id, Object: "response", Deleted: true})
}

// writeValue answers with v as JSON.
func (x *exchange) writeValue(v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return x.writeJSON(http.StatusOK, body)
}
