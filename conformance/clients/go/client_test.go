package openaigo_test

import (
	"cmp"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
)

// errNoTerminalEvent is what a stream is worth that ends without saying how.
// The SDK itself reports nothing in that case.
var errNoTerminalEvent = errors.New("the stream ended without a terminal event")

// A way is one of the SDK's ways to ask for a response. The string is the output
// text that arrived before the end, also if the request failed.
type way func(t *testing.T, body responses.ResponseNewParams) (*responses.Response, string, error)

// inEveryWay runs a scenario over all ways to ask.
func inEveryWay(t *testing.T, scenario func(t *testing.T, ask way)) {
	t.Helper()
	t.Parallel()
	for name, ask := range map[string]way{"json": askWhole, "streamed": askStreamed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario(t, ask)
		})
	}
}

// newClient returns a client of the server under test. Without a server there is
// nothing to prove: a skip on a laptop, a failure in CI.
func newClient(t *testing.T) openai.Client {
	t.Helper()
	baseURL := os.Getenv("ANTIPHON_BASE_URL")
	if baseURL == "" {
		const reason = "ANTIPHON_BASE_URL is not set"
		if os.Getenv("CI") == "true" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	return openai.NewClient(
		option.WithBaseURL(baseURL),
		option.WithAPIKey(cmp.Or(os.Getenv("ANTIPHON_API_KEY"), "none")),
		option.WithMaxRetries(0),
	)
}

func modelName() string { return cmp.Or(os.Getenv("ANTIPHON_MODEL"), "tiny") }

// withDefaults adds what every request has: the model, and store if the
// environment asks for it.
func withDefaults(body responses.ResponseNewParams) responses.ResponseNewParams {
	body.Model = modelName()
	if store, err := strconv.ParseBool(os.Getenv("ANTIPHON_STORE")); err == nil {
		body.Store = openai.Bool(store)
	}
	return body
}

// needsMemory skips a scenario about the server's memory where it is asked to
// keep none.
func needsMemory(t *testing.T) {
	t.Helper()
	if store, err := strconv.ParseBool(os.Getenv("ANTIPHON_STORE")); err == nil && !store {
		t.Skip("requests are sent with store: false")
	}
}

func askWhole(t *testing.T, body responses.ResponseNewParams) (*responses.Response, string, error) {
	t.Helper()
	client := newClient(t)
	response, err := client.Responses.New(t.Context(), withDefaults(body))
	if err != nil {
		return nil, "", err
	}
	return response, response.OutputText(), nil
}

func askStreamed(t *testing.T, body responses.ResponseNewParams) (*responses.Response, string, error) {
	t.Helper()
	client := newClient(t)
	stream := client.Responses.NewStreaming(t.Context(), withDefaults(body))
	defer stream.Close()

	var (
		text   strings.Builder
		final  *responses.Response
		deltas = map[string]string{} // by item id
	)
	for sequence := int64(0); stream.Next(); sequence++ {
		event := stream.Current()
		if event.SequenceNumber != sequence {
			t.Errorf("sequence_number of %s = %d, want %d", event.Type, event.SequenceNumber, sequence)
		}
		if final != nil {
			t.Errorf("%s came after the terminal event", event.Type)
		}
		switch event.Type {
		case "response.output_text.delta":
			text.WriteString(event.Delta)
			deltas[event.ItemID] += event.Delta
		case "response.function_call_arguments.delta", "response.refusal.delta",
			"response.reasoning_summary_text.delta", "response.reasoning_text.delta":
			deltas[event.ItemID] += event.Delta
		case "response.completed", "response.incomplete", "response.failed":
			final = &event.Response
		}
	}
	if err := stream.Err(); err != nil {
		return nil, text.String(), err
	}
	if final == nil {
		return nil, text.String(), errNoTerminalEvent
	}
	for _, item := range final.Output {
		if got, want := deltas[item.ID], wholeText(item); got != want {
			t.Errorf("deltas of %s %s add up to %q, the final item says %q", item.Type, item.ID, got, want)
		}
	}
	if final.Status == responses.ResponseStatusFailed {
		return nil, text.String(), fmt.Errorf("the response failed: %s", final.Error.Message)
	}
	return final, text.String(), nil
}

// mustAsk is ask for a request that has to succeed.
func mustAsk(t *testing.T, ask way, body responses.ResponseNewParams) *responses.Response {
	t.Helper()
	response, text, err := ask(t, body)
	if err != nil {
		t.Fatalf("request failed after %q: %v", text, err)
	}
	if text != response.OutputText() {
		t.Errorf("text that arrived = %q, text of the response = %q", text, response.OutputText())
	}
	return response
}

// wholeText returns what the deltas of an output item have to add up to.
func wholeText(item responses.ResponseOutputItemUnion) string {
	switch item.Type {
	case "function_call":
		return item.AsFunctionCall().Arguments
	case "reasoning":
		return reasoningText(item.AsReasoning())
	default:
		var text strings.Builder
		for _, part := range item.Content {
			text.WriteString(part.Text + part.Refusal)
		}
		return text.String()
	}
}

func reasoningText(item responses.ResponseReasoningItem) string {
	var text strings.Builder
	for _, part := range item.Summary {
		text.WriteString(part.Text)
	}
	for _, part := range item.Content {
		text.WriteString(part.Text)
	}
	return text.String()
}

func prompt(text string) responses.ResponseNewParamsInputUnion {
	return responses.ResponseNewParamsInputUnion{OfString: openai.String(text)}
}

func items(list ...responses.ResponseInputItemUnionParam) responses.ResponseNewParamsInputUnion {
	return responses.ResponseNewParamsInputUnion{OfInputItemList: list}
}

func userMessage(text string) responses.ResponseInputItemUnionParam {
	return responses.ResponseInputItemParamOfMessage(text, responses.EasyInputMessageRoleUser)
}

// replay returns the output of a response as input items, byte for byte.
func replay(response *responses.Response) []responses.ResponseInputItemUnionParam {
	var input []responses.ResponseInputItemUnionParam
	for _, item := range response.Output {
		input = append(input, param.Override[responses.ResponseInputItemUnionParam](jsontext.Value(item.RawJSON())))
	}
	return input
}
