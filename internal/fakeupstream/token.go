package fakeupstream

import (
	"bytes"
	"iter"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// maxCount bounds "count to N".
const maxCount = 10_000_000

// pieceSize is how many bytes of a call's arguments make a token.
const pieceSize = 8

// tokens yields an answer token by token, each valid until the next. Joined,
// they are the text; there is always at least one, if only an empty one. It may
// be ranged over again.
type tokens = iter.Seq[[]byte]

// words splits text before each run of white space. White space at the end
// stays with the last word.
func words(text string) tokens {
	return func(yield func([]byte) bool) {
		all := []byte(text)
		last := len(bytes.TrimRightFunc(all, unicode.IsSpace))
		for start := 0; ; {
			end := start + wordLen(all[start:last])
			if end == last {
				yield(all[start:])
				return
			}
			if !yield(all[start:end]) {
				return
			}
			start = end
		}
	}
}

// wordLen returns the length of the first word of text with the white space
// before it.
func wordLen(text []byte) int {
	start := bytes.IndexFunc(text, func(r rune) bool { return !unicode.IsSpace(r) })
	if start < 0 {
		return len(text)
	}
	n := bytes.IndexFunc(text[start:], unicode.IsSpace)
	if n < 0 {
		return len(text)
	}
	return start + n
}

// numbers counts from 1 to n without holding the text.
func numbers(n int) tokens {
	return func(yield func([]byte) bool) {
		buf := []byte("1")
		for i := 1; i <= n && yield(buf); i++ {
			buf = strconv.AppendInt(append(buf[:0], ' '), int64(i+1), 10)
		}
	}
}

// whole is a text in one token.
func whole(text []byte) tokens {
	return func(yield func([]byte) bool) { yield(text) }
}

// pieces splits a call's arguments into at least two tokens, between runes.
func pieces(arguments []byte) tokens {
	size := min(pieceSize, (len(arguments)+1)/2)
	return func(yield func([]byte) bool) {
		for rest := arguments; len(rest) > 0; {
			n := min(size, len(rest))
			for n < len(rest) && !utf8.RuneStart(rest[n]) {
				n++
			}
			if !yield(rest[:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}
