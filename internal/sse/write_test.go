package sse_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/internal/sse"
)

func TestAppendFrame(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		event string
		data  string
		want  string
	}{
		{"typed", "response.created", `{"a":1}`, "event: response.created\ndata: {\"a\":1}\n\n"},
		{"untyped", "", "[DONE]", "data: [DONE]\n\n"},
		{"no data", "x", "", "event: x\ndata: \n\n"},
		{"leading spaces", " x", " y", "event:  x\ndata:  y\n\n"},
		{"LF", "", "a\nb\n", "data: a\ndata: b\ndata: \n\n"},
		{"CR", "", "a\rb", "data: a\ndata: b\n\n"},
		{"CRLF", "", "a\r\nb\r\n", "data: a\ndata: b\ndata: \n\n"},
		{"LF CR", "", "a\n\rb", "data: a\ndata: \ndata: b\n\n"},
		{"data cannot end the frame", "", "a\n\nevent: forged\r\rdata: b", "data: a\ndata: \ndata: event: forged\ndata: \ndata: data: b\n\n"},
		{"type cannot end the frame", "x\r\n\ndata: forged", "a", "event: xdata: forged\ndata: a\n\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			const before = "data: before\n\n"
			got := string(sse.AppendFrame([]byte(before), tt.event, []byte(tt.data)))
			if diff := cmp.Diff(before+tt.want, got); diff != "" {
				t.Errorf("frame differs (-want +got):\n%s", diff)
			}
		})
	}
}

// recorder is a destination that records each write and flush. It fails from
// the write or flush numbered failWrite or failFlush on, counting from 1.
type recorder struct {
	calls                []string
	writes, flushes      int
	failWrite, failFlush int
	short                bool
}

var errGone = errors.New("client is gone")

func (r *recorder) Write(p []byte) (int, error) {
	r.writes++
	if r.failWrite > 0 && r.writes >= r.failWrite {
		return 0, errGone
	}
	r.calls = append(r.calls, string(p))
	if r.short {
		return len(p) - 1, nil
	}
	return len(p), nil
}

func (r *recorder) flush() error {
	r.flushes++
	if r.failFlush > 0 && r.flushes >= r.failFlush {
		return errGone
	}
	r.calls = append(r.calls, "flush")
	return nil
}

// filler returns data whose frame, without a type, has size bytes.
func filler(size int) []byte {
	return []byte(strings.Repeat("x", size-len("data: \n\n")))
}

// frame returns the frame of data.
func frame(data []byte) string { return string(sse.AppendFrame(nil, "", data)) }

