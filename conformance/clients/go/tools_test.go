package openaigo_test

import (
	"encoding/json/v2"
	"slices"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

var weatherTool = responses.ToolParamOfFunction("get_weather", map[string]any{
	"type":                 "object",
	"properties":           map[string]any{"city": map[string]any{"type": "string"}},
	"required":             []string{"city"},
	"additionalProperties": false,
}, true)

var toolTurns = []struct {
	name, prompt string
	cities       []string
	answer       string
}{
	{
		name:   "one call",
		prompt: "What is the weather in Rome?",
		cities: []string{"Rome"},
		answer: "The tool answered: sunny in Rome",
	},
	{
		name:   "two parallel calls",
		prompt: "Tell me the weather in Rome and Oslo, both",
		cities: []string{"Rome", "Oslo"},
		answer: "The tool answered: sunny in Rome, sunny in Oslo",
	},
}

func TestToolCallsWithReplayedHistory(t *testing.T) {
	inEveryWay(t, func(t *testing.T, ask way) {
		for _, turn := range toolTurns {
			t.Run(turn.name, func(t *testing.T) {
				t.Parallel()
				input := []responses.ResponseInputItemUnionParam{userMessage(turn.prompt)}
				first := mustAsk(t, ask, toolRequest(items(input...)))
				input = append(append(input, replay(first)...), runTools(t, first, turn.cities)...)
				wantText(t, mustAsk(t, ask, toolRequest(items(input...))), turn.answer)
			})
		}
	})
}

func TestToolCallsWithPreviousResponse(t *testing.T) {
	needsMemory(t)
	inEveryWay(t, func(t *testing.T, ask way) {
		for _, turn := range toolTurns {
			t.Run(turn.name, func(t *testing.T) {
				t.Parallel()
				first := mustAsk(t, ask, toolRequest(prompt(turn.prompt)))
				next := toolRequest(items(runTools(t, first, turn.cities)...))
				next.PreviousResponseID = openai.String(first.ID)
				wantText(t, mustAsk(t, ask, next), turn.answer)
			})
		}
	})
}

func toolRequest(input responses.ResponseNewParamsInputUnion) responses.ResponseNewParams {
	return responses.ResponseNewParams{Input: input, Tools: []responses.ToolUnionParam{weatherTool}}
}

// runTools asserts that the response asks for the weather in exactly these
// cities, and returns the results to send back.
func runTools(t *testing.T, response *responses.Response, cities []string) []responses.ResponseInputItemUnionParam {
	t.Helper()
	var (
		asked, callIDs []string
		results        []responses.ResponseInputItemUnionParam
	)
	for _, item := range response.Output {
		if item.Type != "function_call" {
			t.Fatalf("output item is a %s, want only function calls", item.Type)
		}
		call := item.AsFunctionCall()
		var arguments struct {
			City string `json:"city"`
		}
		if err := json.Unmarshal([]byte(call.Arguments), &arguments); err != nil {
			t.Fatalf("decode the arguments %q: %v", call.Arguments, err)
		}
		if call.Name != "get_weather" {
			t.Errorf("call of %q, want get_weather", call.Name)
		}
		asked, callIDs = append(asked, arguments.City), append(callIDs, call.CallID)
		result := responses.ResponseInputItemParamOfFunctionCallOutput("sunny in " + arguments.City)
		result.OfFunctionCallOutput.CallID = openai.String(call.CallID)
		results = append(results, result)
	}
	if !slices.Equal(asked, cities) {
		t.Fatalf("asked for %q, want %q", asked, cities)
	}
	if slices.Sort(callIDs); len(slices.Compact(callIDs)) != len(cities) {
		t.Errorf("call ids %q are not distinct", callIDs)
	}
	return results
}
