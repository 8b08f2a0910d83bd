package main

import (
	"bytes"
	"encoding/json/v2"
	"io"
	"strings"
	"testing"
)

func TestParseScript(t *testing.T) {
	t.Parallel()
	for _, want := range []script{{playBurst, 20_000}, {playToken, 0}, {playPaced, 3}, {playLine, 24}, {playHold, 1}} {
		if got, err := parseScript(want.String()); err != nil || got != want {
			t.Errorf("parseScript(%q): got %v, %v", want, got, err)
		}
	}
	for _, name := range []string{"", "burst", "burst-", "burst-x", "burst--1", "tiny-2"} {
		if got, err := parseScript(name); err == nil {
			t.Errorf("parseScript(%q): got %v, want an error", name, got)
		}
	}
}

func TestCannedAnswer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		script script
		text   string
	}{
		{"bursts", script{playBurst, 107}, strings.Repeat(cannedToken, 107)},
		{"tokens", script{playToken, 5}, strings.Repeat(cannedToken, 5)},
		{"no token", script{playToken, 0}, ""},
		{"line", script{playLine, 1}, strings.Repeat("x", 1<<20)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			stream, err := io.ReadAll(&cannedReader{canned: render(tt.script)})
			if err != nil {
				t.Fatal(err)
			}
			if got := textOf(t, stream); got != tt.text {
				t.Errorf("text: got %d bytes, want %d of them", len(got), len(tt.text))
			}
			var seen tally
			seen.Write(stream)
			if want := strings.Count(tt.text, cannedToken); tt.script.kind != playLine && chatProtocol.deltas(&seen) != want || !seen.done {
				t.Errorf("tally: got %d deltas, done %t; want %d and the end", chatProtocol.deltas(&seen), seen.done, want)
			}
		})
	}
}

// textOf parses a Chat Completions stream the slow way.
func textOf(t *testing.T, stream []byte) string {
	t.Helper()
	var text strings.Builder
	for frame := range bytes.SplitSeq(bytes.TrimSuffix(stream, []byte("data: [DONE]\n\n")), []byte("\n\n")) {
		if len(frame) == 0 {
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content string `json:"content"`
				} `json:"delta"`
			} `json:"choices"`
		}
		if err := json.Unmarshal(bytes.TrimPrefix(frame, dataField), &chunk); err != nil {
			t.Fatalf("frame %.100q: %v", frame, err)
		}
		for _, c := range chunk.Choices {
			text.WriteString(c.Delta.Content)
		}
	}
	return text.String()
}

// TestPieces: what is called a burst is one write of at most 4 KiB, and a token
// is one write.
func TestPieces(t *testing.T) {
	t.Parallel()
	burst, token := render(script{playBurst, 1000}), render(script{playToken, 1000})
	if n := len(burst.piece); n > burstBytes || n < burstBytes*3/4 {
		t.Errorf("a burst has %d bytes, want about %d", n, burstBytes)
	}
	if got, want := string(token.piece), textChunk(cannedToken); got != want || token.pieces != 1000 {
		t.Errorf("tokens: got %d pieces %q, want 1000 of %q", token.pieces, got, want)
	}
	for i, c := range []*canned{burst, token} {
		if c.at(c.last()) == nil || c.at(c.last()+1) != nil {
			t.Errorf("answer %d: last is not the last piece", i)
		}
	}
}

func TestTally(t *testing.T) {
	t.Parallel()
	const stream = "event: response.created\ndata: {}\n\n" +
		"event: response.output_text.delta\ndata: {\"delta\":\"a\"}\n\n" +
		": keepalive\n\n" +
		"event: response.output_text.delta\ndata: {\"delta\":\"b\"}\n\n" +
		"event: response.output_text.delta.x\ndata: {}\n\n" +
		"event: response.completed\ndata: {}\n\ndata: [DONE]\n\n"
	for _, size := range []int{1, 2, 3, 7, 33, len(stream)} {
		var got tally
		for rest := stream; rest != ""; rest = rest[min(size, len(rest)):] {
			got.Write([]byte(rest[:min(size, len(rest))]))
		}
		if got.deltas != 2 || got.frames != 5 || got.last != "response.completed" || !got.done {
			t.Errorf("in writes of %d bytes: got %+v", size, got)
		}
	}
}

// TestTallyHoldsLittle: a line of any length costs the client nothing, and the
// beginning is not found again inside it.
func TestTallyHoldsLittle(t *testing.T) {
	t.Parallel()
	var got tally
	got.Write([]byte("data: "))
	for range 1000 {
		got.Write([]byte("event: response.failed data: [DONE] "))
	}
	if len(got.begun) != linePrefix {
		t.Errorf("an unfinished line: %d bytes are held, want %d", len(got.begun), linePrefix)
	}
	got.Write([]byte("\n\n"))
	if got.frames != 1 || got.last != "" || got.done {
		t.Errorf("got %+v, want one frame and nothing else", got)
	}
}
