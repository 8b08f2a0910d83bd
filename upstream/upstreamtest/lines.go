package upstreamtest

import (
	"bytes"
	"encoding/json/v2"
	"fmt"
	"slices"

	"github.com/antiphon-dev/antiphon/responses"
)

// endLine is how the end of a turn is spelled in a golden.
type endLine struct {
	Type   responses.EventType `json:"type"`
	Status responses.Status    `json:"status"`
	Reason string              `json:"reason"`
	Usage  *responses.Usage    `json:"usage"`
	Losses []responses.Loss    `json:"losses"`
}

// errorLine is how the failure of a turn is spelled in a golden.
type errorLine struct {
	Type    responses.EventType `json:"type"`
	Code    responses.Code      `json:"code"`
	Param   *string             `json:"param"`
	Message string              `json:"message"`
}

// Lines renders the events of one turn, each as one line of JSON. Sequence
// numbers are 0, because drivers give none. Ids that the driver made up become
// msg_1, msg_2, fc_1 and so on in the order of their appearance.
//
// The zero value is ready to use, for one turn and one goroutine.
type Lines struct {
	// Given is where ids may come from: the upstream's answer and the request.
	// An id that occurs there is no invention and stays as it is.
	Given [][]byte

	renamed map[string]string
	counts  map[string]int
}

// Event renders an event.
func (l *Lines) Event(ev responses.Event) (string, error) {
	if ev.Type == responses.EventTurnEnd {
		if ev.End == nil {
			return "", fmt.Errorf("the turn's end has no payload")
		}
		return l.line(&endLine{ev.Type, ev.End.Status, ev.End.Reason, ev.End.Usage, ev.End.Losses})
	}
	ev.Seq = 0
	line, err := responses.AppendEvent(nil, &ev)
	if err != nil {
		return "", err
	}
	return l.rename(line), nil
}

// Error renders the failure with which a turn ended or was refused.
func (l *Lines) Error(err error) (string, error) {
	body := responses.AsError(err).Body()
	return l.line(&errorLine{responses.EventError, body.Code, body.Param, body.Message})
}

func (l *Lines) line(v any) (string, error) {
	line, err := json.Marshal(v)
	return l.rename(line), err
}

// rename replaces the ids in a line that nobody gave.
func (l *Lines) rename(line []byte) string {
	out := make([]byte, 0, len(line))
	for {
		// Every quote is tried as the beginning of a string. Some are its end,
		// but what is between two strings does not look like an id.
		start := bytes.IndexByte(line, '"') + 1
		end := bytes.IndexByte(line[start:], '"')
		if start == 0 || end < 0 {
			return string(append(out, line...))
		}
		out = append(out, line[:start]...)
		out = append(out, l.name(line[start:start+end])...)
		line = line[start+end:]
	}
}

// name returns what the id s is called in a golden, and s itself if it is not an
// id or was given.
func (l *Lines) name(s []byte) []byte {
	prefix := madeUpPrefix(s)
	given := func(in []byte) bool { return bytes.Contains(in, s) }
	if prefix == "" || slices.ContainsFunc(l.Given, given) {
		return s
	}
	if l.renamed == nil {
		l.renamed, l.counts = map[string]string{}, map[string]int{}
	}
	name, ok := l.renamed[string(s)]
	if !ok {
		l.counts[prefix]++
		name = fmt.Sprintf("%s%d", prefix, l.counts[prefix])
		l.renamed[string(s)] = name
	}
	return []byte(name)
}

// madeUpPrefix returns the prefix of s if s looks like an id with a random tail:
// lower-case letters, an underscore, and at least 16 letters and digits.
func madeUpPrefix(s []byte) string {
	i := bytes.IndexByte(s, '_')
	if i < 1 || len(s)-i-1 < 16 {
		return ""
	}
	for _, c := range s[:i] {
		if c < 'a' || c > 'z' {
			return ""
		}
	}
	for _, c := range s[i+1:] {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-') {
			return ""
		}
	}
	return string(s[:i+1])
}
