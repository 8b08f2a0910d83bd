package sse_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/antiphon-dev/antiphon/internal/sse"
)

func TestReadMaxLine(t *testing.T) {
	t.Parallel()
	const limit = 16
	data := func(n int) string { return strings.Repeat("x", n) }
	tests := []struct {
		name  string
		input string
		want  int // events before the end
		err   error
	}{
		{"line at the limit", "data: " + data(10) + "\n\n", 1, nil},
		{"line at the limit, CRLF", "data: " + data(10) + "\r\n\r\n", 1, nil},
		{"line above the limit", "data: a\n\ndata: " + data(11) + "\n\n", 1, sse.ErrLineTooLong},
		{"unfinished line at the limit", "data: a\n\n" + data(16), 1, nil},
		{"unfinished line above the limit", "data: a\n\n" + data(17), 1, sse.ErrLineTooLong},
		{"comment above the limit", ":" + data(16) + "\n\n", 0, sse.ErrLineTooLong},
		{"data at the limit", "data:" + data(5) + "\ndata:" + data(6) + "\ndata\n\n", 1, nil},
		{"data above the limit", "data:" + data(6) + "\ndata:" + data(6) + "\ndata\n\n", 0, sse.ErrLineTooLong},
		{"empty data lines at the limit", strings.Repeat("data\n", 14) + "\n", 1, nil},
		{"empty data lines above the limit", strings.Repeat("data\n", 15) + "\n", 0, sse.ErrLineTooLong},
		{"many short events", strings.Repeat("data:"+data(11)+"\n\n", 50), 50, nil},
		{"many comments in one event", "data: a\n" + strings.Repeat(":"+data(13)+"\n", 50) + "\n", 1, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for how, r := range map[string]io.Reader{
				"whole":                   strings.NewReader(tt.input),
				"byte by byte":            iotest.OneByteReader(strings.NewReader(tt.input)),
				"end with the last bytes": iotest.DataErrReader(strings.NewReader(tt.input)),
			} {
				events, err := collect(r, &sse.ReadOptions{MaxLine: limit})
				if !errors.Is(err, tt.err) || len(events) != tt.want {
					t.Errorf("%s: %d events, error %v; want %d, %v", how, len(events), err, tt.want, tt.err)
				}
			}
		})
	}
}

// TestReadMaxLineBeyondFirstBuffer walks limits around the sizes at which the
// buffer grows: a line at the limit must pass, one byte more must not.
func TestReadMaxLineBeyondFirstBuffer(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{4095, 4096, 4097, 5000, 8191, 8192, 8193, 100_000} {
		line := "data: " + strings.Repeat("x", limit-len("data: "))
		opts := &sse.ReadOptions{MaxLine: limit}
		events, err := collect(strings.NewReader(line+"\r\n\r\n"), opts)
		if err != nil || len(events) != 1 || len(events[0].Data) != limit-len("data: ") {
			t.Errorf("limit %d: line at the limit: %d events, error %v", limit, len(events), err)
		}
		events, err = collect(strings.NewReader(line+"x\n\n"), opts)
		if !errors.Is(err, sse.ErrLineTooLong) || len(events) != 0 {
			t.Errorf("limit %d: line above the limit: %d events, error %v", limit, len(events), err)
		}
	}
}

// TestReadDefaultLimit is not parallel, because it measures what the process
// allocates.
func TestReadDefaultLimit(t *testing.T) {
	tests := []struct {
		name   string
		stream io.Reader
	}{
		{"100 MiB line", io.LimitReader(&endless{frame: []byte("data: x")}, 100<<20)},
		{"100 MiB of data lines", io.LimitReader(&endless{frame: []byte("data: " + strings.Repeat("x", 1000) + "\n")}, 100<<20)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			read := 0
			events, err := collect(readerFunc(func(p []byte) (int, error) {
				n, err := tt.stream.Read(p)
				read += n
				return n, err
			}), nil)
			runtime.ReadMemStats(&after)

			if !errors.Is(err, sse.ErrLineTooLong) || len(events) != 0 {
				t.Fatalf("%d events, error %v; want none, %v", len(events), err, sse.ErrLineTooLong)
			}
			// Every buffer that was ever made counts: doubling sums to twice the last.
			const most = 2*sse.DefaultMaxLine + 1<<20
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > most {
				t.Errorf("allocated %d bytes, want at most %d", allocated, most)
			}
			if read == 100<<20 {
				t.Error("the whole stream was read before it was refused")
			}
		})
	}
}

