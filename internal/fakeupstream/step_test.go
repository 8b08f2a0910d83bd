package fakeupstream_test

import (
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
)

var clockTool = askTool{"get_time", citySchema}

// steps are prompts that write down what the model does, turn by turn.
var steps = map[string]struct {
	ask  ask
	want said
}{
	"first step": {
		ask{text: `[[call get_time {"city":"Rome"}]] [[call get_weather {"city":"Oslo"}]]`},
		said{Calls: []saidCall{{"get_time", `{"city":"Rome"}`}}},
	},
	"second step": {
		ask{text: `[[call get_time {"city":"Rome"}]] [[call get_weather {"city":"Oslo"}]]`, results: [][]string{{"12:00"}}},
		said{Calls: []saidCall{{"get_weather", `{"city":"Oslo"}`}}},
	},
	"after the last step": {
		ask{text: `[[call get_time {"city":"Rome"}]] [[call get_weather {"city":"Oslo"}]]`, results: [][]string{{"12:00"}, {"sunny"}}},
		said{Text: "The tool answered: sunny"},
	},
	"steps of an earlier message": {
		ask{text: `[[call get_time]] [[call get_time]]`, results: [][]string{{"12:00"}}, then: `[[call get_weather {"city":"Oslo"}]]`},
		said{Calls: []saidCall{{"get_weather", `{"city":"Oslo"}`}}},
	},
	"two calls in a step": {
		ask{text: `[[call get_time {"city":"Rome"}]][[and get_weather {"city":"Oslo"}]]`},
		said{Calls: []saidCall{{"get_time", `{"city":"Rome"}`}, {"get_weather", `{"city":"Oslo"}`}}},
	},
	"after two calls in a step": {
		ask{text: `[[call get_time]] [[and get_time]] [[call get_weather {"city":"Oslo"}]]`, results: [][]string{{"1", "2"}}},
		said{Calls: []saidCall{{"get_weather", `{"city":"Oslo"}`}}},
	},
	"two calls one at a time": {
		ask{text: `[[reason]] [[call get_time {"city":"Rome"}]] [[and get_weather {"city":"Oslo"}]]`, serial: true},
		said{Reasoning: "Step 1: I call get_time and get_weather.", Calls: []saidCall{{"get_time", `{"city":"Rome"}`}}},
	},
	"the second of two calls": {
		ask{text: `[[reason]] [[call get_time {"city":"Rome"}]] [[and get_weather {"city":"Oslo"}]]`, serial: true, results: [][]string{{"1"}}},
		said{Calls: []saidCall{{"get_weather", `{"city":"Oslo"}`}}},
	},
	"brackets in the arguments": {
		ask{text: `[[call get_time {"city":"a]] [[status 500]] [b", "x": [[1]]} ]] no tool`},
		said{Calls: []saidCall{{"get_time", `{"city":"a]] [[status 500]] [b", "x": [[1]]}`}}},
	},
	"arguments in words": {
		ask{text: "[[call get_time  New York ]]"},
		said{Calls: []saidCall{{"get_time", `{"city":"New York"}`}}},
	},
	"arguments in quotes": {
		ask{text: `[[call get_time "a]]\n\"b\""]]`},
		said{Calls: []saidCall{{"get_time", `{"city":"a]]\n\"b\""}`}}},
	},
	"no arguments":          {ask{text: "[[call get_time]]"}, said{Calls: []saidCall{{"get_time", `{"city":"x"}`}}}},
	"end of a name":         {ask{text: "[[call time]]"}, said{Calls: []saidCall{{"get_time", `{"city":"x"}`}}}},
	"no such tool":          {ask{text: "[[call time_get]]"}, said{Text: "There is no tool time_get."}},
	"tool that is not free": {ask{text: "[[call get_time]]", choice: "none"}, said{Text: "There is no tool get_time."}},
	"addition to nothing":   {ask{text: "no tool [[and get_time]]"}, said{Text: "You said: no tool [[and get_time]]"}},
	"call without an end":   {ask{text: "no tool [[call get_time]"}, said{Text: "You said: no tool [[call get_time]"}},
	"three brackets":        {ask{text: "no tool [[[bytes 9]]"}, said{Text: "You said: no tool ["}},
	"reasoning in front": {
		ask{text: "[[reason]] [[call get_time]] [[call get_time]]"},
		said{Reasoning: "Step 1: I call get_time.", Calls: []saidCall{{"get_time", `{"city":"x"}`}}},
	},
	"no reasoning in front": {
		ask{text: "[[reason]] [[call get_time]] [[call get_time]]", results: [][]string{{"1"}}},
		said{Calls: []saidCall{{"get_time", `{"city":"x"}`}}},
	},
	"reasoning before the answer": {
		ask{text: "[[call get_time]] [[reason]]", results: [][]string{{"1"}}},
		said{Reasoning: "Step 2: I answer.", Text: "The tool answered: 1"},
	},
	"reasoning without a step": {ask{text: "no tool [[reason]]"}, said{Reasoning: "Step 1: I answer.", Text: "You said: no tool"}},
	"limit":                    {ask{text: "no tool [[limit 2]]"}, said{Text: "You said:", Truncated: true}},
	"limit below the request":  {ask{text: "no tool [[limit 2]]", limit: 3}, said{Text: "You said:", Truncated: true}},
	"limit above the request":  {ask{text: "no tool [[limit 3]]", limit: 2}, said{Text: "You said:", Truncated: true}},
}

