package antiphon_test

import (
	"encoding/json/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/native"
)

// count asks how many tokens a request has.
func (r *stateRig) count(body string) (tokens int64, degraded string) {
	r.t.Helper()
	status, header, answer := r.call("POST", "/v1/responses/input_tokens", body)
	var a struct {
		Object      string `json:"object"`
		InputTokens int64  `json:"input_tokens"`
	}
	if err := json.Unmarshal(answer, &a); err != nil || status != 200 || a.Object != "response.input_tokens" {
		r.t.Fatalf("%d %s: %v", status, answer, err)
	}
	return a.InputTokens, header.Get("Antiphon-Degraded")
}

// TestStateCountsTokens: where nobody can count, the answer is an estimate of the
// whole context, and says so (R42).
func TestStateCountsTokens(t *testing.T) {
	t.Parallel()
	for name, protocol := range stateProtocols {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startState(t, protocol, nil)
			a := r.create(`{"model":"m","input":"count to 9"}`)
			alone, degraded := r.count(`{"model":"m","input":"` + strings.Repeat("word ", 80) + `"}`)
			if !strings.Contains(degraded, "estimate") || alone < 80 || alone > 120 {
				t.Errorf("80 words: %d, %q", alone, degraded)
			}
			more, _ := r.count(`{"model":"m","input":"` + strings.Repeat("word ", 80) + `","previous_response_id":"` + a.ID + `"}`)
			if more < alone+10 {
				t.Errorf("%d alone, %d after a response", alone, more)
			}
			image, _ := r.count(`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,` + strings.Repeat("A", 9000) + `"}]}],"tools":[{"type":"function","name":"f","parameters":{}}],"instructions":"Be brief."}`)
			if image < 765 || image > 820 {
				t.Errorf("an image: %d", image)
			}
			if n := r.store.Stats().Responses; n != 1 {
				t.Errorf("%d responses are stored", n)
			}
			if got := r.refused(400, "POST", "/v1/responses/input_tokens", `{"model":"m","input":"x","previous_response_id":"resp_x"}`); got != "previous_response_not_found previous_response_id" {
				t.Errorf("after no response: %s", got)
			}
		})
	}
}

// TestStateUpstreamCountsTokens: an upstream that can count is asked, with the
// whole context and nothing that it does not take (R42).
func TestStateUpstreamCountsTokens(t *testing.T) {
	t.Parallel()
	model := fakeupstream.NewModel(&fakeupstream.ModelOptions{Protocol: fakeupstream.Responses})
	fake := fakeupstream.NewServer(func(x *fakeupstream.Exchange) fakeupstream.Reply {
		switch {
		case x.Path != "/v1/responses/input_tokens":
			return model.Answer(x)
		case strings.Contains(string(x.Body), "too much"):
			return fakeupstream.JSON(http.StatusBadRequest, `{"error":{"message":"too much","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`)
		}
		return fakeupstream.JSON(http.StatusOK, `{"object":"response.input_tokens","input_tokens":42}`)
	})
	base, err := url.Parse(serve(t, fake) + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	client := upstream.NewClient()
	t.Cleanup(client.CloseIdleConnections)
	g := serveGateway(t, &antiphon.Options{
		Drivers: map[string]upstream.Driver{"fake": native.New(upstream.Endpoint{Base: base, Client: client}, nil)},
		Models:  map[string]antiphon.Model{"m": antiphon.ModelAt("fake", "big")},
		Store:   memstore.NewStore(nil),
	})
	r := &stateRig{testGateway: g, t: t, fake: fake}
	a := r.create(`{"model":"m","input":"count to 2"}`)
	if n, degraded := r.count(`{"model":"m","input":"x","previous_response_id":"` + a.ID + `","store":true,"metadata":{"a":"b"},"reasoning":{"effort":"low"}}`); n != 42 || degraded != "" {
		t.Errorf("%d, %q", n, degraded)
	}
	if heard := r.heard(); len(heard) != 3 {
		t.Errorf("it got %q", heard)
	}
	all := fake.Requests()
	var names []string
	for name := range responses.Members(all[len(all)-1].Body) {
		names = append(names, name)
	}
	if got := strings.Join(names, " "); got != "model input reasoning" || !strings.Contains(string(all[len(all)-1].Body), `"model":"big"`) {
		t.Errorf("it got the members %s", got)
	}
	if got := r.refused(400, "POST", "/v1/responses/input_tokens", `{"model":"m","input":"too much"}`); got != "context_length_exceeded input" {
		t.Errorf("its refusal: %s", got)
	}
	if got := r.refused(404, "POST", "/v1/responses/input_tokens", `{"model":"none","input":"x"}`); got != "model_not_found model" {
		t.Errorf("no such model: %s", got)
	}
}
