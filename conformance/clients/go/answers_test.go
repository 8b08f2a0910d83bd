package openaigo_test

import (
	"encoding/json/v2"
	"slices"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

const (
	greeting       = "Hello there"
	greetingAnswer = "You said: Hello there"
	thinkPrompt    = "Please think about seven"

	// A PNG of one pixel.
	pixel = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

func TestText(t *testing.T) {
	inEveryWay(t, func(t *testing.T, ask way) {
		response := mustAsk(t, ask, responses.ResponseNewParams{Input: prompt(greeting)})
		wantText(t, response, greetingAnswer)
		if response.Status != responses.ResponseStatusCompleted || response.Model != modelName() {
			t.Errorf("status, model = %s, %s; want completed, %s", response.Status, response.Model, modelName())
		}
		if u := response.Usage; u.InputTokens != 2 || u.OutputTokens != 4 || u.TotalTokens != 6 {
			t.Errorf("usage = %s, want 2 tokens in and 4 out", u.RawJSON())
		}
	})
}

func TestStructuredOutput(t *testing.T) {
	schema := map[string]any{
		"type":                 "object",
		"properties":           map[string]any{"name": map[string]any{"type": "string"}, "age": map[string]any{"type": "integer"}},
		"required":             []string{"name", "age"},
		"additionalProperties": false,
	}
	inEveryWay(t, func(t *testing.T, ask way) {
		response := mustAsk(t, ask, responses.ResponseNewParams{
			Input: prompt("Describe a person"),
			Text: responses.ResponseTextConfigParam{
				Format: responses.ResponseFormatTextConfigParamOfJSONSchema("person", schema),
			},
		})
		type person struct {
			Name string `json:"name"`
			Age  int    `json:"age"`
		}
		var got person
		if err := json.Unmarshal([]byte(response.OutputText()), &got, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("decode %q: %v", response.OutputText(), err)
		}
		if want := (person{Name: "x", Age: 1}); got != want {
			t.Errorf("person = %+v, want %+v", got, want)
		}
	})
}

func TestImage(t *testing.T) {
	image := responses.ResponseInputContentParamOfInputImage(responses.ResponseInputImageDetailAuto)
	image.OfInputImage.ImageURL = openai.String(pixel)
	content := responses.ResponseInputMessageContentListParam{
		responses.ResponseInputContentParamOfInputText("What is on this picture?"),
		image,
	}
	inEveryWay(t, func(t *testing.T, ask way) {
		response := mustAsk(t, ask, responses.ResponseNewParams{
			Input: items(responses.ResponseInputItemParamOfMessage(content, responses.EasyInputMessageRoleUser)),
		})
		wantText(t, response, "I see 1 image(s): image/png.")
	})
}

func TestReasoning(t *testing.T) {
	inEveryWay(t, func(t *testing.T, ask way) {
		response := mustAsk(t, ask, responses.ResponseNewParams{
			Input:     prompt(thinkPrompt),
			Reasoning: shared.ReasoningParam{Effort: shared.ReasoningEffortLow, Summary: shared.ReasoningSummaryAuto},
		})
		var types []string
		for _, item := range response.Output {
			types = append(types, item.Type)
		}
		if want := []string{"reasoning", "message"}; !slices.Equal(types, want) {
			t.Fatalf("output items = %q, want %q", types, want)
		}
		if got, want := reasoningText(response.Output[0].AsReasoning()), "Let me think about it."; got != want {
			t.Errorf("reasoning = %q, want %q", got, want)
		}
		wantText(t, response, "Thought about: "+thinkPrompt)
		if got := response.Usage.OutputTokensDetails.ReasoningTokens; got != 5 {
			t.Errorf("reasoning tokens = %d, want 5", got)
		}
	})
}

func TestReasoningInAReplayedHistory(t *testing.T) {
	inEveryWay(t, func(t *testing.T, ask way) {
		input := []responses.ResponseInputItemUnionParam{userMessage(thinkPrompt)}
		first := mustAsk(t, ask, responses.ResponseNewParams{Input: items(input...)})
		input = append(append(input, replay(first)...), userMessage(greeting))
		second := mustAsk(t, ask, responses.ResponseNewParams{Input: items(input...)})
		wantText(t, second, greetingAnswer)
	})
}

func TestRefusal(t *testing.T) {
	inEveryWay(t, func(t *testing.T, ask way) {
		response := mustAsk(t, ask, responses.ResponseNewParams{Input: prompt("Please refuse this")})
		if len(response.Output) != 1 || len(response.Output[0].Content) != 1 {
			t.Fatalf("output = %s, want one message of one part", response.RawJSON())
		}
		part := response.Output[0].Content[0]
		if part.Type != "refusal" || part.Refusal != "I will not do that." {
			t.Errorf("part = %s, want the refusal", part.RawJSON())
		}
		wantText(t, response, "")
	})
}

func TestMaxTokens(t *testing.T) {
	inEveryWay(t, func(t *testing.T, ask way) {
		response := mustAsk(t, ask, responses.ResponseNewParams{
			Input:           prompt("Please count to 50"),
			MaxOutputTokens: openai.Int(16),
		})
		if response.Status != responses.ResponseStatusIncomplete || response.IncompleteDetails.Reason != "max_output_tokens" {
			t.Errorf("status = %s, reason = %q; want incomplete, max_output_tokens",
				response.Status, response.IncompleteDetails.Reason)
		}
		wantText(t, response, "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16")
		if got := response.Usage.OutputTokens; got != 16 {
			t.Errorf("output tokens = %d, want 16", got)
		}
	})
}

// The model counts the words that it was given, which shows what the server put
// in front of the new input.
func TestPreviousResponseBringsTheWholeConversation(t *testing.T) {
	needsMemory(t)
	inEveryWay(t, func(t *testing.T, ask way) {
		first := mustAsk(t, ask, responses.ResponseNewParams{Input: prompt(greeting)})
		second := mustAsk(t, ask, responses.ResponseNewParams{
			Input:              prompt(greeting),
			PreviousResponseID: openai.String(first.ID),
		})
		wantText(t, second, greetingAnswer)
		if got, want := second.Usage.InputTokens, first.Usage.TotalTokens+2; got != want {
			t.Errorf("input tokens of the second turn = %d, want %d", got, want)
		}
	})
}

func TestListModels(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	pager := client.Models.ListAutoPaging(t.Context())
	var ids []string
	for pager.Next() {
		ids = append(ids, pager.Current().ID)
	}
	if err := pager.Err(); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(ids, modelName()) {
		t.Errorf("models = %q, want %s among them", ids, modelName())
	}
}

func wantText(t *testing.T, response *responses.Response, want string) {
	t.Helper()
	if got := response.OutputText(); got != want {
		t.Errorf("output text = %q, want %q", got, want)
	}
}
