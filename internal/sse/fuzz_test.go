package sse_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/antiphon-dev/antiphon/internal/sse"
)

// lineEnds makes every line break a LF, as joining data lines does.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// model is the standard's algorithm, written for plainness: no limits, no
// streaming, one step after the other.
func model(stream string) []sse.Event {
	var (
		events []sse.Event
		now    sse.Event
		data   string
	)
	lines := strings.Split(lineEnds.Replace(strings.TrimPrefix(stream, "\uFEFF")), "\n")
	for _, line := range lines[:len(lines)-1] {
		if line == "" {
			if data != "" {
				now.Data = []byte(strings.TrimSuffix(data, "\n"))
				events = append(events, now)
			}
			data, now.Type, now.Data = "", "", nil
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "data":
			data += value + "\n"
		case "event":
			now.Type = value
		case "id":
			if !strings.Contains(value, "\x00") {
				now.ID = value
			}
		case "retry":
			if value != "" && strings.Trim(value, "0123456789") == "" {
				now.Retry = modelRetry(value)
			}
		}
	}
	return events
}

// modelRetry converts digits to milliseconds.
func modelRetry(digits string) time.Duration {
	if digits = strings.TrimLeft(digits, "0"); digits == "" {
		return 0
	}
	d, err := time.ParseDuration(digits + "ms")
	if err != nil {
		d = 1<<63 - 1
	}
	return d.Truncate(time.Millisecond)
}

// FuzzRead compares Read with the model, and with itself when the bytes arrive
// in other portions: the limit, too, must not depend on them.
func FuzzRead(f *testing.F) {
	for _, tt := range readCases {
		f.Add([]byte(tt.input), uint16(0))
		f.Add([]byte(tt.input), uint16(24))
	}
	f.Fuzz(func(t *testing.T, stream []byte, maxLine uint16) {
		opts := &sse.ReadOptions{MaxLine: int(maxLine)}
		want, wantErr := collect(bytes.NewReader(stream), opts)
		if wantErr != nil && !errors.Is(wantErr, sse.ErrLineTooLong) {
			t.Fatalf("Read: %v", wantErr)
		}
		full := model(string(stream))
		if wantErr != nil {
			full = full[:min(len(want), len(full))]
		}
		if diff := diffEvents(full, want); diff != "" {
			t.Fatalf("events differ from the model (-want +got):\n%s", diff)
		}
		for how, r := range map[string]io.Reader{
			"byte by byte":            iotest.OneByteReader(bytes.NewReader(stream)),
			"halves":                  iotest.HalfReader(bytes.NewReader(stream)),
			"end with the last bytes": iotest.DataErrReader(bytes.NewReader(stream)),
		} {
			got, err := collect(r, opts)
			if diff := diffEvents(want, got); diff != "" || !errors.Is(err, wantErr) {
				t.Fatalf("%s: error %v, want %v; events differ (-want +got):\n%s", how, err, wantErr, diff)
			}
		}
	})
}

// roundTrip frames events and reads them back.
func roundTrip(events []sse.Event) ([]sse.Event, error) {
	var stream []byte
	for _, event := range events {
		stream = sse.AppendFrame(stream, event.Type, event.Data)
	}
	return collect(bytes.NewReader(stream), nil)
}

// framed returns what becomes of an event when it is framed: line breaks of the
// type are lost, those of the data become LF.
func framed(event sse.Event) sse.Event {
	return sse.Event{
		Type: strings.NewReplacer("\r", "", "\n", "").Replace(event.Type),
		Data: []byte(lineEnds.Replace(string(event.Data))),
	}
}

// FuzzRoundTrip: whatever the contents of two frames are, two events come back
// and nothing of one leaks into the other.
func FuzzRoundTrip(f *testing.F) {
	f.Add("", []byte(""), "", []byte("[DONE]"))
	f.Add("response.created", []byte(`{"a":1}`), "x", []byte("a\nb"))
	f.Add("x\n\ndata: forged", []byte("a\r\n\r\nevent: forged\n\n"), " ", []byte(" \x00\uFEFF\r"))
	f.Fuzz(func(t *testing.T, type1 string, data1 []byte, type2 string, data2 []byte) {
		events := []sse.Event{{Type: type1, Data: data1}, {Type: type2, Data: data2}}
		got, err := roundTrip(events)
		if err != nil {
			t.Fatalf("Read: %v", err)
		}
		if diff := diffEvents([]sse.Event{framed(events[0]), framed(events[1])}, got); diff != "" {
			t.Fatalf("events differ (-want +got):\n%s", diff)
		}
	})
}

// TestRoundTrip: events without CR, and types without line breaks, come back
// exactly as they were, also through a Writer that batches them.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	event := rapid.Custom(func(t *rapid.T) sse.Event {
		return sse.Event{
			Type: rapid.StringMatching(`[a-z._ :]{0,30}`).Draw(t, "type"),
			Data: []byte(rapid.StringOfN(rapid.RuneFrom([]rune("a: \n{\"ü\x00\uFEFF")), 0, 1500, -1).Draw(t, "data")),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(event, 0, 20).Draw(t, "events")
		got, err := roundTrip(want)
		if err != nil {
			t.Fatalf("Read: %v", err)
		}
		if diff := diffEvents(want, got); diff != "" {
			t.Fatalf("framed: events differ (-want +got):\n%s", diff)
		}

		var dst bytes.Buffer
		w := sse.NewWriter(&dst, nil)
		for _, e := range want {
			if err := w.Add(e.Type, e.Data); err != nil {
				t.Fatalf("Add: %v", err)
			}
			if rapid.Bool().Draw(t, "comment") {
				if err := w.Comment("keep-alive"); err != nil {
					t.Fatalf("Comment: %v", err)
				}
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatalf("Flush: %v", err)
		}
		got, err = collect(&dst, nil)
		if err != nil {
			t.Fatalf("Read: %v", err)
		}
		if diff := diffEvents(want, got); diff != "" {
			t.Fatalf("written: events differ (-want +got):\n%s", diff)
		}
	})
}
