package server

import (
	"encoding/json/v2"
	"net/http"

	"github.com/antiphon-dev/antiphon/upstream"
)

// modelList is GET /v1/models as the API has it.
type modelList struct {
	Object string        `json:"object"`
	Data   []modelObject `json:"data"`
}

// modelObject is a model in it.
type modelObject struct {
	ID            string `json:"id"`
	Object        string `json:"object"`
	Created       int64  `json:"created"`
	OwnedBy       string `json:"owned_by"`
	ContextWindow int64  `json:"context_window,omitzero"`
}

// listModels is GET /v1/models: those that the client's key may use. Upstreams that do not answer are logged and left
// out; if none answers, that is the answer.
func (s *Server) listModels(x *exchange) error {
	models, err := x.router().Models(x.r.Context())
	if err != nil {
		if len(models) == 0 {
			return err
		}
		s.opts.Logger.Warn("some upstreams do not list their models", "error", err)
	}
	var list any = modelListOf(models)
	if x.r.URL.Query().Has("client_version") {
		list = codexListOf(models)
	}
	body, err := json.Marshal(list)
	if err != nil {
		return err
	}
	return x.writeJSON(http.StatusOK, body)
}

func modelListOf(models []upstream.Model) modelList {
	list := modelList{Object: "list", Data: make([]modelObject, 0, len(models))}
	for _, m := range models {
		list.Data = append(list.Data, modelObject{ID: m.ID, Object: "model", Created: m.Created, OwnedBy: m.OwnedBy, ContextWindow: m.ContextWindow})
	}
	return list
}
