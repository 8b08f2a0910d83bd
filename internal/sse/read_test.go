package sse_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/internal/sse"
)

// collect returns copies of all events of r, and the error it ended with.
func collect(r io.Reader, opts *sse.ReadOptions) ([]sse.Event, error) {
	var events []sse.Event
	for event, err := range sse.Read(r, opts) {
		if err != nil {
			return events, err
		}
		event.Data = bytes.Clone(event.Data)
		events = append(events, event)
	}
	return events, nil
}

// diffEvents reports how got differs from want. It compares data at once, which
// for large data is far faster than byte by byte; nil is not the same as empty
// there, for the data of an event is never nil.
func diffEvents(want, got []sse.Event) string {
	if len(want) == 0 && len(got) == 0 {
		return ""
	}
	return cmp.Diff(want, got, cmp.Comparer(func(a, b []byte) bool {
		return bytes.Equal(a, b) && (a == nil) == (b == nil)
	}))
}

// readCases are streams with the events that the standard makes of them. They
// are also the seeds of the fuzz targets.
var readCases = []struct {
	name  string
	input string
	want  []sse.Event
}{
	{"empty stream", "", nil},
	{"only line ends", "\n\r\n\r\r\n\n", nil},
	{"one event", "data: a\n\n", []sse.Event{{Data: []byte("a")}}},
	{
		"typed events",
		"event: x\ndata: 1\n\nevent: y\ndata: 2\n\n",
		[]sse.Event{{Type: "x", Data: []byte("1")}, {Type: "y", Data: []byte("2")}},
	},
	{
		"type does not carry over",
		"event: x\ndata: 1\n\ndata: 2\n\n",
		[]sse.Event{{Type: "x", Data: []byte("1")}, {Data: []byte("2")}},
	},
	{"type after data", "data: 1\nevent: x\n\n", []sse.Event{{Type: "x", Data: []byte("1")}}},
	{"last type wins", "event: x\nevent: y\ndata: 1\n\n", []sse.Event{{Type: "y", Data: []byte("1")}}},
	{"empty type resets", "event: x\nevent\ndata: 1\n\n", []sse.Event{{Data: []byte("1")}}},

	{"LF", "data: a\ndata: b\n\ndata: c\n\n", []sse.Event{{Data: []byte("a\nb")}, {Data: []byte("c")}}},
	{"CR", "data: a\rdata: b\r\rdata: c\r\r", []sse.Event{{Data: []byte("a\nb")}, {Data: []byte("c")}}},
	{"CRLF", "data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", []sse.Event{{Data: []byte("a\nb")}, {Data: []byte("c")}}},
	{"mixed line ends", "data: a\r\ndata: b\rdata: c\n\r\ndata: d\n\r", []sse.Event{{Data: []byte("a\nb\nc")}, {Data: []byte("d")}}},
	{"LF CR is two line ends", "data: a\n\rdata: b\n\n", []sse.Event{{Data: []byte("a")}, {Data: []byte("b")}}},
	{"CRLF LF is two line ends", "data: a\r\n\ndata: b\n\n", []sse.Event{{Data: []byte("a")}, {Data: []byte("b")}}},
	{"CR CRLF is two line ends", "data: a\r\r\ndata: b\n\n", []sse.Event{{Data: []byte("a")}, {Data: []byte("b")}}},

	{"byte order mark", "\uFEFFdata: a\n\n", []sse.Event{{Data: []byte("a")}}},
	{"byte order mark before blank line", "\uFEFF\ndata: a\n\n", []sse.Event{{Data: []byte("a")}}},
	{"second byte order mark is part of the name", "\uFEFF\uFEFFdata: a\n\ndata: b\n\n", []sse.Event{{Data: []byte("b")}}},
	{"byte order mark on a later line", "data: a\n\uFEFFdata: b\n\n", []sse.Event{{Data: []byte("a")}}},
	{"half a byte order mark", "\xEF\xBBdata: a\n\ndata: b\n\n", []sse.Event{{Data: []byte("b")}}},

	{"comments", ": hello\n:\n:data: no\ndata: a\n: in between\ndata: b\n\n", []sse.Event{{Data: []byte("a\nb")}}},
	{"comment alone dispatches nothing", ": keep-alive\n\n", nil},
	{"unknown fields", "foo: 1\nDATA: 2\n data: 3\ndata : 4\nbar\ndata: a\n\n", []sse.Event{{Data: []byte("a")}}},

	{"one space is removed", "data:a\ndata: b\ndata:  c\ndata:\td\n\n", []sse.Event{{Data: []byte("a\nb\n c\n\td")}}},
	{"trailing space and colons stay", "data: a: b \n\n", []sse.Event{{Data: []byte("a: b ")}}},
	{"space is removed from a type", "event:  x\ndata: a\n\n", []sse.Event{{Type: " x", Data: []byte("a")}}},
	{
		"field without colon", // The example of the standard.
		"data\n\ndata\ndata\n\ndata:",
		[]sse.Event{{Data: []byte("")}, {Data: []byte("\n")}},
	},
	{"empty lines of data", "data:\ndata: \ndata: a\ndata\n\n", []sse.Event{{Data: []byte("\n\na\n")}}},
	{"event without data", "event: x\n\ndata: a\n\n", []sse.Event{{Data: []byte("a")}}},
	{"bytes are not decoded", "data: \xff\x00\n\n", []sse.Event{{Data: []byte("\xff\x00")}}},

	{
		"id stays", // Also if set by a block that dispatched nothing.
		"id: 1\ndata: a\n\ndata: b\n\nid: 2\n\ndata: c\n\n",
		[]sse.Event{{ID: "1", Data: []byte("a")}, {ID: "1", Data: []byte("b")}, {ID: "2", Data: []byte("c")}},
	},
	{"empty id resets", "id: 1\ndata: a\n\nid\ndata: b\n\n", []sse.Event{{ID: "1", Data: []byte("a")}, {Data: []byte("b")}}},
	{"id with NUL is ignored", "id: 1\nid: 2\x00\ndata: a\n\n", []sse.Event{{ID: "1", Data: []byte("a")}}},

	{
		"retry stays",
		"retry: 1500\n\ndata: a\n\nretry:20\ndata: b\n\n",
		[]sse.Event{{Retry: 1500 * time.Millisecond, Data: []byte("a")}, {Retry: 20 * time.Millisecond, Data: []byte("b")}},
	},
	{
		"retry takes digits only",
		"retry: 5\nretry: -1\nretry: +1\nretry: 1s\nretry: 1.5\nretry:  7\nretry: \nretry\nretry: 1٣\ndata: a\n\n",
		[]sse.Event{{Retry: 5 * time.Millisecond, Data: []byte("a")}},
	},
	{
		"retry beyond a duration",
		"retry: 99999999999999999999999999\ndata: a\n\n",
		[]sse.Event{{Retry: math.MaxInt64 / time.Millisecond * time.Millisecond, Data: []byte("a")}},
	},

	{"end inside data line", "data: a\n\ndata: b", []sse.Event{{Data: []byte("a")}}},
	{"end before blank line", "data: a\n\ndata: b\n", []sse.Event{{Data: []byte("a")}}},
	{"end inside CRLF", "data: a\r\n\r", []sse.Event{{Data: []byte("a")}}},
	{
		"provider stream",
		": OPENROUTER PROCESSING\n\nevent: response.created\r\ndata: {\"type\":\"response.created\"}\r\n\r\ndata: [DONE]\n\n",
		[]sse.Event{{Type: "response.created", Data: []byte(`{"type":"response.created"}`)}, {Data: []byte("[DONE]")}},
	},
	{
		"empty data is held at its place", // Joining to it must not reach what was read behind it.
		"data: " + strings.Repeat("a", 500) + "\n\ndata\ndata: x\n\ndata: " + strings.Repeat("b", 1000) + "\n\n",
		[]sse.Event{{Data: []byte(strings.Repeat("a", 500))}, {Data: []byte("\nx")}, {Data: []byte(strings.Repeat("b", 1000))}},
	},
	{
		"lines beyond the first buffer",
		"data: " + strings.Repeat("a", 3000) + "\ndata: " + strings.Repeat("b", 2000) + "\n\nevent: x\ndata: c\n\n",
		[]sse.Event{{Data: []byte(strings.Repeat("a", 3000) + "\n" + strings.Repeat("b", 2000))}, {Type: "x", Data: []byte("c")}},
	},
}