func TestSteps(t *testing.T) {
	t.Parallel()
	for name, tt := range steps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.ask.tools = []askTool{weather, clockTool}
			everyWay(t, func(t *testing.T, path string, body func(ask) string, streamed bool) {
				diff(t, "answer", tt.want, hear(t, path, body(tt.ask), streamed))
			})
		})
	}
}

// hear asks a fresh model and returns what it says, without the token counts.
func hear(t *testing.T, path, body string, streamed bool) said {
	t.Helper()
	got := send(t, &fakeupstream.ModelOptions{Now: clock}, "POST", path, body)
	if got.status != 200 || got.err != nil {
		t.Fatalf("status %d, %v: %s", got.status, got.err, got.body)
	}
	var s said
	switch {
	case path == chatPath && streamed:
		s = foldChat(t, got.body, 0)
	case path == chatPath:
		completion := decode[chatObject](t, got.body)
		s = chatSaid(t, completion, *completion.Choices[0].Message, completion.Choices[0].FinishReason)
	case streamed:
		raw, _ := followResponses(t, got.body)
		s = responseSaid(t, decode[response](t, string(raw)))
	default:
		s = responseSaid(t, decode[response](t, got.body))
	}
	s.In, s.Out, s.Thought = 0, 0, 0
	return s
}

func TestInsistingOnReasoning(t *testing.T) {
	t.Parallel()
	const one, two = "Step 1: I call get_time.", "Step 3: I call get_time and get_weather."
	text := "[[insist]] [[reason]] [[call get_time]] [[call get_time]] [[reason]] [[call get_time]] [[and get_weather]] [[call get_time]]"
	rounds := [][]string{{"1"}, {"2"}, {"3", "4"}}
	for name, tt := range map[string]struct {
		text     string
		rounds   int
		thoughts []string
		want     int
	}{
		"first turn":         {text, 0, nil, 200},
		"kept":               {text, 1, []string{one}, 200},
		"all kept":           {text, 3, []string{one, "", two}, 200},
		"lost":               {text, 1, nil, 400},
		"lost at last":       {text, 3, []string{one}, 400},
		"changed":            {text, 1, []string{one + " "}, 400},
		"at the wrong call":  {text, 2, []string{"", one}, 400},
		"at one call more":   {text, 2, []string{one, one}, 400},
		"lost, not insisted": {text[len("[[insist]] "):], 3, nil, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everyWay(t, func(t *testing.T, path string, body func(ask) string, streamed bool) {
				a := ask{text: tt.text, tools: []askTool{clockTool, weather}, results: rounds[:tt.rounds], thoughts: tt.thoughts}
				if got := send(t, nil, "POST", path, body(a)); got.status != tt.want {
					t.Errorf("status %d, want %d: %s", got.status, tt.want, got.body)
				}
			})
		})
	}
}

// Servers disagree on what reasoning is called in Chat Completions. One that
// insists on it wants it under its own name.
func TestShortReasoning(t *testing.T) {
	t.Parallel()
	a := ask{text: "[[insist]] [[short-reasoning]] [[reason]] [[call get_time]]", tools: []askTool{clockTool}}
	for _, streamed := range []bool{true, false} {
		got := send(t, nil, "POST", chatPath, chatBody(a, streamed).String())
		checkHolds(t, got.body, `"reasoning":"`)
		if strings.Contains(got.body, "reasoning_content") {
			t.Errorf("both names in %s", got.body)
		}
	}
	for name, want := range map[string]int{"reasoning": 200, "reasoning_content": 400} {
		got := send(t, nil, "POST", chatPath, object{"model": "tiny", "messages": []object{
			{"role": "user", "content": a.text},
			{"role": "assistant", name: "Step 1: I call get_time.", "tool_calls": []object{{"id": "c1", "type": "function", "function": object{"name": "f", "arguments": "{}"}}}},
			{"role": "tool", "tool_call_id": "c1", "content": "r"},
		}}.String())
		if got.status != want {
			t.Errorf("%s: status %d, want %d: %s", name, got.status, want, got.body)
		}
	}
}

func TestErrorDirectiveWithACode(t *testing.T) {
	t.Parallel()
	for code, status := range map[string]int{
		"rate_limit_exceeded": 429, "context_length_exceeded": 400, "invalid_prompt": 400, "server_error": 500,
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			everyWay(t, func(t *testing.T, path string, body func(ask) string, streamed bool) {
				got := send(t, nil, "POST", path, body(ask{text: "hi [[error " + code + "]]"}))
				want := status
				if streamed {
					want = 200
				}
				if got.status != want {
					t.Errorf("status %d, want %d", got.status, want)
				}
				checkHolds(t, got.body, `"code":"`+code+`"`)
			})
		})
	}
}