func TestWriter(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		write func(w *sse.Writer) error
		want  []string
	}{
		{
			"frames go out one by one",
			func(w *sse.Writer) error {
				return errors.Join(w.WriteFrame("a", []byte("1")), w.WriteFrame("", []byte("2\n3")))
			},
			[]string{"event: a\ndata: 1\n\n", "flush", "data: 2\ndata: 3\n\n", "flush"},
		},
		{
			"added frames go out together",
			func(w *sse.Writer) error {
				return errors.Join(w.Add("a", []byte("1")), w.Add("b", []byte("2")), w.Flush(), w.Flush())
			},
			[]string{"event: a\ndata: 1\n\nevent: b\ndata: 2\n\n", "flush"},
		},
		{
			"added frames wait",
			func(w *sse.Writer) error { return w.Add("a", []byte("1")) },
			nil,
		},
		{
			"a frame goes behind those added",
			func(w *sse.Writer) error { return errors.Join(w.Add("a", []byte("1")), w.WriteFrame("b", []byte("2"))) },
			[]string{"event: a\ndata: 1\n\nevent: b\ndata: 2\n\n", "flush"},
		},
		{
			"done goes behind those added",
			func(w *sse.Writer) error { return errors.Join(w.Add("a", []byte("1")), w.Done()) },
			[]string{"event: a\ndata: 1\n\ndata: [DONE]\n\n", "flush"},
		},
		{
			"comment",
			func(w *sse.Writer) error { return w.Comment("keep-alive") },
			[]string{": keep-alive\n\n", "flush"},
		},
		{
			"comment of several lines",
			func(w *sse.Writer) error { return w.Comment("a\r\ndata: b") },
			[]string{": a\n: data: b\n\n", "flush"},
		},
		{
			"comment goes behind those added",
			func(w *sse.Writer) error { return errors.Join(w.Add("a", []byte("1")), w.Comment("x")) },
			[]string{"event: a\ndata: 1\n\n: x\n\n", "flush"},
		},
		{
			"frames that fill a batch together",
			func(w *sse.Writer) error {
				return errors.Join(w.Add("", filler(1000)), w.Add("", filler(sse.BatchBytes-1000)))
			},
			[]string{frame(filler(1000)) + frame(filler(sse.BatchBytes-1000)), "flush"},
		},
		{
			"frames that do not fit together",
			func(w *sse.Writer) error {
				return errors.Join(w.Add("", filler(1000)), w.Add("", filler(sse.BatchBytes-999)), w.Flush())
			},
			[]string{frame(filler(1000)), "flush", frame(filler(sse.BatchBytes - 999)), "flush"},
		},
		{
			"a frame that fills a batch does not wait",
			func(w *sse.Writer) error { return w.Add("", filler(sse.BatchBytes)) },
			[]string{frame(filler(sse.BatchBytes)), "flush"},
		},
		{
			"a comment that does not fit",
			func(w *sse.Writer) error { return errors.Join(w.Add("", filler(sse.BatchBytes-1)), w.Comment("x")) },
			[]string{frame(filler(sse.BatchBytes - 1)), "flush", ": x\n\n", "flush"},
		},
		{
			"nothing to flush",
			func(w *sse.Writer) error { return w.Flush() },
			nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var dst recorder
			if err := tt.write(sse.NewWriter(&dst, dst.flush)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, dst.calls); diff != "" {
				t.Errorf("calls differ (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWriterBatches adds frames of many sizes and checks that every write is
// made of whole frames and is within the limit unless it is one frame.
func TestWriterBatches(t *testing.T) {
	t.Parallel()
	sizes := []int{
		10, 100, 1000, 3000, 3000, 500, 64,
		sse.BatchBytes, sse.BatchBytes + 1, sse.BatchBytes - 1,
		10, 100_000, 10, 5000, 5000, 200,
	}
	for range 100 {
		sizes = append(sizes, 200)
	}
	var dst recorder
	w := sse.NewWriter(&dst, dst.flush)
	var all strings.Builder
	for _, size := range sizes {
		data := filler(size)
		all.WriteString(frame(data))
		if err := w.Add("", data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}

	var sent strings.Builder
	for i, call := range dst.calls {
		if i%2 == 1 {
			if call != "flush" {
				t.Fatalf("call %d is not a flush", i)
			}
			continue
		}
		sent.WriteString(call)
		if !strings.HasPrefix(call, "data: ") || !strings.HasSuffix(call, "\n\n") {
			t.Errorf("write %d is not made of whole frames", i/2)
		}
		if frames := strings.Count(call, "\n\n"); len(call) > sse.BatchBytes && frames > 1 {
			t.Errorf("write %d has %d bytes in %d frames", i/2, len(call), frames)
		}
	}
	if sent.String() != all.String() {
		t.Error("what was sent is not what was added")
	}
	// 16 frames of odd sizes, then 200 bytes each, 17 to a batch.
	if dst.writes > 22 {
		t.Errorf("%d writes for %d frames", dst.writes, len(sizes))
	}
}

func TestWriterErrorSticks(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		dst  recorder
		want error
	}{
		{"write fails", recorder{failWrite: 2}, errGone},
		{"flush fails", recorder{failFlush: 2}, errGone},
		{"short write", recorder{short: true}, io.ErrShortWrite},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dst := tt.dst
			w := sse.NewWriter(&dst, dst.flush)
			first, second := w.WriteFrame("", []byte("1")), w.WriteFrame("", []byte("2"))
			if !tt.dst.short && first != nil {
				t.Fatalf("first frame: %v", first)
			}
			if second != tt.want {
				t.Fatalf("second frame: error %v, want %v", second, tt.want)
			}
			writes, flushes := dst.writes, dst.flushes
			for name, err := range map[string]error{
				"WriteFrame": w.WriteFrame("", []byte("3")),
				"Add":        w.Add("", []byte(strings.Repeat("x", 2*sse.BatchBytes))),
				"Flush":      w.Flush(),
				"Comment":    w.Comment("x"),
				"Done":       w.Done(),
			} {
				if err != tt.want {
					t.Errorf("%s after the error: %v, want %v", name, err, tt.want)
				}
			}
			if dst.writes != writes || dst.flushes != flushes {
				t.Errorf("%d writes and %d flushes after the error", dst.writes-writes, dst.flushes-flushes)
			}
		})
	}
}

func TestWriterWithoutFlush(t *testing.T) {
	t.Parallel()
	var dst recorder
	if err := sse.NewWriter(&dst, nil).Done(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"data: [DONE]\n\n"}, dst.calls); diff != "" {
		t.Errorf("calls differ (-want +got):\n%s", diff)
	}
}

// TestWriterBufferSize looks at the memory behind what is written.
func TestWriterBufferSize(t *testing.T) {
	t.Parallel()
	var size int
	w := sse.NewWriter(writerFunc(func(p []byte) (int, error) {
		size = cap(p)
		return len(p), nil
	}), nil)
	for _, write := range []func() error{
		func() error { return w.WriteFrame("", make([]byte, 1<<20)) },
		func() error { return errors.Join(w.Add("", []byte("a")), w.WriteFrame("", make([]byte, 1<<20))) },
		func() error { return w.Comment(strings.Repeat("x", 1<<20)) },
	} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
		if err := w.WriteFrame("", []byte("small")); err != nil {
			t.Fatal(err)
		}
		if size > 4<<10 {
			t.Errorf("buffer has %d bytes after a large frame, want at most 4 KiB", size)
		}
	}
}

