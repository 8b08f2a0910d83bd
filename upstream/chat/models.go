package chat

import (
	"cmp"
	"context"
	"encoding/json/v2"
	"io"

	"github.com/antiphon-dev/antiphon/upstream"
)

// maxModels bounds the list of models in bytes.
const maxModels = 16 << 20

// modelList is the answer of GET …/models. Servers have different words for the
// context window, or none.
type modelList struct {
	Data []struct {
		ID            string `json:"id"`
		Created       int64  `json:"created"`
		OwnedBy       string `json:"owned_by"`
		MaxModelLen   int64  `json:"max_model_len"`  // vLLM, SGLang
		ContextWindow int64  `json:"context_window"` // Groq
		ContextLength int64  `json:"context_length"` // OpenRouter, Together
		Meta          struct {
			ContextTrained int64 `json:"n_ctx_train"` // llama.cpp
		} `json:"meta"`
	} `json:"data"`
}

// Models implements [upstream.ModelLister].
func (d *driver) Models(ctx context.Context) ([]upstream.Model, error) {
	resp, err := d.endpoint.Get(ctx, "models")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxModels))
	if err != nil {
		return nil, upstream.ReadFailure(ctx, err)
	}
	var list modelList
	if err := json.Unmarshal(body, &list, wireOptions); err != nil {
		return nil, upstream.Malformed(body, err)
	}
	models := make([]upstream.Model, 0, len(list.Data))
	for _, m := range list.Data {
		models = append(models, upstream.Model{
			ID: m.ID, Created: m.Created, OwnedBy: m.OwnedBy,
			ContextWindow: cmp.Or(m.MaxModelLen, m.ContextWindow, m.ContextLength, m.Meta.ContextTrained),
		})
	}
	return models, nil
}
