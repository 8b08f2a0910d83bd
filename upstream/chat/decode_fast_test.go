package chat

import (
	"encoding/json/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/sse"
	"github.com/antiphon-dev/antiphon/upstream/upstreamtest"
)

func TestPlainTextIsReadFast(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		chunk, want string
		ok          bool
	}{
		"as vLLM sends it":    {textChunk, " token", true},
		"with escapes":        {`{"choices":[{"delta":{"content":"a\n\u00e9\""}}]}`, "a\né\"", true},
		"with a role":         {`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`, "", true},
		"and a finish reason": {`{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`, "", false},
		"and usage":           {`{"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1}}`, "", false},
		"and reasoning":       {`{"choices":[{"delta":{"content":"a","reasoning":"b"}}]}`, "", false},
		"and a call":          {`{"choices":[{"delta":{"content":"a","tool_calls":[]}}]}`, "", false},
		"and log probs":       {`{"choices":[{"delta":{"content":"a"},"logprobs":{}}]}`, "", false},
		"and an error":        {`{"choices":[{"delta":{"content":"a"}}],"error":{}}`, "", false},
		"of another choice":   {`{"choices":[{"index":1,"delta":{"content":"a"}}]}`, "", false},
		"of two choices":      {`{"choices":[{"delta":{"content":"a"}},{"delta":{"content":"b"}}]}`, "", false},
		"said twice":          {`{"choices":[{"delta":{"content":"a","content":"b"}}]}`, "", false},
		"two lists":           {`{"choices":[{"delta":{"content":"a"}}],"choices":[]}`, "", false},
		"in parts":            {`{"choices":[{"delta":{"content":[{"type":"text","text":"a"}]}}]}`, "", false},
		"null":                {`{"choices":[{"delta":{"content":null}}]}`, "", false},
		"a name with escapes": {`{"choices":[{"delta":{"content":"a","tool\u005fcalls":[{}]}}]}`, "", false},
		"followed by more":    {`{"choices":[{"delta":{"content":"a"}}]} {}`, "", false},
		"cut":                 {`{"choices":[{"delta":{"content":"a"}}]`, "", false},
		"not UTF-8":           {"{\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}", "", false},
		"no choices":          {`{"choices":[]}`, "", false},
		"nothing":             {``, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, ok := new(textReader).read([]byte(test.chunk)); ok != test.ok || ok && got != test.want {
				t.Errorf("got %q, %v", got, ok)
			}
		})
	}
}

// TestChunksLikeTheLastAreReadFaster: once a chunk was walked, others with the
// same frame are read by comparing bytes, with the same result.
func TestChunksLikeTheLastAreReadFaster(t *testing.T) {
	t.Parallel()
	const before, after = `{"choices":[{"delta":{"content":`, `}}]}`
	var r textReader
	if _, ok := r.read([]byte(before + `"first"` + after)); !ok {
		t.Fatal("the first chunk was not read")
	}
	for name, test := range map[string]struct {
		between, want string
		ok            bool
	}{
		"a text":           {`"a"`, "a", true},
		"with escapes":     {`"\n\u00e9"`, "\né", true},
		"nothing":          {`""`, "", true},
		"two strings":      {`"a","content":"b"`, "", false},
		"a control letter": {"\"a\nb\"", "", false},
		"not UTF-8":        {"\"\xff\"", "", false},
		"null":             {`null`, "", false},
		"an open string":   {`"a`, "", false},
		"one quote":        {`"`, "", false},
		"empty":            {``, "", false},
	} {
		got, ok := r.same([]byte(before + test.between + after))
		if ok != test.ok || ok && got != test.want {
			t.Errorf("%s: got %q, %v", name, got, ok)
		}
	}
}

// FuzzPlainText: what is read fast is what the full decoding would have read, and
// nothing was passed over.
func FuzzPlainText(f *testing.F) {
	goldens, err := upstreamtest.Load("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, g := range goldens {
		for frame, err := range sse.Read(strings.NewReader(string(g.Body)), nil) {
			if err == nil {
				f.Add(append([]byte(nil), frame.Data...))
			}
		}
	}
	f.Add([]byte(textChunk))
	f.Fuzz(func(t *testing.T, data []byte) {
		var r textReader
		r.read([]byte(textChunk)) // so that there is a frame to compare with
		text, ok := r.read(data)
		if !ok {
			return
		}
		if again, ok := r.read(data); !ok || again != text {
			t.Fatalf("read as %q, then as %q, %v", text, again, ok)
		}
		var full chunk
		if err := json.Unmarshal(data, &full, wireOptions); err != nil {
			t.Fatalf("read fast, but not valid: %v", err)
		}
		want := chunk{Choices: []choice{{Delta: spoken{Content: spokenText{text: text}}}}}
		if full.Usage.Kind() == 'n' {
			full.Usage = nil
		}
		if full.Error.Kind() == 'n' {
			full.Error = nil
		}
		if !reflect.DeepEqual(full, want) {
			t.Errorf("read fast as %q, but it is %+v", text, full)
		}
	})
}