// TestWriterAllocations is not parallel, because testing.AllocsPerRun is not.
func TestWriterAllocations(t *testing.T) {
	w := sse.NewWriter(io.Discard, nil)
	if n := testing.AllocsPerRun(100, func() { w.WriteFrame("x", benchmarkData) }); n > 0 {
		t.Errorf("WriteFrame: %v allocations, want 0", n)
	}
	// Growing once is one allocation, but two under the race detector.
	var frame []byte
	once := testing.AllocsPerRun(100, func() { frame = slices.Grow([]byte(nil), len(benchmarkFrame)) })
	if n := testing.AllocsPerRun(100, func() { frame = sse.AppendFrame(nil, "x", benchmarkData) }); n > once {
		t.Errorf("AppendFrame of %d bytes: %v allocations, want those of growing once, %v", len(frame), n, once)
	}
}

// writerFunc is a writer made of its Write method.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// countingConn counts the writes to a connection, each of which is a system call.
type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

type countingListener struct {
	net.Listener
	writes *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return countingConn{conn, l.writes}, err
}

// TestWriterBatchIsOneSystemCall proves what BatchBytes was chosen for, so that
// a change of buffers in net/http does not pass unnoticed.
func TestWriterBatchIsOneSystemCall(t *testing.T) {
	t.Parallel()
	var writes atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rc := http.NewResponseController(rw)
		if err := rc.Flush(); err != nil { // The header is none of the batch's.
			t.Error(err)
		}
		w := sse.NewWriter(rw, rc.Flush)
		for _, size := range []int{10, 1000, sse.BatchBytes} {
			before := writes.Load()
			if err := w.WriteFrame("", filler(size)); err != nil {
				t.Error(err)
			}
			if n := writes.Load() - before; n != 1 {
				t.Errorf("frame of %d bytes took %d writes to the connection, want 1", size, n)
			}
		}
	}))
	srv.Listener = countingListener{srv.Listener, &writes}
	srv.Start()
	defer srv.Close()

	res, err := srv.Client().Get(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	events, err := collect(res.Body, nil)
	if err != nil || len(events) != 3 {
		t.Errorf("%d events, error %v; want 3, nil", len(events), err)
	}
}
