package fakeupstream_test

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/google/go-cmp/cmp"
)

// ask is a request in no protocol.
type ask struct {
	system   string
	text     string
	images   []string   // URLs
	results  [][]string // of the calls that the model made after text, round by round
	thoughts []string   // reasoning that comes back with the calls of each round
	then     string     // what the user said after the results
	tools    []askTool
	choice   string // "", "none", "required", or the name of a tool
	allowed  []string
	serial   bool   // one call at a time
	schema   string // of the answer
	object   bool   // the answer is some object
	limit    int
}

type askTool struct{ name, schema string }

// said is an answer in no protocol.
type said struct {
	Reasoning, Text, Refusal string
	Calls                    []saidCall
	Truncated                bool
	In, Out, Thought         int // tokens
}

type saidCall struct{ Name, Arguments string }

const citySchema = `{"type":"object","properties":{"city":{"type":"string"},"unit":{"type":"string"}},"required":["city"]}`

var weather = askTool{"get_weather", citySchema}

// rules are the mind's, one case or more for each.
var rules = map[string]struct {
	ask  ask
	want said
}{
	"echo": {
		ask{text: "Hello  there, world"},
		said{Text: "You said: Hello  there, world", In: 3, Out: 5},
	},
	"echo of nothing":             {ask{}, said{Text: "You said: ", Out: 2}},
	"all input counts":            {ask{system: "Be very brief.", text: "Hi"}, said{Text: "You said: Hi", In: 4, Out: 3}},
	"text that needs quoting":     {ask{text: "a \"b\" \\ <é>\n\tc"}, said{Text: "You said: a \"b\" \\ <é>\n\tc", In: 5, Out: 7}},
	"no directive":                {ask{text: "see [[my note]] [[status x]]"}, said{Text: "You said: see [[my note]] [[status x]]", In: 5, Out: 7}},
	"directives are not the text": {ask{text: "a [[bytes 7]] b [[delay 0s]]"}, said{Text: "You said: a b", In: 6, Out: 4}},
	"no usage":                    {ask{text: "hi [[no-usage]]"}, said{Text: "You said: hi"}},
	"tool result": {
		ask{text: "Weather in Rome?", tools: []askTool{weather}, results: [][]string{{"18 degrees"}}},
		said{Text: "The tool answered: 18 degrees", In: 5, Out: 5},
	},
	"several tool results": {
		ask{text: "Weather in Rome and Oslo, both", tools: []askTool{weather}, results: [][]string{{"18", "2"}}},
		said{Text: "The tool answered: 18, 2", In: 8, Out: 5},
	},
	"tool results of two rounds": {
		ask{text: "Weather in Rome?", tools: []askTool{weather}, results: [][]string{{"18"}, {"2", "3"}}},
		said{Text: "The tool answered: 2, 3", In: 6, Out: 5},
	},
	"tool result of an earlier turn": {
		ask{text: "Weather in Rome?", tools: []askTool{weather}, results: [][]string{{"18"}}, then: "No tool now"},
		said{Text: "You said: No tool now", In: 7, Out: 5},
	},
	"tool call": {
		ask{text: "What is the weather in New York?", tools: []askTool{weather}},
		said{Calls: []saidCall{{"get_weather", `{"city":"New York"}`}}, In: 7, Out: 3},
	},
	"tool call with more words": {
		ask{text: "Weather in Rome, please", tools: []askTool{weather}},
		said{Calls: []saidCall{{"get_weather", `{"city":"Rome"}`}}, In: 4, Out: 2},
	},
	"tool call without a place": {
		ask{text: "Weather?", tools: []askTool{weather}},
		said{Calls: []saidCall{{"get_weather", `{"city":"x"}`}}, In: 1, Out: 2},
	},
	"tool call without a schema": {
		ask{text: "Time in Rome?", tools: []askTool{{"now", ""}}},
		said{Calls: []saidCall{{"now", `{}`}}, In: 3, Out: 2},
	},
	"one tool twice": {
		ask{text: "Weather in Rome and Oslo, both", tools: []askTool{weather}},
		said{Calls: []saidCall{{"get_weather", `{"city":"Rome"}`}, {"get_weather", `{"city":"Oslo"}`}}, In: 6, Out: 4},
	},
	"two tools at once": {
		ask{text: "In parallel: weather in Rome and Oslo.", tools: []askTool{weather, {"get_time", citySchema}}},
		said{Calls: []saidCall{{"get_weather", `{"city":"Rome"}`}, {"get_time", `{"city":"Oslo"}`}}, In: 7, Out: 4},
	},
	"parallel calls switched off": {
		ask{text: "Weather in Rome and Oslo, both", tools: []askTool{weather}, serial: true},
		said{Calls: []saidCall{{"get_weather", `{"city":"Rome"}`}}, In: 6, Out: 2},
	},
	"required tool": {
		ask{text: "Weather in Rome", tools: []askTool{weather}, choice: "required"},
		said{Calls: []saidCall{{"get_weather", `{"city":"Rome"}`}}, In: 3, Out: 2},
	},
	"named tool": {
		ask{text: "Weather in Rome", tools: []askTool{weather, {"get_time", citySchema}}, choice: "get_time"},
		said{Calls: []saidCall{{"get_time", `{"city":"Rome"}`}}, In: 3, Out: 2},
	},
	"allowed tools": {
		ask{text: "Both in Rome", tools: []askTool{weather, {"get_time", citySchema}, {"get_map", ""}}, allowed: []string{"get_time", "get_map"}},
		said{Calls: []saidCall{{"get_time", `{"city":"Rome"}`}, {"get_map", "{}"}}, In: 3, Out: 4},
	},
	"tool choice none":   {ask{text: "Weather in Rome", tools: []askTool{weather}, choice: "none"}, said{Text: "You said: Weather in Rome", In: 3, Out: 5}},
	"no tool in text":    {ask{text: "Use No Tool", tools: []askTool{weather}}, said{Text: "You said: Use No Tool", In: 3, Out: 5}},
	"tool call cut off":  {ask{text: "Weather in Rome", tools: []askTool{weather}, limit: 1}, said{Calls: []saidCall{{"get_weather", `{"city":`}}, Truncated: true, In: 3, Out: 1}},
	"schema":             {ask{text: "hi", schema: citySchema}, said{Text: `{"city":"x","unit":"x"}`, In: 1, Out: 1}},
	"some object":        {ask{text: "hi", object: true}, said{Text: `{"ok":true}`, In: 1, Out: 1}},
	"refusal":            {ask{text: "Please REFUSE this"}, said{Refusal: "I will not do that.", In: 3, Out: 5}},
	"reasoning":          {ask{text: "Think: why?"}, said{Reasoning: "Let me think about it.", Text: "Thought about: Think: why?", In: 2, Out: 9, Thought: 5}},
	"reasoning only":     {ask{text: "reason", limit: 5}, said{Reasoning: "Let me think about it.", Truncated: true, In: 1, Out: 5, Thought: 5}},
	"count":              {ask{text: "Please count to 12 now"}, said{Text: "1 2 3 4 5 6 7 8 9 10 11 12", In: 5, Out: 12}},
	"count to the limit": {ask{text: "count to 12", limit: 12}, said{Text: "1 2 3 4 5 6 7 8 9 10 11 12", In: 3, Out: 12}},
	"count cut off":      {ask{text: "count to 1000000000", limit: 3}, said{Text: "1 2 3", Truncated: true, In: 3, Out: 3}},
	"count to nothing":   {ask{text: "count to 0"}, said{Text: "You said: count to 0", In: 3, Out: 5}},
	"image":              {ask{text: "What?", images: []string{"data:image/png;base64,AA=="}}, said{Text: "I see 1 image(s): image/png.", In: 1, Out: 5}},
	"images": {
		ask{text: "What?", images: []string{"https://example.com/cat.gif", "data:image/webp,AA", ""}},
		said{Text: "I see 3 image(s): url, image/webp, file.", In: 1, Out: 7},
	},
}

