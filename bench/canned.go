package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// The kinds of answers that can be replayed. A client asks for one as the name
// of the model, which everything in the middle passes on.
const (
	playBurst = "burst" // n text deltas, some twenty of them in each write of 4 KiB
	playToken = "token" // n text deltas, each in a write of its own
	playPaced = "paced" // n text deltas, one at every tick
	playLine  = "line"  // one delta of n MiB in one line
	playHold  = "hold"  // a delta now and then, until released
	playWhole = "whole" // an answer of n bytes that is not streamed; Responses only
)

// A script is an answer to be replayed.
type script struct {
	kind string
	n    int
}

// String is the model name that stands for the script.
func (s script) String() string { return s.kind + "-" + strconv.Itoa(s.n) }

// parseScript reads what String wrote.
func parseScript(model string) (script, error) {
	kind, count, _ := strings.Cut(model, "-")
	n, err := strconv.Atoi(count)
	switch {
	case err != nil || n < 0:
		return script{}, fmt.Errorf("model %q has no number", model)
	case !slices.Contains([]string{playBurst, playToken, playPaced, playLine, playHold, playWhole}, kind):
		return script{}, fmt.Errorf("model %q is no script", model)
	}
	return script{kind, n}, nil
}

const (
	// burstBytes is how much of an answer is written at once where it comes in
	// bursts.
	burstBytes = 4 << 10
	// lineBytes is how much of a very long line is written at once.
	lineBytes = 64 << 10
	// cannedToken is the text of every delta: some seven bytes, as a token is.
	cannedToken = " tokens"
)

// A canned answer is a Chat Completions stream that is rendered in advance, in
// the pieces in which it is to be written. It is safe for concurrent use.
type canned struct {
	head   []byte
	piece  []byte
	pieces int // how often piece is written
	rest   []byte
	tail   []byte
}

// render returns the answer of a script.
func render(s script) *canned {
	switch s.kind {
	case playLine:
		return renderLine(s.n)
	case playBurst:
		return renderDeltas(s.n, burstBytes/len(textChunk(cannedToken)))
	default:
		return renderDeltas(s.n, 1)
	}
}

// renderDeltas returns an answer of n text deltas.
func renderDeltas(n, atOnce int) *canned {
	delta := textChunk(cannedToken)
	return &canned{
		head:   []byte(chunk(`{"role":"assistant","content":""}`, `null`)),
		piece:  []byte(strings.Repeat(delta, atOnce)),
		pieces: n / atOnce,
		rest:   []byte(strings.Repeat(delta, n%atOnce)),
		tail:   endChunks(n),
	}
}

// renderLine returns an answer whose text is in one line of some MiB.
func renderLine(mib int) *canned {
	before, after, _ := strings.Cut(textChunk("\x00"), "\x00")
	return &canned{
		head:   []byte(chunk(`{"role":"assistant","content":""}`, `null`) + before),
		piece:  []byte(strings.Repeat("x", lineBytes)),
		pieces: mib << 20 / lineBytes,
		rest:   []byte(after),
		tail:   endChunks(1),
	}
}

// at returns piece i, counted from zero; nil after the last one.
func (c *canned) at(i int) []byte {
	switch i -= 1; {
	case i < 0:
		return c.head
	case i < c.pieces:
		return c.piece
	case i == c.pieces:
		return c.rest
	case i == c.pieces+1:
		return c.tail
	}
	return nil
}

// last is the index of the last piece.
func (c *canned) last() int { return c.pieces + 2 }

func textChunk(text string) string { return chunk(`{"content":"`+text+`"}`, `null`) }

// chunk frames one chunk with the members that servers usually send.
func chunk(delta, finish string) string {
	return `data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1750000000,"model":"bench",` +
		`"choices":[{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":` + finish + `}]}` + "\n\n"
}

// extraChunks is how many chunks of a stream are no text delta: the role, the
// finish reason and the usage.
const extraChunks = 3

func endChunks(n int) []byte {
	return []byte(chunk(`{}`, `"stop"`) +
		fmt.Sprintf(`data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1750000000,"model":"bench","choices":[],`+
			`"usage":{"prompt_tokens":1,"completion_tokens":%d,"total_tokens":%d}}`, n, n+1) +
		"\n\ndata: [DONE]\n\n")
}

// cannedReader reads a canned answer, at most one piece in each call, as a
// connection does whose peer writes that way.
type cannedReader struct {
	*canned
	index  int
	offset int
}

func (r *cannedReader) Read(p []byte) (int, error) {
	for r.index <= r.last() {
		piece := r.at(r.index)[r.offset:]
		if len(piece) == 0 {
			r.index, r.offset = r.index+1, 0
			continue
		}
		n := copy(p, piece)
		r.offset += n
		return n, nil
	}
	return 0, io.EOF
}

func (r *cannedReader) Close() error { return nil }
