package relay_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/antiphon-dev/antiphon/internal/relay"
	"github.com/antiphon-dev/antiphon/responses"
)

// framed is a stream of events of the given types, numbered.
func framed(types ...string) string {
	var b strings.Builder
	for _, t := range types {
		b.WriteString("event: " + t + "\ndata: {\"type\":\"" + t + "\"}\n\n")
	}
	return b.String()
}

// TestStreamNoticesBrokenOrder: what breaks the grammar by type, order or number
// is noticed, by the rule and the event, and passes all the same (R13).
func TestStreamNoticesBrokenOrder(t *testing.T) {
	t.Parallel()
	const begin = "data: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{}}\n\n"
	for name, tt := range map[string]struct{ stream, want string }{
		"sound":               {framed("response.created", "response.in_progress", "response.output_item.added", "response.output_text.delta", "response.output_text.delta", "response.output_item.done", "response.completed"), ""},
		"with an end":         {framed("response.created", "response.in_progress", "response.completed") + "data: [DONE]\n\n", ""},
		"no beginning":        {framed("response.output_text.delta", "response.completed"), `event 0 ("response.output_text.delta"): an item event before response.in_progress or after an error`},
		"text after the end":  {framed("response.created", "response.in_progress", "response.completed", "response.output_text.delta"), `event 3 ("response.output_text.delta"): after the terminal event`},
		"no end":              {framed("response.created", "response.in_progress"), "the stream ended without a terminal event"},
		"nothing":             {"", "the stream ended without a terminal event"},
		"only comments":       {": data\n\n: more\n\n", "the stream ended without a terminal event"},
		"a gap":               {begin + "data: {\"type\":\"response.in_progress\", \"sequence_number\": 2, \"response\":{}}\n\n", `event 1 ("response.in_progress"): sequence_number is 2, not 1`},
		"a number inside":     {begin + "data: {\"type\":\"response.in_progress\",\"response\":{\"sequence_number\":7}}\n\n" + framed("response.completed"), ""},
		"a number cut off":    {begin + "data: {\"type\":\"response.in_progress\",\"sequence_number\":7", "the stream ended without a terminal event"},
		"named wrongly":       {"event: response.output_text.delta\ndata: {\"type\":\"response.created\"}\n\n" + framed("response.in_progress", "response.completed"), ""},
		"type last":           {"data: {\"sequence_number\":0,\"type\":\"response.created\"}\n\ndata:{\"type\":\"response.in_progress\"}\n\n" + framed("response.completed"), ""},
		"spaced":              {"data: {\"type\": \"response.created\"}\n\nid: 7\ndata: {\"type\":\"response.in_progress\"}\n\n" + framed("response.completed"), ""},
		"data on two lines":   {"data: {\"type\":\ndata: \"response.created\"}\n\n" + framed("response.in_progress", "response.completed"), ""},
		"two lines, type 1st": {"data: {\"type\":\"response.created\",\ndata: \"response\":{}}\n\n" + framed("response.in_progress", "response.completed"), ""},
		"a type of its own":   {framed("response.created", "response.in_progress", "acme:new", "response.completed"), ""},
		"no type":             {"data: {\"error\":\"x\"}\n\n", `event 0 (""): an item event before response.in_progress or after an error`},
	} {
		for ends, text := range map[string]string{"LF": tt.stream, "CRLF": strings.ReplaceAll(tt.stream, "\n", "\r\n"), "CR": strings.ReplaceAll(tt.stream, "\n", "\r")} {
			for way, reader := range map[string]io.Reader{"at once": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text))} {
				var out bytes.Buffer
				seen, err := relay.Stream(&out, noFlush, reader, relay.Options{})
				if err != nil || out.String() != text {
					t.Fatalf("%s, %s, %s: got %v and %q", name, ends, way, err, out.String())
				}
				got := ""
				if seen.Broken != nil {
					got = seen.Broken.Error()
				}
				if got != tt.want {
					t.Errorf("%s, %s, %s: noticed %q, want %q", name, ends, way, got, tt.want)
				}
			}
		}
	}
}

// TestStreamOfAnotherAPI: its chunks have no order, but a cost.
func TestStreamOfAnotherAPI(t *testing.T) {
	t.Parallel()
	const chunks = "data: {\"object\":\"chat.completion.chunk\",\"choices\":[]}\n\n" +
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2,\"total_tokens\":3}}\n\ndata: [DONE]\n\n"
	seen, err := relay.Stream(io.Discard, noFlush, strings.NewReader(chunks), relay.Options{Foreign: true})
	if err != nil || seen.Broken != nil || seen.Frames != 2 || seen.Usage == nil || seen.Usage.TotalTokens != 3 {
		t.Errorf("got %+v and %v", seen, err)
	}
}

