package native_test

import (
	"net/http"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// TestClientHeadersAreForwarded: the upstream gets what the client says of itself
// and of its body, but not its credential, which the endpoint did not ask for.
func TestClientHeadersAreForwarded(t *testing.T) {
	t.Parallel()
	d, fake := newUpstream(t, func(*fakeupstream.Exchange) fakeupstream.Reply {
		return fakeupstream.SSE("data: {\"type\":\"response.completed\"}\n\n")
	}, nil)
	req, err := responses.DecodeRequest([]byte(`{"model":"m","input":"Hi."}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Open(t.Context(), &upstream.Turn{Request: req, Header: http.Header{
		"Authorization":                          {"Bearer client"},
		"Chatgpt-Account-Id":                     {"acc"},
		"User-Agent":                             {"codex/1"},
		"X-Openai-Internal-Codex-Responses-Lite": {"true"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got := fake.Requests()[0].Header
	if got.Get("X-OpenAI-Internal-Codex-Responses-Lite") != "true" || got.Get("User-Agent") != "codex/1" || got.Get("Content-Type") != "application/json" {
		t.Errorf("the upstream received %v", got)
	}
	if got.Get("Authorization") != "" || got.Get("ChatGPT-Account-Id") != "" {
		t.Errorf("the upstream received the client's credential: %v", got)
	}
}
