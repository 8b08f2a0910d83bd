package relay_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/antiphon-dev/antiphon/internal/relay"
	"github.com/antiphon-dev/antiphon/internal/sse"
	"github.com/antiphon-dev/antiphon/responses"
)

const stream = ": hello\n\nevent: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"model\":\"big\"}}\n\n" +
	"data: {\"type\":\"response.output_text.delta\",\"delta\":\"the \\\"model\\\":\\\"big\\\"\"}\n\n" +
	"data: {\"type\":\"acme:new\",  \"x\" : [1.0]}\n\n" +
	"data: {\"type\":\"response.completed\",\"response\":{\"model\":\"big\",\"usage\":{\"input_tokens\":3,\"output_tokens\":4,\"total_tokens\":7}}}\n\n"

// frameWriter notes what is written at once.
type frameWriter struct {
	writes []string
	err    error
}

func (w *frameWriter) Write(p []byte) (int, error) {
	w.writes = append(w.writes, string(p))
	return len(p), w.err
}

func noFlush() error { return nil }

// TestStreamPassesEveryByte: however the answer is cut into reads and whatever
// line ends it uses, it arrives as it was sent, in whole frames, and what it says
// of itself is noticed.
func TestStreamPassesEveryByte(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"LF": stream, "CRLF": strings.ReplaceAll(stream, "\n", "\r\n"), "unfinished": stream + "data: {\"type\":\"late", "empty": "",
		"long": "data: {\"x\":\"" + strings.Repeat("y", 100_000) + "\"}\n\n" + stream,
	} {
		for way, reader := range map[string]func(string) io.Reader{
			"at once":      func(s string) io.Reader { return strings.NewReader(s) },
			"byte by byte": func(s string) io.Reader { return iotest.OneByteReader(strings.NewReader(s)) },
			"in halves":    func(s string) io.Reader { return iotest.HalfReader(strings.NewReader(s)) },
			"with its end": func(s string) io.Reader { return iotest.DataErrReader(strings.NewReader(s)) },
		} {
			if name == "long" && way == "byte by byte" {
				continue // takes a while and shows nothing new
			}
			var out frameWriter
			seen, err := relay.Stream(&out, noFlush, reader(text), relay.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(out.writes, ""); got != text {
				t.Errorf("%s, %s: got %q", name, way, got)
			}
			for _, w := range out.writes {
				if !strings.HasSuffix(strings.ReplaceAll(w, "\r", ""), "\n\n") && name != "unfinished" {
					t.Errorf("%s, %s: half a frame was written: %q", name, way, w)
				}
			}
			if name != "empty" && (seen.Last != responses.EventCompleted || seen.Usage == nil || seen.Usage.TotalTokens != 7) {
				t.Errorf("%s, %s: saw %+v", name, way, seen)
			}
		}
	}
}

func TestRenameTouchesTheModelOnly(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if _, err := relay.Stream(&out, noFlush, strings.NewReader(stream), relay.Options{Rename: relay.Rename{From: "big", To: "fast"}}); err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(stream, `"model":"big"`, `"model":"fast"`)
	if out.String() != want {
		t.Errorf("got %s", out.String())
	}
	body, seen := relay.Whole([]byte(`{"id":"r","model":"big", "status":"completed","x":{"model":"big"},"usage":{"total_tokens":5}}`), relay.Rename{From: "big", To: "fast"})
	if string(body) != `{"id":"r","model":"fast","status":"completed","x":{"model":"big"},"usage":{"total_tokens":5}}` || seen.Usage.TotalTokens != 5 {
		t.Errorf("got %s and %+v", body, seen)
	}
	if same, _ := relay.Whole([]byte(`{ "model" : "big" }`), relay.Rename{From: "big", To: "big"}); string(same) != `{ "model" : "big" }` {
		t.Errorf("without another name it became %s", same)
	}
}

// TestRenameReadsEveryForm: the upstream's name for the model shows in no form that
// a stream may have: other line ends, data of several lines, no space before it; what
// has no model stays as it is (R32).
func TestRenameReadsEveryForm(t *testing.T) {
	t.Parallel()
	lines := ": note\nevent: x\ndata: {\"type\":\"x\",\nid: 7\ndata:\"response\":{\ndata: \"model\":\"big\"}}\n\ndata: {\"a\":\ndata: \"the \\\"model\\\"\"}\n\n"
	renamed := ": note\nevent: x\nid: 7\ndata: {\"type\":\"x\",\"response\":{\"model\":\"fast\"}}\n\ndata: {\"a\":\ndata: \"the \\\"model\\\"\"}\n\n"
	for name, test := range map[string]struct{ text, want string }{
		"several lines": {lines, renamed},
		"no space":      {"data:{\"model\":\"big\"}\n\n", "data: {\"model\":\"fast\"}\n\n"},
		"no end":        {"data: {\"model\":\"big\"}\n", "data: {\"model\":\"fast\"}\n"},
		"no line end":   {"data: {\"model\":\"big\"}", "data: {\"model\":\"fast\"}"},
	} {
		for ends, end := range map[string]string{"LF": "\n", "CRLF": "\r\n", "CR": "\r"} {
			var out bytes.Buffer
			text := strings.ReplaceAll(test.text, "\n", end)
			if _, err := relay.Stream(&out, noFlush, strings.NewReader(text), relay.Options{Rename: relay.Rename{From: "big", To: "fast"}}); err != nil {
				t.Fatal(err)
			}
			if want := strings.ReplaceAll(test.want, "\n", end); out.String() != want {
				t.Errorf("%s, %s: got %q, want %q", name, ends, out.String(), want)
			}
		}
	}
}

func TestStreamEndsWithItsErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	if _, err := relay.Stream(io.Discard, noFlush, io.MultiReader(strings.NewReader("data: {}\n\n"), iotest.ErrReader(broken)), relay.Options{}); !errors.Is(err, broken) {
		t.Errorf("reading: %v", err)
	}
	if _, err := relay.Stream(&frameWriter{err: broken}, noFlush, strings.NewReader(stream), relay.Options{}); !errors.Is(err, broken) {
		t.Errorf("writing: %v", err)
	}
	if _, err := relay.Stream(io.Discard, func() error { return broken }, strings.NewReader(stream), relay.Options{}); !errors.Is(err, broken) {
		t.Errorf("flushing: %v", err)
	}
	endless := io.MultiReader(strings.NewReader("data: "), &endlessReader{})
	if _, err := relay.Stream(io.Discard, noFlush, endless, relay.Options{}); !errors.Is(err, sse.ErrLineTooLong) {
		t.Errorf("a frame without an end: %v", err)
	}
}

type endlessReader struct{}

func (*endlessReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// FuzzStream: without another name for the model every byte passes; with one,
// nothing panics.
func FuzzStream(f *testing.F) {
	f.Add([]byte(stream))
	f.Fuzz(func(t *testing.T, text []byte) {
		var out bytes.Buffer
		if _, err := relay.Stream(&out, noFlush, iotest.HalfReader(bytes.NewReader(text)), relay.Options{}); err != nil || !bytes.Equal(out.Bytes(), text) {
			t.Fatalf("got %q and %v", out.Bytes(), err)
		}
		_, _ = relay.Stream(io.Discard, noFlush, bytes.NewReader(text), relay.Options{Rename: relay.Rename{From: "a", To: "b"}})
	})
}