func TestModelsAreListed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		protocol fakeupstream.Protocol
		want     int
	}{
		"chat":      {fakeupstream.Chat, 32768},
		"responses": {fakeupstream.Responses, 0},
		"both":      {0, 32768},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, url := serve(t, fakeupstream.NewModel(&fakeupstream.ModelOptions{Protocol: tt.protocol}).Answer)
			var list struct {
				Object string
				Data   []struct {
					ID, Object  string
					MaxModelLen int `json:"max_model_len"`
				}
			}
			if err := json.UnmarshalRead(get(t, url+"/v1/models").Body, &list, json.MatchCaseInsensitiveNames(true)); err != nil {
				t.Fatal(err)
			}
			if list.Object != "list" || len(list.Data) != 2 || list.Data[0].ID != "tiny" || list.Data[1].ID != "tiny-2" ||
				list.Data[0].Object != "model" || list.Data[0].MaxModelLen != tt.want {
				t.Errorf("got %+v", list)
			}
		})
	}
}

// The protocol of an upstream is probed with an empty object: 400 says that
// the path is served, 404 that it is not.
func TestPathsOfTheProtocol(t *testing.T) {
	t.Parallel()
	const chat, responses = "/v1/chat/completions", "/v1/responses"
	for name, tt := range map[string]struct {
		protocol     fakeupstream.Protocol
		method, path string
		want         int
	}{
		"chat off":        {fakeupstream.Responses, "POST", chat, 404},
		"chat on":         {fakeupstream.Chat, "POST", chat, 400},
		"responses off":   {fakeupstream.Chat, "POST", responses, 404},
		"responses on":    {fakeupstream.Responses, "POST", responses, 400},
		"both, responses": {0, "POST", responses, 400},
		"both, chat":      {0, "POST", chat, 400},
		"unknown":         {0, "POST", "/v1/embeddings", 404},
		"retrieve":        {0, "GET", responses + "/resp_1", 404},
		"wrong method":    {0, "GET", chat, 405},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := send(t, &fakeupstream.ModelOptions{Protocol: tt.protocol}, tt.method, tt.path, `{}`)
			if got.status != tt.want {
				t.Errorf("status %d, want %d", got.status, tt.want)
			}
			var body struct {
				Error map[string]jsontext.Value `json:"error"`
			}
			if err := json.Unmarshal([]byte(got.body), &body); err != nil {
				t.Fatalf("error body %q: %v", got.body, err)
			}
			for _, key := range []string{"message", "type", "param", "code"} {
				if _, ok := body.Error[key]; !ok {
					t.Errorf("error body lacks %q: %s", key, got.body)
				}
			}
			if !strings.HasPrefix(got.header.Get("X-Request-Id"), "req_") {
				t.Errorf("X-Request-Id %q", got.header.Get("X-Request-Id"))
			}
		})
	}
}

