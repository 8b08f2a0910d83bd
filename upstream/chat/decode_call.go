package chat

import (
	"slices"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// maxCalls bounds the calls of one answer.
const maxCalls = 128

var errNameless = responses.UpstreamErrorf(responses.CodeUpstream, "The upstream called a tool without naming it.")

// A call is a tool call of the answer.
//
// It begins on our side only with its first argument, or when anything else
// follows it: until then its name may still be coming in pieces.
type call struct {
	index    int // the server's number for it, -1 if it gave none
	id, name string
	item     *responses.ComposedCall // nil until it begins
	lastByte byte                    // of the arguments so far, 0 if there are none
}

// numberCalls gives the calls of a whole message their places as indexes.
func numberCalls(calls []callDelta) {
	for i := range calls {
		calls[i].Index = &i
	}
}

// call takes a piece of a tool call.
func (d *decoder) call(delta *callDelta) error {
	if delta.ID == "" && delta.Function == (functionDelta{}) {
		return nil
	}
	d.spoke, d.inCall = true, true
	k := d.find(delta)
	if k == nil || k.endsBefore(delta) {
		if len(d.calls) == maxCalls {
			return responses.UpstreamErrorf(responses.CodeUpstream, "The upstream made more than %d tool calls in one answer.", maxCalls)
		}
		k = &call{index: -1}
		if delta.Index != nil {
			k.index = *delta.Index
		}
		d.calls = append(d.calls, k)
	}
	return d.extend(k, delta)
}

// find returns the call that the delta speaks of by number, by id, or by having
// nothing that could begin another one; nil if there is none.
func (d *decoder) find(delta *callDelta) *call {
	for _, k := range slices.Backward(d.calls) {
		switch {
		case delta.Index != nil && k.index == *delta.Index,
			delta.Index == nil && delta.ID != "" && k.id == delta.ID:
			return k
		}
	}
	anonymous := delta.ID == "" && (delta.Index == nil || delta.Function.Name == "")
	if anonymous && len(d.calls) > 0 {
		return d.calls[len(d.calls)-1]
	}
	return nil
}

// endsBefore reports whether the delta begins another call although it points
// at k. Servers that do not number their calls, or number all of them 0, tell
// them apart by id and name only; others repeat id and name in every piece.
func (k *call) endsBefore(delta *callDelta) bool {
	name, args := delta.Function.Name, delta.Function.Arguments
	switch {
	case name == "":
		return false
	case delta.ID != "" && k.id != "" && delta.ID != k.id:
		return true
	case k.item == nil:
		// Without a number, another name is another call. With one, it is
		// another piece of the name.
		return delta.Index == nil && k.name != "" && name != k.name
	case name != k.name:
		return true
	default:
		// One JSON object after another is two calls of the same tool.
		return delta.ID == "" && k.lastByte == '}' && strings.HasPrefix(string(args), "{")
	}
}

// extend adds the delta to k.
func (d *decoder) extend(k *call, delta *callDelta) error {
	if k.id == "" {
		k.id = delta.ID
	}
	if k.item == nil {
		k.addName(delta.Function.Name)
	}
	args := string(delta.Function.Arguments)
	if args == "" {
		return nil
	}
	if k.name == "" {
		return errNameless
	}
	k.lastByte = args[len(args)-1]
	if trimmed := strings.TrimRight(args, " \t\r\n"); trimmed != "" {
		k.lastByte = trimmed[len(trimmed)-1]
	}
	d.beginCalls()
	k.item.Arguments(args)
	return nil
}

// addName takes a name that comes whole, whole again, growing, or in pieces.
func (k *call) addName(name string) {
	switch {
	case strings.HasPrefix(name, k.name):
		k.name = name
	case name != "":
		k.name += name
	}
}

// beginCalls begins the calls that have been waiting for the rest of their
// names. Something that follows them has come, so they have them.
func (d *decoder) beginCalls() {
	for _, k := range d.calls {
		if k.item != nil || k.name == "" {
			continue
		}
		id := k.id
		if d.idTaken(k) {
			id = "" // the client could not say which of the two it answers
		}
		k.item = d.out.Call(id, d.box.Callee(k.name), upstream.UnwrapInput)
	}
}

// idTaken reports whether an earlier call has the id of k.
func (d *decoder) idTaken(k *call) bool {
	for _, other := range d.calls {
		if other == k {
			return false
		}
		if other.id == k.id {
			return true
		}
	}
	return false
}

// finishCalls begins what is still waiting. A call without arguments gets the
// empty object: clients parse what they are given. If the answer was cut, the
// last call stays as far as it got.
func (d *decoder) finishCalls(cut bool) error {
	d.beginCalls()
	for i, k := range d.calls {
		switch {
		case cut && i == len(d.calls)-1:
		case k.item == nil:
			return errNameless
		case k.item.Len() == 0 && d.box.Callee(k.name).Kind != responses.TypeCustomToolCall:
			k.item.Arguments("{}")
		}
	}
	return nil
}
