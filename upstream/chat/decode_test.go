package chat

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/upstreamtest"
)

// newTestDecoder returns a decoder that knows one free-form tool.
func newTestDecoder() *decoder {
	box, err := upstream.NewToolbox(&responses.Request{Tools: []responses.Tool{&responses.CustomTool{Name: "patch"}}})
	if err != nil {
		panic(err)
	}
	return newDecoder(responses.NewComposer(0, time.Now), box)
}

// decodeItems pushes chunks and returns the items that they make, as
// call:name:arguments or text:text, and the end.
func decodeItems(d *decoder, chunks ...string) ([]string, *responses.TurnEnd, error) {
	for _, c := range chunks {
		if err := d.Push([]byte(c)); err != nil {
			return nil, nil, err
		}
	}
	if err := d.End(); err != nil {
		return nil, nil, err
	}
	var fold responses.Fold
	var end *responses.TurnEnd
	for _, ev := range d.out.Take() {
		fold.Add(&ev)
		end = ev.End
	}
	var items []string
	for _, it := range fold.Output() {
		switch it := it.(type) {
		case *responses.FunctionCall:
			items = append(items, "call:"+it.Name+":"+it.Arguments)
		case *responses.Message:
			items = append(items, "text:"+it.Content.Text())
		}
	}
	return items, end, nil
}

func toolChunk(calls string) string {
	return `{"choices":[{"index":0,"delta":{"tool_calls":[` + calls + `]}}]}`
}

