package relay

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"

	"github.com/antiphon-dev/antiphon/responses"
)

// Seen is what was noticed of an answer on its way.
type Seen struct {
	// Last is the terminal event of a stream, "" if there was none.
	Last responses.EventType
	// Usage is what the answer says that it cost, nil if it does not.
	Usage *responses.Usage
	// Frames counts the frames of a stream that have data.
	Frames int64
	// Broken is the first rule of the order of events that a stream broke, nil if
	// it broke none. The types of all events are looked at, and the numbers of
	// those that are no deltas.
	Broken error

	foreign bool
	notice  func(t responses.EventType, data []byte)
	types   typeReader
	order   responses.Order
}

// frame notes what a whole frame of so many lines says.
func (s *Seen) frame(frame []byte, lines int) {
	if s.foreign {
		s.foreignFrame(frame)
		return
	}
	typ, data := s.types.read(frame, lines)
	if data == nil || bytes.Equal(data, done) {
		return
	}
	s.Frames++
	s.event(typ, data)
}

// done is what ends a stream in place of an event.
var done = []byte("[DONE]")

// event notes an event of the API.
func (s *Seen) event(t responses.EventType, data []byte) {
	if s.Broken == nil {
		seq := int64(-1)
		if !isDelta(t) {
			seq = sequenceNumber(data)
		}
		if err := s.order.Check(t, seq); err != nil {
			s.Broken = fmt.Errorf("event %d (%.60q): %w", s.Frames-1, t, err)
		}
	}
	if t.Terminal() && s.Last == "" {
		s.terminal(t, data)
	}
	if s.notice != nil && !isDelta(t) {
		s.notice(t, data)
	}
}

// isDelta reports whether an event is one of the many that carry a text.
func isDelta(t responses.EventType) bool {
	const suffix = ".delta"
	return len(t) > len(suffix) && t[len(t)-len(suffix):] == suffix
}

var errUnfinished = errors.New("the stream ended without a terminal event")

// ended notes that there is no more.
func (s *Seen) ended() {
	if s.Broken == nil && !s.foreign && !s.order.Ended() {
		s.Broken = errUnfinished
	}
}

// lookOnly are for reading a few members of what is not ours to judge.
var lookOnly = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// terminal notes a terminal event, if data is one.
func (s *Seen) terminal(t responses.EventType, data []byte) {
	var ev struct {
		Response struct {
			Usage *responses.Usage `json:"usage"`
		} `json:"response"`
	}
	if json.Unmarshal(data, &ev, lookOnly) == nil {
		s.Last, s.Usage = t, ev.Response.Usage
	}
}

// foreignFrame notes the usage that one of the last chunks of another API has.
func (s *Seen) foreignFrame(frame []byte) {
	if !bytes.Contains(frame, []byte("data")) || bytes.HasSuffix(trimEnds(frame), done) {
		return
	}
	s.Frames++
	if !bytes.Contains(frame, []byte(`_tokens"`)) {
		return
	}
	_, data := study(frame)
	s.cost(data)
}

// cost notes what an answer of another API says that it cost, if it says so in
// numbers.
func (s *Seen) cost(answer []byte) {
	var a struct {
		Usage *responses.Usage `json:"usage"`
	}
	if bytes.Contains(answer, []byte(`_tokens"`)) && json.Unmarshal(answer, &a, lookOnly) == nil && a.Usage != nil {
		s.Usage = translated(a.Usage)
	}
}

// translated gives tokens the names that they have in our API.
func translated(u *responses.Usage) *responses.Usage {
	for name, v := range responses.Members(u.Extra) {
		var n int64
		if json.Unmarshal(v, &n) != nil || n < 0 {
			continue
		}
		switch name {
		case "prompt_tokens":
			u.InputTokens = n
		case "completion_tokens":
			u.OutputTokens = n
		}
	}
	if u.TotalTokens == 0 {
		u.TotalTokens = u.InputTokens + u.OutputTokens
	}
	return u
}

// whole notes what a whole answer says.
func (s *Seen) whole(body []byte) {
	var answer struct {
		Status responses.Status `json:"status"`
		Usage  *responses.Usage `json:"usage"`
	}
	if json.Unmarshal(body, &answer, lookOnly) != nil {
		return
	}
	if answer.Usage != nil {
		s.Usage = translated(answer.Usage)
	}
	switch answer.Status {
	case responses.StatusCompleted:
		s.Last = responses.EventCompleted
	case responses.StatusIncomplete:
		s.Last = responses.EventIncomplete
	case responses.StatusFailed:
		s.Last = responses.EventFailed
	}
}
