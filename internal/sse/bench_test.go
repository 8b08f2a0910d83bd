package sse_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/sse"
)

const benchmarkType = "response.output_text.delta"

var (
	benchmarkData  = []byte(`{"type":"` + benchmarkType + `","delta":"` + strings.Repeat("x", 110) + `"}`)
	benchmarkFrame = sse.AppendFrame(nil, benchmarkType, benchmarkData) // 200 bytes
)

// endless is a reader of the same frame over and over.
type endless struct {
	frame  []byte
	unread []byte
}

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if len(e.unread) == 0 {
			e.unread = e.frame
		}
		m := copy(p[n:], e.unread)
		e.unread = e.unread[m:]
		n += m
	}
	return n, nil
}

// BenchmarkRead measures one event per iteration.
func BenchmarkRead(b *testing.B) {
	benchmarks := []struct {
		name  string
		frame []byte
	}{
		{"200B", benchmarkFrame},
		{"200B CRLF", bytes.ReplaceAll(benchmarkFrame, []byte("\n"), []byte("\r\n"))},
		{"200B CR", bytes.ReplaceAll(benchmarkFrame, []byte("\n"), []byte("\r"))},
		{"8 data lines", sse.AppendFrame(nil, "x", bytes.TrimSuffix(bytes.Repeat([]byte("some data\n"), 8), []byte("\n")))},
		{"1MiB", sse.AppendFrame(nil, "x", bytes.Repeat([]byte("x"), 1<<20))},
	}
	for _, bm := range benchmarks {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bm.frame)))
			n := 0
			for _, err := range sse.Read(&endless{frame: bm.frame}, nil) {
				if err != nil {
					b.Fatal(err)
				}
				if n++; n >= b.N {
					break
				}
			}
		})
	}
}

// BenchmarkWriter measures one event per iteration.
func BenchmarkWriter(b *testing.B) {
	b.Run("WriteFrame", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(benchmarkFrame)))
		w := sse.NewWriter(io.Discard, nil)
		for b.Loop() {
			if err := w.WriteFrame(benchmarkType, benchmarkData); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Add", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(benchmarkFrame)))
		w := sse.NewWriter(io.Discard, nil)
		for b.Loop() {
			if err := w.Add(benchmarkType, benchmarkData); err != nil {
				b.Fatal(err)
			}
		}
	})
}
