package standard

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"

	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/upstream"
)

// maxProbeBody bounds what is read of an answer to a probe.
const maxProbeBody = 4 << 20

// probeClient sends probes if no other client is given.
var probeClient = upstream.NewClient()

// A prober asks one upstream questions that are outside its protocol.
type prober struct {
	endpoint upstream.Endpoint
	client   *http.Client
}

// Engines that are recognised. All of them serve /v1/responses, but without
// memory and in parts only, so Chat Completions is spoken to them.
const (
	ollama   = "Ollama"
	vllm     = "vLLM"
	llamacpp = "llama.cpp"
)

// engines by what they write into owned_by of their models.
var engines = map[string]string{"library": ollama, "vllm": vllm, "llamacpp": llamacpp}

// engine recognises the server by its models; empty if it is none of them.
func engine(models []upstream.Model) string {
	for _, m := range models {
		if e, ok := engines[m.OwnedBy]; ok {
			return e
		}
	}
	return ""
}

// isOllama asks for Ollama's version. Its models do not always tell: they are
// owned by whoever published them.
func (p *prober) isOllama(ctx context.Context) bool {
	status, body, err := p.do(ctx, http.MethodGet, p.root("api/version"), nil)
	var v struct {
		Version string `json:"version"`
	}
	return err == nil && status == http.StatusOK && json.Unmarshal(body, &v) == nil && v.Version != ""
}

// askResponses sends an empty request to the Responses endpoint and returns the
// status of the answer, 0 if there was none. Nothing is generated: a request
// without a model is refused.
func (p *prober) askResponses(ctx context.Context) int {
	status, _, err := p.do(ctx, http.MethodPost, p.endpoint.Base.JoinPath("responses"), []byte("{}"))
	if err != nil {
		return 0
	}
	return status
}

// decide chooses the protocol by the status with which an upstream answered an
// empty request to its Responses endpoint, and by what server it is.
func decide(status int, engine string) (p config.Protocol, why string) {
	switch status {
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return config.ProtocolChat, "detected: it has no /responses"
	}
	if engine != "" {
		return config.ProtocolChat, fmt.Sprintf("detected: %s serves /responses only in part", engine)
	}
	switch status {
	case http.StatusOK, http.StatusBadRequest, http.StatusUnprocessableEntity:
		return config.ProtocolResponses, "detected"
	case http.StatusUnauthorized, http.StatusForbidden:
		return config.ProtocolResponses, "detected: its /responses asks for a key"
	case 0:
		return config.ProtocolChat, "assumed: it did not answer"
	}
	return config.ProtocolChat, fmt.Sprintf("assumed: its /responses answered with status %d", status)
}

// root returns a URL of the server outside /v1.
func (p *prober) root(path string) *url.URL {
	u := *p.endpoint.Base
	u.Path, u.RawPath = "/", ""
	return u.JoinPath(path)
}

// do sends a probe and reads its answer, bounded.
func (p *prober) do(ctx context.Context, method string, u *url.URL, body []byte) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	maps.Copy(req.Header, p.endpoint.Header)
	req.Header.Set("Content-Type", "application/json")
	if p.endpoint.Auth != nil {
		p.endpoint.Auth(req.Header, nil)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxProbeBody))
	return resp.StatusCode, answer, err
}