const stopChunk = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`

// TestCallIdentity: which pieces belong to one call, beyond the spellings in the
// goldens.
func TestCallIdentity(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		chunks []string
		want   []string
	}{
		{
			name: "no number, found by id",
			chunks: []string{
				toolChunk(`{"id":"a","function":{"name":"f","arguments":"{\"x\":"}}`),
				toolChunk(`{"id":"b","function":{"name":"f","arguments":"{\"y\":"}}`),
				toolChunk(`{"id":"a","function":{"arguments":"1}"}}`),
				toolChunk(`{"id":"b","function":{"arguments":"2}"}}`),
			},
			want: []string{`call:f:{"x":1}`, `call:f:{"y":2}`},
		},
		{
			name: "a new id in every piece",
			chunks: []string{
				toolChunk(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":"}}`),
				toolChunk(`{"index":0,"id":"b","function":{"arguments":"1}"}}`),
			},
			want: []string{`call:f:{"x":1}`},
		},
		{
			name: "a number that appears late",
			chunks: []string{
				toolChunk(`{"id":"a","function":{"name":"f"}}`),
				toolChunk(`{"index":0,"function":{"arguments":"{}"}}`),
			},
			want: []string{`call:f:{}`},
		},
		{
			name: "name repeated without an id",
			chunks: []string{
				toolChunk(`{"index":0,"function":{"name":"f","arguments":"{\"x\":{}"}}`),
				toolChunk(`{"index":0,"function":{"name":"f","arguments":"}"}}`),
			},
			want: []string{`call:f:{"x":{}}`},
		},
		{
			name: "one number, no ids, one object after another",
			chunks: []string{
				toolChunk(`{"index":0,"function":{"name":"f","arguments":"{} "}}`),
				toolChunk(`{"index":0,"function":{"name":"f","arguments":"{}"}}`),
				toolChunk(`{"index":0,"function":{"name":"g","arguments":"{}"}}`),
			},
			want: []string{"call:f:{}" + " ", "call:f:{}", "call:g:{}"},
		},
		{
			name: "one number, no ids, another name",
			chunks: []string{
				toolChunk(`{"index":0,"function":{"name":"f","arguments":"{}"}}`),
				toolChunk(`{"index":0,"function":{"name":"g","arguments":""}}`),
				toolChunk(`{"index":0,"function":{"arguments":"{\"x\":1}"}}`),
			},
			want: []string{"call:f:{}", `call:g:{"x":1}`},
		},
		{
			name: "one id, arguments that look like two objects",
			chunks: []string{
				toolChunk(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":\"}"}}`),
				toolChunk(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"}"}}`),
			},
			want: []string{`call:f:{"x":"}{"}`},
		},
		{
			name:   "names only, no numbers and no ids",
			chunks: []string{toolChunk(`{"function":{"name":"f"}},{"function":{"name":"g"}}`)},
			want:   []string{"call:f:{}", "call:g:{}"},
		},
		{
			name: "a name that grows",
			chunks: []string{
				toolChunk(`{"index":0,"id":"a","function":{"name":"get"}}`),
				toolChunk(`{"index":0,"id":"a","function":{"name":"get_it","arguments":"{}"}}`),
			},
			want: []string{"call:get_it:{}"},
		},
		{
			name: "empty pieces",
			chunks: []string{
				toolChunk(`{"index":0}`),
				toolChunk(`{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}`),
				toolChunk(`{"index":0,"id":"","function":{"name":null,"arguments":null}}`),
			},
			want: []string{"call:f:{}"},
		},
		{
			name: "another name after the call has begun",
			chunks: []string{
				toolChunk(`{"index":0,"function":{"name":"f"}}`),
				`{"choices":[{"index":0,"delta":{"content":"Hm."}}]}`,
				toolChunk(`{"index":0,"function":{"name":"g","arguments":"{}"}}`),
			},
			want: []string{"call:f:{}", "text:Hm.", "call:g:{}"},
		},
		{
			name: "text between pieces",
			chunks: []string{
				toolChunk(`{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}`),
				`{"choices":[{"index":0,"delta":{"content":"Hm."}}]}`,
				toolChunk(`{"index":0,"function":{"arguments":"}"}}`),
			},
			want: []string{"call:f:{}", "text:Hm."},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, _, err := decodeItems(newTestDecoder(), append(tt.chunks, stopChunk)...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("items (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOddText: text that is not quite JSON's is taken, because the next
// character is worth more than the rule.
func TestOddText(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, content, want string }{
		{"half a surrogate pair", `\ud83d`, "text:\ufffd"},
		{"invalid UTF-8", "a\xffb", "text:a\ufffdb"},
		{"a zero byte", `a\u0000b`, "text:a\x00b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, _, err := decodeItems(newTestDecoder(), `{"choices":[{"delta":{"content":"`+tt.content+`","content":"`+tt.content+`"}}]}`, stopChunk)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tt.want}, got); diff != "" {
				t.Errorf("items (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTooManyCalls(t *testing.T) {
	t.Parallel()
	d := newTestDecoder()
	var err error
	calls := 0
	for ; err == nil && calls < 10*maxCalls; calls++ {
		err = d.Push([]byte(toolChunk(fmt.Sprintf(`{"index":%d,"function":{"name":"f","arguments":"{}"}}`, calls))))
	}
	if e := responses.AsError(err); e == nil || e.Code != responses.CodeUpstream || calls != maxCalls+1 {
		t.Errorf("call %d: %v, want a failure at call %d", calls, err, maxCalls+1)
	}
}

func TestSkipMalformed(t *testing.T) {
	t.Parallel()
	chunks := []string{
		`{"choices":[{"delta":{"content":"Hel"}}]}`,
		`{"choices":[{"delta":{"content":"lost`,
		`{"choices":[{"delta":{"content":7}}]}`,
		`{"choices":[{"delta":{"content":"lo"}}]}`,
		stopChunk,
	}
	d := newTestDecoder()
	d.skipMalformed = true
	got, _, err := decodeItems(d, chunks...)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"text:Hello"}, got); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	_, _, err = decodeItems(newTestDecoder(), chunks...)
	if e := responses.AsError(err); e == nil || !strings.Contains(e.Message, "lost") {
		t.Errorf("without the option: %v, want a failure that shows the frame", err)
	}
}

// TestErrorChunk: what is a failure inside an answer, beyond the shapes in the
// goldens, and what is none.
func TestErrorChunk(t *testing.T) {
	t.Parallel()
	const usage = `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}`
	tests := []struct {
		name   string
		chunks []string
		want   responses.Code // "" means that the turn ends well
	}{
		{"null", []string{`{"error":null,"choices":[]}`}, ""},
		{"empty text", []string{`{"error":"","choices":[]}`}, ""},
		{"some other object", []string{`{"object":"progress","message":"Loading."}`}, ""},
		{"empty object", []string{`{"error":{}}`}, responses.CodeUpstream},
		{"members of other types", []string{`{"error":{"message":["a"],"code":true}}`}, responses.CodeUpstream},
		{"beside choices", []string{`{"choices":[{"delta":{"content":""},"finish_reason":"error"}],"error":{"code":429,"message":"Later."}}`}, responses.CodeRateLimit},
		{"a code of our own", []string{`{"error":{"code":"context_length_exceeded","message":"Too long."}}`}, responses.CodeContextLength},
		{"a number that is no status", []string{`{"error":{"code":7,"type":"invalid_request_error"}}`}, responses.CodeInvalidRequest},
		{"bare, after usage", []string{usage, `{"object":"error","message":"No.","code":503}`}, responses.CodeOverloaded},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := decodeItems(newTestDecoder(), append(tt.chunks, stopChunk)...)
			var got responses.Code
			if err != nil {
				got = responses.AsError(err).Code
			}
			if got != tt.want {
				t.Errorf("the turn ended with %v, want code %q", err, tt.want)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	usage := func(in, cached, out, reasoning, total int64) *responses.Usage {
		return &responses.Usage{
			InputTokens: in, InputTokensDetails: responses.InputTokensDetails{CachedTokens: cached},
			OutputTokens: out, OutputTokensDetails: responses.OutputTokensDetails{ReasoningTokens: reasoning},
			TotalTokens: total,
		}
	}
	tests := []struct {
		name, wire string
		want       *responses.Usage
	}{
		{"nulls in the details", `{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"prompt_tokens_details":null,"completion_tokens_details":{"reasoning_tokens":null}}`, usage(1, 0, 2, 0, 3)},
		{"a total of its own", `{"prompt_tokens":1,"completion_tokens":2,"total_tokens":9}`, usage(1, 0, 2, 0, 9)},
		{"details", `{"prompt_tokens":5,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":2}}`, usage(5, 3, 4, 2, 9)},
		{"no output", `{"prompt_tokens":1}`, nil},
		{"no input", `{"completion_tokens":1}`, nil},
		{"negative", `{"prompt_tokens":-1,"completion_tokens":2}`, nil},
		{"too large", `{"prompt_tokens":9223372036854775807,"completion_tokens":2}`, nil},
		{"of another type", `{"prompt_tokens":"1","completion_tokens":2}`, nil},
		{"null", `null`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, end, err := decodeItems(newTestDecoder(), stopChunk, `{"choices":[],"usage":`+tt.wire+`}`)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, end.Usage); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzDecode: whatever a server sends, the events are legal up to one end or
// one error.
func FuzzDecode(f *testing.F) {
	goldens, err := upstreamtest.Load("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, g := range goldens {
		if g.Body != nil {
			f.Add(g.Body, g.Streamed)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, streamed bool) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		s := &stream{ctx: ctx, cancel: cancel, body: bytes.NewReader(body), dec: newTestDecoder()}
		events := s.whole
		if streamed {
			events = s.frames
		}
		grammar := responses.NewTurnGrammar()
		failed := false
		for ev, err := range events {
			if failed || grammar.Ended() {
				t.Fatalf("%s (error %v) after the end", ev.Type, err)
			}
			if failed = err != nil; failed {
				continue
			}
			if err := grammar.Check(&ev); err != nil {
				t.Fatalf("%s: %v", ev.Type, err)
			}
			if _, err := responses.AppendEvent(nil, &ev); err != nil && ev.Type != responses.EventTurnEnd {
				t.Fatalf("%s cannot be encoded: %v", ev.Type, err)
			}
		}
		if !failed && !grammar.Ended() {
			t.Fatal("it just stopped")
		}
	})
}
