package chat_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/seal"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/chat"
)

// canned is a server that gives one answer and keeps the last request.
type canned struct {
	answer string
	got    string
}

func (c *canned) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	c.got = string(body)
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body: io.NopCloser(strings.NewReader(c.answer)), Request: r,
	}, err
}

// thinks is an answer with reasoning under the given member, and a call.
func thinks(member, thought string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"index\":0,\"delta\":{%q:%q}}]}\n\n", member, thought) +
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}` + "\n\ndata: [DONE]\n\n"
}

func openTurn(t *testing.T, server *canned, opts *chat.Options, owner, body string) ([]responses.Item, []responses.Loss) {
	t.Helper()
	base, err := url.Parse("http://up.example/v1")
	if err != nil {
		t.Fatal(err)
	}
	d := chat.New(upstream.Endpoint{Base: base, Client: &http.Client{Transport: server}}, opts)
	defer d.Close()
	req, err := responses.DecodeRequest([]byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Open(t.Context(), &upstream.Turn{Request: req, Owner: owner})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var fold responses.Fold
	for ev, err := range s.Events {
		if err != nil {
			t.Fatal(err)
		}
		fold.Add(&ev)
	}
	return fold.Output(), s.Losses
}

// TestReasoningComesBackAsItWas: what the server thought travels in
// encrypted_content and returns to the same upstream byte for byte, under the
// member it came in, also by way of another process with the same keys. Anyone
// else's is left out and reported.
func TestReasoningComesBackAsItWas(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{7}, seal.KeySize)
	newSealer := func() *seal.Sealer {
		s, err := seal.New(key)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const thought = "  First,\n\tthis. "
	for _, member := range []string{"reasoning_content", "reasoning"} {
		t.Run(member, func(t *testing.T) {
			t.Parallel()
			server := &canned{answer: thinks(member, thought)}
			out, _ := openTurn(t, server, &chat.Options{Sealer: newSealer(), Name: "up"}, "team",
				`{"model":"m","input":"Go.","include":["reasoning.encrypted_content"]}`)
			r, ok := out[0].(*responses.Reasoning)
			if !ok || r.EncryptedContent == "" {
				t.Fatalf("no sealed reasoning in %+v", out)
			}
			second := fmt.Sprintf(`{"model":"m","input":[{"role":"user","content":"Go."},
				{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":%q},
				{"type":"function_call","call_id":"call_1","name":"f","arguments":"{}"},
				{"type":"function_call_output","call_id":"call_1","output":"1"}]}`, r.EncryptedContent)

			wire := fmt.Sprintf(`%q:"  First,\n\tthis. "`, member)
			_, losses := openTurn(t, server, &chat.Options{Sealer: newSealer(), Name: "up"}, "team", second)
			if !strings.Contains(server.got, wire) || len(losses) > 0 {
				t.Errorf("the server got %s, lost %v", server.got, losses)
			}
			for name, test := range map[string]struct{ upstream, owner string }{
				"another upstream": {"other", "team"}, "another tenant": {"up", "rival"},
			} {
				_, losses := openTurn(t, server, &chat.Options{Sealer: newSealer(), Name: test.upstream}, test.owner, second)
				if strings.Contains(server.got, "First") || len(losses) != 1 || losses[0].Param != "input[1].encrypted_content" {
					t.Errorf("%s: the server got %s, lost %v", name, server.got, losses)
				}
			}
		})
	}
}

func TestReasoningIsSealedOnlyOnRequest(t *testing.T) {
	t.Parallel()
	s, err := seal.New()
	if err != nil {
		t.Fatal(err)
	}
	out, _ := openTurn(t, &canned{answer: thinks("reasoning_content", "Hm.")}, &chat.Options{Sealer: s}, "team", `{"model":"m","input":"Go."}`)
	if r := out[0].(*responses.Reasoning); r.EncryptedContent != "" {
		t.Errorf("sealed without being asked: %+v", r)
	}
}
