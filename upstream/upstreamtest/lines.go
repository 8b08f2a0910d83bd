package upstreamtest

import (
	"bytes"
	"encoding/json/v2"
	"fmt"
	"regexp"

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

// madeUp matches a JSON string that looks like an id with a random tail.
var madeUp = regexp.MustCompile(`"([a-z]+_)[A-Za-z0-9-]{16,}"`)

func (l *Lines) rename(line []byte) string {
	return string(madeUp.ReplaceAllFunc(line, func(quoted []byte) []byte {
		id := string(quoted[1 : len(quoted)-1])
		for _, given := range l.Given {
			if bytes.Contains(given, []byte(id)) {
				return quoted
			}
		}
		if l.renamed == nil {
			l.renamed, l.counts = map[string]string{}, map[string]int{}
		}
		if l.renamed[id] == "" {
			prefix := string(madeUp.FindSubmatch(quoted)[1])
			l.counts[prefix]++
			l.renamed[id] = fmt.Sprintf("%s%d", prefix, l.counts[prefix])
		}
		return []byte(`"` + l.renamed[id] + `"`)
	}))
}
