package responses_test

import (
	"encoding/json/jsontext"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/antiphon-dev/antiphon/internal/openapitest"
	"github.com/antiphon-dev/antiphon/responses"
)

// TestResponsesMatchTheSpecification: the answer to any request begins with a
// response object that strict readers take (R10).
func TestResponsesMatchTheSpecification(t *testing.T) {
	t.Parallel()
	checker := openapitest.Load(t)
	bodies := map[string]string{
		"nothing": `{}`,
		"all settings": `{"model":"m","instructions":"i","max_output_tokens":16,"max_tool_calls":2,"parallel_tool_calls":false,
			"previous_response_id":"resp_0","prompt_cache_key":"k","reasoning":{"effort":"low"},"safety_identifier":"s",
			"service_tier":"flex","store":false,"background":true,"temperature":0,"text":{"verbosity":"low"},
			"top_logprobs":3,"top_p":0,"presence_penalty":-1,"frequency_penalty":1,"truncation":"auto","metadata":{"a":"b"}}`,
		"function tools":  `{"tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"function","name":"f"}}`,
		"allowed tools":   `{"tools":[{"type":"function","name":"f"}],"tool_choice":{"type":"allowed_tools","tools":[{"type":"function","name":"f"}]}}`,
		"JSON object":     `{"text":{"format":{"type":"json_object"}}}`,
		"nulls":           `{"text":null,"reasoning":null,"tools":null,"metadata":null,"tool_choice":null,"temperature":null}`,
		"nulls inside":    `{"text":{"format":null,"verbosity":null},"reasoning":{"effort":null}}`,
		"unknown members": `{"acme":1,"text":{"acme":1},"reasoning":{"effort":"low","acme":1}}`,
	}
	files, err := filepath.Glob(filepath.Join("testdata", "requests", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no bodies in testdata: %v", err)
	}
	for _, name := range files {
		body, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		bodies[filepath.Base(name)] = string(body)
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp := responses.NewResponse(decode(t, body), "resp_1", time.Unix(1700000000, 0))
			doc, err := resp.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if err := checker.CheckResponse(doc); err != nil {
				t.Errorf("%v\n%s", err, doc)
			}
		})
	}
}

// TestEventsMatchTheSpecification: every event of a response that is made of a
// composer's turns, and the response that they fold to.
func TestEventsMatchTheSpecification(t *testing.T) {
	t.Parallel()
	checker := openapitest.Load(t)
	rapid.Check(t, func(t *rapid.T) {
		events := withoutUnknown(drawResponse(t))
		for i := range events {
			doc, err := responses.AppendEvent(nil, &events[i])
			if err != nil {
				t.Fatalf("%s: %v", events[i].Type, err)
			}
			if err := checker.CheckEvent(doc); err != nil {
				t.Fatalf("%v\n%s", err, doc)
			}
		}
		if doc := foldJSON(t, events); checker.CheckResponse(doc) != nil {
			t.Fatalf("%v\n%s", checker.CheckResponse(doc), doc)
		}
	})
}

// withoutUnknown drops what the specification cannot know: items and events of
// unknown kinds, from the stream and from the last response.
func withoutUnknown(events []responses.Event) []responses.Event {
	var out []responses.Event
	for _, ev := range events {
		if isUnknown(ev.Item) || strings.HasPrefix(string(ev.Type), "acme:") {
			continue
		}
		if ev.Response != nil {
			r := *ev.Response
			r.Output = nil
			for _, it := range ev.Response.Output {
				if !isUnknown(it) {
					r.Output = append(r.Output, it)
				}
			}
			ev.Response = &r
		}
		out = append(out, ev)
	}
	return out
}

func isUnknown(it responses.Item) bool {
	_, ok := it.(*responses.UnknownItem)
	return ok
}

// TestAnnotatedAndRatedText: the members that only some answers have.
func TestAnnotatedAndRatedText(t *testing.T) {
	t.Parallel()
	checker := openapitest.Load(t)
	events := compose(responses.StatusCompleted, func(c *responses.Composer) {
		c.Text("a", []responses.LogProb{{Token: "a", Logprob: -0.5, TopLogprobs: []responses.LogProb{{Token: "b"}}}, {Token: "c"}})
		c.Annotate(jsontext.Value(`{"type":"url_citation","url":"u","title":"t","start_index":0,"end_index":1}`))
	})
	for i := range events {
		if doc := wire(t, &events[i]); checker.CheckEvent(doc) != nil {
			t.Errorf("%v\n%s", checker.CheckEvent(doc), doc)
		}
	}
}
