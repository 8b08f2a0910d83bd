package upstream

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"maps"
	"slices"

	"github.com/antiphon-dev/antiphon/responses"
)

// NotSent is why a member is lost that the upstream's protocol has no place for.
const NotSent = "The upstream has no such member; it was not sent."

// MaxLosses bounds a report of losses, which a client could otherwise make endless.
const MaxLosses = 64

// Losses collects what an upstream will not honour of one request.
type Losses struct {
	List []responses.Loss

	seen map[string]bool // member names of input items that were reported
}

// Add reports the loss of what stands at param.
func (l *Losses) Add(param, format string, args ...any) {
	switch len(l.List) {
	case MaxLosses:
	case MaxLosses - 1:
		l.List = append(l.List, responses.Loss{Reason: "More was lost than is listed here."})
	default:
		l.List = append(l.List, responses.Loss{Param: param, Reason: fmt.Sprintf(format, args...)})
	}
}

// Members reports each member of extra, which stands at the given place.
func (l *Losses) Members(at string, extra jsontext.Value) {
	for _, name := range slices.Sorted(maps.Keys(Members(extra))) {
		l.Add(at+"."+name, NotSent)
	}
}

// Once reports a member of an input item, the first time that its name occurs: a
// long history repeats the same few.
func (l *Losses) Once(at, name, reason string) {
	if l.seen[name] {
		return
	}
	if l.seen == nil {
		l.seen = map[string]bool{}
	}
	l.seen[name] = true
	l.Add(at+"."+name, "%s", reason)
}

// ItemMembers reports the members of extra, each name once.
func (l *Losses) ItemMembers(at string, extra jsontext.Value) {
	if len(extra) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(Members(extra))) {
		l.Once(at, name, NotSent)
	}
}

// Members returns the members of an object that a decoder accepted, nil for no
// object.
func Members(obj jsontext.Value) map[string]jsontext.Value {
	var m map[string]jsontext.Value
	if len(obj) > 0 && json.Unmarshal(obj, &m) != nil {
		return nil
	}
	return m
}
