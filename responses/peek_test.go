package responses_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/antiphon-dev/antiphon/responses"
)

func TestPeekRequest(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body string
		want responses.Head
	}{
		"stateless":         {`{"model":"m","stream":true,"store":false,"input":[{"a":{"b":[1]}}],"x":1}`, responses.Head{Model: "m", Stream: true}},
		"with a key":        {`{"model":"m","store":false,"prompt_cache_key":"k"}`, responses.Head{Model: "m", PromptCacheKey: "k"}},
		"stores by default": {`{"model":"m"}`, responses.Head{Model: "m", Remembers: true}},
		"stores on null":    {`{"model":"m","store":null}`, responses.Head{Model: "m", Remembers: true}},
		"goes on":           {`{"model":"m","store":false,"previous_response_id":"resp_1"}`, responses.Head{Model: "m", Remembers: true}},
		"in a conversation": {`{"model":"m","store":false,"conversation":{"id":"c"}}`, responses.Head{Model: "m", Remembers: true}},
		"in the background": {`{"model":"m","store":false,"background":true}`, responses.Head{Model: "m", Remembers: true}},
		"nulls":             {`{"model":null,"store":false,"previous_response_id":null,"conversation":null,"background":null,"stream":null,"messages":null}`, responses.Head{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := responses.PeekRequest([]byte(test.body), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, *got, cmpopts.IgnoreUnexported(responses.Head{})); diff != "" {
				t.Errorf("head (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPeekModel(t *testing.T) {
	t.Parallel()
	got, err := responses.PeekModel([]byte(`{"model":"m","messages":[{"role":"user"}],"stream":true,"Store":1}`), nil)
	if err != nil || got.Model != "m" || !got.Stream {
		t.Errorf("got %+v and %v", got, err)
	}
	for _, body := range []string{`{"model":"a","Model":"b"}`, `{"model":"a","model":"b"}`, `{"MODEL":"a"}`, `{"model":1}`, `[]`, ``, `{} 1`} {
		if _, err := responses.PeekModel([]byte(body), nil); err == nil {
			t.Errorf("%s was accepted", body)
		}
	}
}

// TestPeekIsAsStrictAsDecoding: what one refuses about the JSON itself and about
// the head, the other does too, by the same name.
func TestPeekIsAsStrictAsDecoding(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		``, ` `, `[]`, `{`, `{}x`, `{} {}`, `{"model":"a","MODEL":"b"}`, `{"model":"a","model":"b"}`, `{"Store":false}`,
		`{"model":1}`, `{"stream":"yes"}`, `{"messages":[]}`, "{\"model\":\"\xff\"}", `{"input":[{"a":1,"a":2}]}`,
		`{"input":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`, `{"input":` + strings.Repeat("[", 10_000), `{"a":01}`,
	} {
		_, decoding := responses.DecodeRequest([]byte(body), nil)
		_, peeking := responses.PeekRequest([]byte(body), nil)
		d, p := responses.AsError(decoding), responses.AsError(peeking)
		if d == nil || p == nil || d.Code != p.Code || d.Param != p.Param {
			t.Errorf("%.60s: decoding says %v, peeking %v", body, decoding, peeking)
		}
	}
}

// FuzzPeekRequest: what decoding accepts, peeking reads alike.
func FuzzPeekRequest(f *testing.F) {
	f.Add([]byte(`{"model":"m","store":false,"stream":true,"input":"x"}`))
	f.Add([]byte(`{"model":"m","previous_response_id":"r","MODEL":1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := responses.DecodeRequest(body, nil)
		if err != nil {
			_, _ = responses.PeekRequest(body, nil) // must not panic
			return
		}
		h, err := responses.PeekRequest(body, nil)
		if err != nil {
			t.Fatalf("decoded, but not peeked at: %v", err)
		}
		remembers := r.Store == nil || *r.Store || r.PreviousResponseID != "" || r.Conversation != nil || r.Background != nil && *r.Background
		if h.Model != r.Model || h.Stream != r.WantsStream() || h.PromptCacheKey != r.PromptCacheKey || remembers && !h.Remembers {
			t.Errorf("peeked %+v, decoded %+v", h, r)
		}
	})
}