func TestRead(t *testing.T) {
	t.Parallel()
	for _, tt := range readCases {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check := func(how string, r io.Reader) {
				t.Helper()
				got, err := collect(r, nil)
				if err != nil {
					t.Fatalf("%s: Read: %v", how, err)
				}
				if diff := diffEvents(tt.want, got); diff != "" {
					t.Fatalf("%s: events differ (-want +got):\n%s", how, diff)
				}
			}
			check("whole", strings.NewReader(tt.input))
			check("end with the last bytes", iotest.DataErrReader(strings.NewReader(tt.input)))
			check("byte by byte", iotest.OneByteReader(strings.NewReader(tt.input)))
			for i := range len(tt.input) {
				cut := io.MultiReader(strings.NewReader(tt.input[:i]), strings.NewReader(tt.input[i:]))
				check("cut before "+tt.input[i:min(i+8, len(tt.input))], cut)
			}
		})
	}
}

// TestReadAgreesWithModel keeps the table and the model of the fuzz target from
// drifting apart.
func TestReadAgreesWithModel(t *testing.T) {
	t.Parallel()
	for _, tt := range readCases {
		if diff := diffEvents(tt.want, model(tt.input)); diff != "" {
			t.Errorf("%s: model differs (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestReadDispatchesAtOnce: an event must not wait for the bytes behind it, or
// every token is shown one event late.
func TestReadDispatchesAtOnce(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"\n\n", "\r\r", "\r\n\r", "\r\n\r\n", "\n\r"} {
		reads := 0
		r := readerFunc(func(p []byte) (int, error) {
			reads++
			if reads > 3 {
				return 0, io.EOF
			}
			return copy(p, "data: a"+end), nil
		})
		events := 0
		for event, err := range sse.Read(r, nil) {
			events++
			if err != nil || string(event.Data) != "a" {
				t.Fatalf("end %q: event %d = %q, %v; want \"a\"", end, events, event.Data, err)
			}
			if reads != events {
				t.Errorf("end %q: event %d came after %d reads", end, events, reads)
			}
		}
		if events != 3 {
			t.Errorf("end %q: %d events, want 3", end, events)
		}
	}
}

func TestReadErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	tests := []struct {
		name   string
		reader io.Reader
		want   error
	}{
		{"after the bytes", io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)), broken},
		{"with the bytes", withError("data: a\n\ndata: b", broken), broken},
		{"truncated body", withError("data: a\n\ndata: b\n", io.ErrUnexpectedEOF), io.ErrUnexpectedEOF},
		{"no progress", io.MultiReader(strings.NewReader("data: a\n\n"), stuckReader{}), io.ErrNoProgress},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var events, errs int
			for event, err := range sse.Read(tt.reader, nil) {
				switch {
				case errs > 0:
					t.Fatalf("(%v, %v) follows the error", event, err)
				case err != nil:
					errs++
					// The error is passed on as it is, not only wrapped.
					if err != tt.want {
						t.Errorf("error = %v, want %v", err, tt.want)
					}
					if diff := cmp.Diff(sse.Event{}, event); diff != "" {
						t.Errorf("event beside the error is not zero:\n%s", diff)
					}
				default:
					events++
				}
			}
			if events != 1 || errs != 1 {
				t.Errorf("%d events and %d errors, want 1 and 1", events, errs)
			}
		})
	}
}

func TestReadStopsWhenAsked(t *testing.T) {
	t.Parallel()
	r := io.MultiReader(strings.NewReader("data: a\n\ndata: b\n\n"), iotest.ErrReader(errors.New("read on")))
	n := 0
	for _, err := range sse.Read(r, nil) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

// TestReadDataIsClipped: appending to an event's data must not reach the bytes
// of the next one, which lie behind it in the same buffer.
func TestReadDataIsClipped(t *testing.T) {
	t.Parallel()
	var got []string
	for event, err := range sse.Read(strings.NewReader("data: a\n\ndata: b\n\ndata: c\n\n"), nil) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(event.Data))
		_ = append(event.Data, "XXXXXXXXXXXXXXXX"...)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
		t.Errorf("data differ (-want +got):\n%s", diff)
	}
}

// readerFunc is a reader made of its Read method.
type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// withError returns a reader that returns s and err from the same call.
func withError(s string, err error) io.Reader {
	return readerFunc(func(p []byte) (int, error) { return copy(p, s), err })
}

// stuckReader returns nothing, forever.
type stuckReader struct{}

func (stuckReader) Read([]byte) (int, error) { return 0, nil }
