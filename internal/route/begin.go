package route

import (
	"bytes"
	"encoding/json/jsontext"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// How a relayed answer begins decides whether its client gets it: until then another
// target may do better.

// maxPeeked bounds what is read of an answer to see how it begins.
const maxPeeked = 64 << 10

// refusal returns the failure that an answer is, if another target could do
// better. Otherwise the answer can be read from its beginning.
func (t *target) refusal(resp *http.Response, client http.Header) (failure error) {
	var begin []byte
	switch {
	case resp.StatusCode >= http.StatusBadRequest:
		begin, _ = io.ReadAll(io.LimitReader(resp.Body, maxPeeked)) // what came of it is enough
		failed := upstream.AnswerFailure(resp, client, begin)
		if another, _ := t.blame(failed); another {
			failure = failed
		}
	case upstream.Streams(resp):
		begin, failure = peek(resp.Body)
	default:
		begin, failure = firstPiece(resp.Body)
	}
	if failure != nil {
		resp.Body.Close()
		return failure
	}
	if begin != nil {
		resp.Body = &rejoined{io.MultiReader(bytes.NewReader(begin), resp.Body), resp.Body}
	}
	return nil
}

// firstPiece reads the beginning of an answer that is no stream. It fails if there is
// none.
func firstPiece(body io.Reader) ([]byte, error) {
	buf := make([]byte, 512)
	for {
		n, err := body.Read(buf)
		switch {
		case n > 0 || err == io.EOF:
			return buf[:n], nil
		case err != nil:
			return nil, brokenOff(err)
		}
	}
}

// brokenOff is the failure of an answer that ended before it had begun.
func brokenOff(err error) error {
	if _, ok := errors.AsType[*responses.Error](err); ok {
		return err // it says why
	}
	return responses.UpstreamErrorf(responses.CodeUpstream, "The upstream's answer broke off before it had begun.").WithCause(err)
}

// rejoined is a body that was read from, with what was read in front again.
type rejoined struct {
	io.Reader
	io.Closer
}

// peek reads an event stream up to the first event that is not about the life of
// the response. It fails if that is a failure, or if there is none.
func peek(body io.Reader) ([]byte, error) {
	var got []byte
	buf := make([]byte, 4<<10)
	for len(got) < maxPeeked {
		n, err := body.Read(buf)
		got = append(got, buf[:n]...)
		switch verdict := firstWords(string(got)); {
		case verdict == wordsFailed:
			return nil, responses.UpstreamErrorf(responses.CodeUpstream, "The upstream failed before it had said anything.")
		case verdict == wordsBegun:
			return got, nil
		case err != nil:
			return nil, brokenOff(err)
		}
	}
	return got, nil
}

type words int

const (
	wordsNone words = iota
	wordsBegun
	wordsFailed
)

// firstWords looks at the whole frames of a stream's beginning.
func firstWords(stream string) words {
	stream = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(stream)
	for {
		frame, rest, whole := strings.Cut(stream, "\n\n")
		if !whole {
			return wordsNone
		}
		stream = rest
		if w := wordsOf(frame); w != wordsNone {
			return w
		}
	}
}

// wordsOf says what a frame begins. Events of some APIs have no type: any but an
// error is then the answer itself.
func wordsOf(frame string) words {
	var data []string
	for line := range strings.SplitSeq(frame, "\n") {
		if d, ok := strings.CutPrefix(line, "data:"); ok {
			data = append(data, d)
		}
	}
	if data == nil {
		return wordsNone // a comment
	}
	w := wordsBegun
	for name, v := range responses.Members(jsontext.Value(strings.Join(data, "\n"))) {
		switch {
		case name == "type" && v.Kind() == '"':
			switch responses.EventType(strings.Trim(string(v), `"`)) {
			case responses.EventCreated, responses.EventInProgress, responses.EventQueued:
				return wordsNone
			case responses.EventError, responses.EventFailed:
				return wordsFailed
			}
			return wordsBegun
		case name == "error" && v.Kind() != 'n':
			w = wordsFailed
		}
	}
	return w
}