// TestCostOfAnotherAPI: what other APIs call their tokens is input and output all the
// same, in a stream, in a whole answer, and cleaned or not (R35).
func TestCostOfAnotherAPI(t *testing.T) {
	t.Parallel()
	const chat = `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"acme":{}}}`
	for name, test := range map[string]struct {
		body  string
		in    int64
		out   int64
		total int64
	}{
		"a chat":                 {chat, 10, 5, 15},
		"embeddings":             {`{"data":[],"usage":{"prompt_tokens":10,"total_tokens":10}}`, 10, 0, 10},
		"no total":               {`{"usage":{"prompt_tokens":10,"completion_tokens":5}}`, 10, 5, 15},
		"a response":             {`{"usage":{"input_tokens":10,"output_tokens":5,"total_tokens":15}}`, 10, 5, 15},
		"numbers that are words": {`{"usage":{"prompt_tokens":"10","total_tokens":15}}`, 0, 0, 15},
		"numbers below nothing":  {`{"usage":{"prompt_tokens":-10,"total_tokens":15}}`, 0, 0, 15},
	} {
		ways := map[string]*relay.Seen{}
		_, ways["whole"] = relay.Whole([]byte(test.body), relay.Rename{})
		ways["streamed"], _ = relay.Stream(io.Discard, noFlush, strings.NewReader("data: "+test.body+"\n\n"), relay.Options{Foreign: true})
		_, ways["cleaned"], _ = relay.ChatCompletions.Whole([]byte(test.body), relay.Rename{})
		ways["streamed and cleaned"], _ = relay.ChatCompletions.Stream(io.Discard, noFlush, strings.NewReader("data: "+test.body+"\n\n"), relay.Rename{})
		for way, seen := range ways {
			if u := seen.Usage; u == nil || u.InputTokens != test.in || u.OutputTokens != test.out || u.TotalTokens != test.total {
				t.Errorf("%s, %s: %+v", name, way, u)
			}
		}
	}
}

// TestStreamDecidesByTheData: clients go by the type in the data, so that is what
// ends a stream.
func TestStreamDecidesByTheData(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]responses.EventType{
		"event: response.completed\ndata: {\"type\":\"response.output_text.delta\"}\n\n":           "",
		"event: response.output_text.delta\ndata: {\"type\":\"response.completed\"}\n\n":           responses.EventCompleted,
		"event: response.completed\ndata: {\"type\":\"response.completed_not\"}\n\n":               "",
		"data: {\"type\":\"response.output_text.delta\",\"delta\":\"response.completed\"}\n\n":     "",
		"data: {\"type\":\"response.failed\",\"response\":{\"usage\":null}}\n\n":                   responses.EventFailed,
		"data: {\"type\":\"response.completed\", broken\n\n":                                       "",
		"data: {\"x\":{\"type\":\"response.completed\"},\"type\":\"response.in_progress\"}\n\n":    "",
		"data: {\"type\":\"response.incomplete\",\"type\":\"response.incomplete\",\"a\":\"\"}\n\n": responses.EventIncomplete,
	} {
		seen, err := relay.Stream(io.Discard, noFlush, strings.NewReader(text), relay.Options{})
		if err != nil || seen.Last != want {
			t.Errorf("%q: got %q and %v, want %q", text, seen.Last, err, want)
		}
	}
}

// TestStreamPassesWhatIsWhole: as soon as a frame is whole it is written, whatever
// its line ends, and however large those before it were.
func TestStreamPassesWhatIsWhole(t *testing.T) {
	t.Parallel()
	big := "data: " + strings.Repeat("y", 200_000)
	for name, eol := range map[string]string{"LF": "\n", "CRLF": "\r\n", "CR": "\r"} {
		r, w := io.Pipe()
		var out frameWriter
		passed := make(chan struct{})
		go func() {
			defer w.Close()
			for _, frame := range []string{"data: 1", big, "data: 2", ": c" + eol + "data: 3"} {
				io.WriteString(w, frame+eol+eol)
				<-passed
			}
		}()
		n := 0
		_, err := relay.Stream(&out, func() error { n++; passed <- struct{}{}; return nil }, r, relay.Options{Foreign: true})
		if err != nil || n != 4 {
			t.Errorf("%s: %d writes and %v, want 4", name, n, err)
		}
	}
}

// BenchmarkStream looks at a long answer as it passes.
func BenchmarkStream(b *testing.B) {
	delta := "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":7,\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\" word\",\"logprobs\":[],\"obfuscation\":\"abcdefgh\"}\n\n"
	text := framed("response.created", "response.in_progress", "response.output_item.added") + strings.Repeat(delta, 1000) +
		framed("response.output_item.done", "response.completed")
	for name, text := range map[string]string{"LF": text, "CRLF": strings.ReplaceAll(text, "\n", "\r\n")} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if seen, err := relay.Stream(io.Discard, noFlush, strings.NewReader(text), relay.Options{}); err != nil || seen.Broken != nil {
					b.Fatal(err, seen.Broken)
				}
			}
		})
	}
}
