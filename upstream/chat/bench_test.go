package chat

import "testing"

// textChunk is a chunk as vLLM sends it for every token.
const textChunk = `{"id":"chatcmpl-8f3a","object":"chat.completion.chunk","created":1763164800,"model":"m",` +
	`"choices":[{"index":0,"delta":{"content":" token","reasoning_content":null},"logprobs":null,"finish_reason":null}],"usage":null}`

// maxDeltaAllocs is what a text delta may cost in the decoder. One is the text
// itself.
const maxDeltaAllocs = 3

// TestDeltaAllocations is not parallel: allocations are counted for the whole
// process.
func TestDeltaAllocations(t *testing.T) {
	d, data := newTestDecoder(), []byte(textChunk)
	got := testing.AllocsPerRun(1000, func() {
		if err := d.Push(data); err != nil {
			t.Fatal(err)
		}
		if n := len(d.out.Take()); n == 0 {
			t.Fatal("no event")
		}
	})
	if got > maxDeltaAllocs {
		t.Errorf("a text delta costs %v allocations, want at most %d", got, maxDeltaAllocs)
	}
}

func BenchmarkDelta(b *testing.B) {
	d, data := newTestDecoder(), []byte(textChunk)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Push(data); err != nil {
			b.Fatal(err)
		}
		d.out.Take()
	}
}
