package relay_test

import (
	"bytes"
	"encoding/json/jsontext"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/relay"
	"github.com/antiphon-dev/antiphon/responses"
)

// TestCleanRequest: known members of the first level pass as they came, others are
// named, and what cannot be missing is asked for by name (R30).
func TestCleanRequest(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		api              *relay.API
		body, want       string
		stripped, refuse string
	}{
		"as it came":    {relay.ChatCompletions, `{ "model":"m","messages":[ {"role":"user","acme":1} ]}`, `{ "model":"m","messages":[ {"role":"user","acme":1} ]}`, "", ""},
		"stripped":      {relay.ChatCompletions, `{"model":"m","top_k": 1,"messages":[],"seed" : 1.0}`, `{"model":"m","messages":[],"seed":1.0}`, "top_k", ""},
		"no messages":   {relay.ChatCompletions, `{"model":"m"}`, "", "", "messages"},
		"not a list":    {relay.ChatCompletions, `{"messages":{}}`, "", "", "messages"},
		"embeddings":    {relay.Embeddings, `{"model":"m","input":["a"],"truncate":"END"}`, `{"model":"m","input":["a"]}`, "truncate", ""},
		"nothing there": {relay.Embeddings, `{}`, "", "", "input"},
	} {
		body, stripped, err := test.api.Request([]byte(test.body))
		if e := responses.AsError(err); test.refuse != "" {
			if e == nil || e.Param != test.refuse || e.Code.Status() != 400 {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		var names []string
		for _, l := range stripped {
			names = append(names, l.Param)
		}
		if err != nil || string(body) != test.want || strings.Join(names, " ") != test.stripped {
			t.Errorf("%s: %s, %v, %v", name, body, names, err)
		}
	}
}

// TestCleanAnswer: what an answer cost is noticed, whole or streamed, and its usage
// is not what breaks it.
func TestCleanAnswer(t *testing.T) {
	t.Parallel()
	const answer = `{"model":"big","usage":{"total_tokens":7,"acme":1}}`
	clean, seen, err := relay.ChatCompletions.Whole([]byte(answer), relay.Rename{From: "big", To: "fast"})
	if err != nil || string(clean) != `{"model":"fast","usage":{"total_tokens":7}}` || seen.Usage == nil || seen.Usage.TotalTokens != 7 {
		t.Errorf("%s %+v %v", clean, seen, err)
	}
	var out bytes.Buffer
	seen, err = relay.ChatCompletions.Stream(&out, noFlush, strings.NewReader("data: "+answer+"\n\ndata: {}\n\ndata: [DONE]\n\n"), relay.Rename{})
	if err != nil || seen.Usage == nil || seen.Usage.TotalTokens != 7 || seen.Frames != 3 || !strings.HasSuffix(out.String(), "data: {}\n\ndata: [DONE]\n\n") {
		t.Errorf("%s %+v %v", out.String(), seen, err)
	}
}

// FuzzClean: whatever an upstream sends, what passes is JSON without what is not
// published, and cleaning it again changes nothing.
func FuzzClean(f *testing.F) {
	f.Add([]byte(`{"id":"c","acme":1,"choices":[{"message":{"content":"x","acme":[]},"acme":1}],"usage":{"total_tokens":1,"cost":2}}`))
	f.Add([]byte(`{"choices":[[{"acme":1}],null,7],"usage":"acme"}`))
	f.Add([]byte(`{"error":{"message":"acme"}}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		for _, api := range []*relay.API{relay.ChatCompletions, relay.Embeddings} {
			clean, _, err := api.Whole(answer, relay.Rename{})
			if err != nil {
				continue
			}
			if !jsontext.Value(clean).IsValid() {
				t.Fatalf("%s became %s", answer, clean)
			}
			if again, _, err := api.Whole(clean, relay.Rename{}); err != nil || !bytes.Equal(again, clean) {
				t.Fatalf("%s became %s, %v", clean, again, err)
			}
		}
		var out bytes.Buffer
		_, _ = relay.ChatCompletions.Stream(&out, noFlush, bytes.NewReader(answer), relay.Rename{})
	})
}