// outcome is what a client saw of an answer.
type outcome struct {
	status int
	header http.Header
	body   string
	err    error // from reading the body
}

// send asks a fresh model.
func send(t *testing.T, opts *fakeupstream.ModelOptions, method, path, body string) outcome {
	t.Helper()
	_, url := serve(t, fakeupstream.NewModel(opts).Answer)
	req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return outcome{resp.StatusCode, resp.Header, string(got), err}
}

// frame is one server-sent event.
type frame struct{ event, data string }

// frames parses an event stream that is framed as providers do it: an optional
// event line, one data line, a blank line. A rest without the blank line is
// given back.
func frames(t *testing.T, body string) (list []frame, rest string) {
	t.Helper()
	blocks := strings.Split(body, "\n\n")
	for _, block := range blocks[:len(blocks)-1] {
		var f frame
		if event, after, ok := strings.Cut(block, "\n"); ok {
			f.event = strings.TrimPrefix(event, "event: ")
			block = after
		}
		data, ok := strings.CutPrefix(block, "data: ")
		if !ok || strings.Contains(data, "\n") {
			t.Fatalf("malformed frame %q", block)
		}
		f.data = data
		list = append(list, f)
	}
	return list, blocks[len(blocks)-1]
}

// object is JSON for a test to write down.
type object map[string]any

func (o object) String() string {
	b, err := json.Marshal(o, json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	return string(b)
}

// decode parses JSON from the fake strictly: unknown members are errors, so
// that a test names every member that is on the wire.
func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return v
}

// value is JSON that is already written down.
func value(text string) jsontext.Value { return jsontext.Value(text) }

func diff(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}