// TestReadBufferSize watches the room that the reader offers to its source,
// which is the size of the buffer when nothing is pending.
func TestReadBufferSize(t *testing.T) {
	t.Parallel()
	const small, large = 4 << 10, 1 << 20
	stream := io.MultiReader(
		strings.NewReader("data: a\n\n"),
		strings.NewReader("data: "+strings.Repeat("x", large)+"\n\n"),
		strings.NewReader("data: b\n\ndata: unfinished"),
		strings.NewReader("\n\n"),
	)
	var room, most int
	r := readerFunc(func(p []byte) (int, error) {
		room = len(p)
		most = max(most, room)
		return stream.Read(p)
	})
	events := 0
	for _, err := range sse.Read(r, nil) {
		if err != nil {
			t.Fatal(err)
		}
		events++
		if events == 1 && room > small {
			t.Errorf("buffer starts with %d bytes, want at most %d", room, small)
		}
	}
	if events != 4 {
		t.Fatalf("%d events, want 4", events)
	}
	if most > 2*large {
		t.Errorf("room of %d bytes for an event of %d", most, large)
	}
	if room > small {
		t.Errorf("buffer has %d bytes after the large event, want at most %d", room, small)
	}
}

// TestReadShrinksWithPendingData: a stream that pauses inside a middling event
// must not hold the buffer of the large one before it, nor lose any byte.
func TestReadShrinksWithPendingData(t *testing.T) {
	t.Parallel()
	large, pending := strings.Repeat("x", 1<<20), strings.Repeat("y", 3000)
	first := "data: " + large + "\n\nevent: z\ndata: " + pending + "\ndata: " + pending + "\ndata: unfi"
	var room int
	stream := io.MultiReader(strings.NewReader(first), readerFunc(func(p []byte) (int, error) {
		room = len(p)
		return copy(p, "nished\n\n"), io.EOF
	}))
	got, err := collect(stream, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []sse.Event{
		{Data: []byte(large)},
		{Type: "z", Data: []byte(pending + "\n" + pending + "\nunfinished")},
	}
	if diff := diffEvents(want, got); diff != "" {
		t.Errorf("events differ (-want +got):\n%s", diff)
	}
	if room > 16<<10 {
		t.Errorf("%d bytes of room while 6 KB were pending", room)
	}
}

// TestReadShortLinesInLargeBuffer takes minutes instead of moments if the
// search for a line end looks at all that is buffered for each line.
func TestReadShortLinesInLargeBuffer(t *testing.T) {
	t.Parallel()
	input := "data: " + strings.Repeat("x", 4<<20) + "\r\r" + strings.Repeat("\r", 8<<20) + "data: a\r\r"
	events, err := collect(strings.NewReader(input), nil)
	if err != nil || len(events) != 2 {
		t.Errorf("%d events, error %v; want 2, nil", len(events), err)
	}
}

// TestReadAllocations is not parallel, because testing.AllocsPerRun is not.
func TestReadAllocations(t *testing.T) {
	perRun := func(events int) float64 {
		stream := bytes.Repeat(benchmarkFrame, events)
		return testing.AllocsPerRun(10, func() {
			for _, err := range sse.Read(bytes.NewReader(stream), nil) {
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	if few, many := perRun(10), perRun(1000); many > few {
		t.Errorf("1000 events cost %v allocations, 10 events %v; want the same", many, few)
	}
}
