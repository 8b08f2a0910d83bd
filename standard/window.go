package standard

import (
	"cmp"
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/antiphon-dev/antiphon/upstream"
)

// maxWindows is how many models Ollama is asked about.
const maxWindows = 20

// windows asks a server whose list of models does not tell, or tells too much, for
// the context windows, and sets them in models. It returns the models whose window
// is only the most that the server could give them.
func (p *prober) windows(ctx context.Context, engine string, models []upstream.Model) (upTo map[string]bool) {
	switch engine {
	case ollama:
		return p.ollamaWindows(ctx, models)
	case llamacpp:
		if window := p.llamacppWindow(ctx); window > 0 {
			for i := range models {
				models[i].ContextWindow = window
			}
			return nil
		}
		// What is left is the length that the models were trained with.
		upTo = map[string]bool{}
		for _, m := range models {
			upTo[m.ID] = m.ContextWindow > 0
		}
	}
	return upTo
}

// ollamaWindows: Ollama gives a model its window when it loads it, and that is
// usually much less than what the model could have. For a model that is not loaded
// it can be told only if somebody has set it for this model.
func (p *prober) ollamaWindows(ctx context.Context, models []upstream.Model) (upTo map[string]bool) {
	loaded := p.loaded(ctx)
	shown := make([]shownModel, min(len(models), maxWindows))
	var wg sync.WaitGroup
	for i := range shown {
		wg.Go(func() { shown[i] = p.show(ctx, models[i].ID) })
	}
	wg.Wait()
	upTo = map[string]bool{}
	for i := range models {
		m := &models[i]
		window := loaded[m.ID]
		if window == 0 && i < len(shown) {
			window = cmp.Or(shown[i].set, shown[i].most)
			upTo[m.ID] = shown[i].set == 0 && shown[i].most > 0
		}
		m.ContextWindow = cmp.Or(window, m.ContextWindow)
	}
	return upTo
}

// loaded returns the windows of the models that Ollama has loaded.
func (p *prober) loaded(ctx context.Context) map[string]int64 {
	status, body, err := p.do(ctx, http.MethodGet, p.root("api/ps"), nil)
	var list struct {
		Models []struct {
			Name          string `json:"name"`
			ContextLength int64  `json:"context_length"`
		} `json:"models"`
	}
	if err != nil || status != http.StatusOK || json.Unmarshal(body, &list) != nil {
		return nil
	}
	windows := make(map[string]int64, len(list.Models))
	for _, m := range list.Models {
		windows[m.Name] = max(m.ContextLength, 0)
	}
	return windows
}

// A shownModel is what Ollama tells of a model that it has on disk.
type shownModel struct {
	most int64 // model_info["<architecture>.context_length"]
	set  int64 // num_ctx in the model's parameters, 0 if not set
}

func (p *prober) show(ctx context.Context, model string) (m shownModel) {
	question, err := json.Marshal(map[string]string{"model": model})
	if err != nil {
		return m
	}
	_, body, err := p.do(ctx, http.MethodPost, p.root("api/show"), question)
	if err != nil {
		return m
	}
	var shown struct {
		Info       map[string]jsontext.Value `json:"model_info"`
		Parameters string                    `json:"parameters"` // lines of a name and a value
	}
	if json.Unmarshal(body, &shown) != nil {
		return m
	}
	for key, value := range shown.Info {
		var window int64
		if strings.HasSuffix(key, ".context_length") && json.Unmarshal(value, &window) == nil {
			m.most = max(window, 0)
		}
	}
	for line := range strings.Lines(shown.Parameters) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "num_ctx" {
			set, _ := strconv.ParseInt(f[1], 10, 64) // 0 if it is no number
			m.set = max(set, 0)
		}
	}
	return m
}

// llamacppWindow asks llama.cpp, which lists what a model was trained with, what it
// runs with.
func (p *prober) llamacppWindow(ctx context.Context) int64 {
	status, body, err := p.do(ctx, http.MethodGet, p.root("props"), nil)
	var props struct {
		Settings struct {
			Context int64 `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	if err != nil || status != http.StatusOK || json.Unmarshal(body, &props) != nil {
		return 0
	}
	return max(props.Settings.Context, 0)
}

// A windowed driver lists its models with the windows that were found when the
// gateway started, for servers whose list does not tell.
type windowed struct {
	upstream.Wrapped
	windows map[string]int64
}

// withWindows returns d with the windows of models.
func withWindows(d upstream.Driver, models []upstream.Model) upstream.Driver {
	windows := make(map[string]int64, len(models))
	for _, m := range models {
		windows[m.ID] = m.ContextWindow
	}
	return &windowed{upstream.Wrapped{Driver: d}, windows}
}

// CountTokens implements [upstream.TokenCounter].
func (d *windowed) CountTokens(ctx context.Context, t *upstream.Turn) (int64, error) {
	return upstream.CountTokens(ctx, d.Driver, t)
}

// Models implements [upstream.ModelLister].
func (d *windowed) Models(ctx context.Context) ([]upstream.Model, error) {
	models, err := d.Wrapped.Models(ctx)
	for i := range models {
		models[i].ContextWindow = cmp.Or(d.windows[models[i].ID], models[i].ContextWindow)
	}
	return models, err
}
