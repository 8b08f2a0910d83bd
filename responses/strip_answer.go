package responses

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"reflect"
	"slices"
)

// An AnswerStripper takes out of the events of one turn what the published API does
// not have: members, items and parts of other kinds with all of their events, and
// events of other kinds. Indexes close up over what is gone. What that was is in
// the turn's end. The zero value is ready to use, for one goroutine.
type AnswerStripper struct {
	strip stripper
	items gaps
	parts map[partPlace]*gaps
}

// partPlace is a list of parts of an item.
type partPlace struct {
	item  int
	index string // content_index or summary_index
}

// gaps are the indexes of what is gone from a list, in order.
type gaps []int

func (g *gaps) add(i int) {
	if at, there := slices.BinarySearch(*g, i); !there {
		*g = slices.Insert(*g, at, i)
	}
}

// close returns what the index i becomes, and false if it is gone itself.
func (g *gaps) close(i int) (int, bool) {
	if g == nil {
		return i, true
	}
	before, gone := slices.BinarySearch(*g, i)
	return i - before, !gone
}

// Strip strips an event, whose payloads it does not change but replaces. It returns
// false if nothing is left of it.
func (a *AnswerStripper) Strip(ev *Event) bool {
	if ev.Type == EventTurnEnd {
		ev.End = a.end(ev.End)
		return true
	}
	sh, ours := shapes[ev.Type]
	_, known := publishedEvents[ev.Type]
	if !ours && !known {
		a.strip.Note(string(ev.Type), "unknown event")
		return false
	}
	item := ev.OutputIndex
	if sh.class == classItemAdded {
		if reason := strangeness(ev.Item); reason != "" {
			a.strip.Note(fmt.Sprintf("output[%d]", item), reason)
			a.items.add(item)
		}
	}
	index, kept := a.items.close(item)
	if !kept {
		return false
	}
	ev.OutputIndex = index
	return a.part(ev, sh, partPlace{item, sh.index}) && a.payload(ev, sh)
}

// part finds the place of an event among the parts that are left of its item.
func (a *AnswerStripper) part(ev *Event, sh shape, place partPlace) bool {
	if sh.index == "" {
		return true
	}
	if reason := strangeness(ev.Part); reason != "" {
		a.strip.Note(fmt.Sprintf("output[%d].content[%d]", place.item, ev.Index), reason)
		if a.parts == nil {
			a.parts = map[partPlace]*gaps{}
		}
		if a.parts[place] == nil {
			a.parts[place] = new(gaps)
		}
		a.parts[place].add(ev.Index)
	}
	index, kept := a.parts[place].close(ev.Index)
	if kept && index != ev.Index {
		a.splice(ev, Member{Name: sh.index, Value: appendInt(nil, "", index)})
	}
	ev.Index = index
	return kept
}

// payload strips what the event carries, and the event itself.
func (a *AnswerStripper) payload(ev *Event, sh shape) bool {
	ev.Item, _ = stripped(&a.strip, fmt.Sprintf("output[%d]", ev.OutputIndex), ev.Item)
	var changed bool
	if ev.Part, changed = stripped(&a.strip, "part", ev.Part); changed {
		a.spliceValue(ev, "part", ev.Part)
	}
	if ev.Logprobs, changed = stripped(&a.strip, "logprobs", ev.Logprobs); changed {
		a.spliceValue(ev, "logprobs", ev.Logprobs)
	}
	if ev.Raw == nil {
		return true
	}
	if ev.Type == EventAnnotationAdded && !a.annotation(ev) {
		return false
	}
	more := publishedEvents[ev.Type]
	ev.Raw = a.strip.members(string(ev.Type), ev.Raw, func(name string) bool {
		return sh.has(name) || slices.Contains(more, name)
	})
	return true
}

// annotation strips the annotation that an event adds.
func (a *AnswerStripper) annotation(ev *Event) bool {
	text := &OutputText{Annotations: []jsontext.Value{member(ev.Raw, "annotation")}}
	text, changed := stripped(&a.strip, string(ev.Type), text)
	if len(text.Annotations) == 0 {
		return false
	}
	if changed {
		a.splice(ev, Member{Name: "annotation", Value: text.Annotations[0]})
	}
	return true
}

// eventMembers are what every event may have. Obfuscation is padding.
var eventMembers = []string{"type", "sequence_number", "output_index", "item_id", "obfuscation"}

// has reports whether events of the shape have the member.
func (sh shape) has(name string) bool {
	switch name {
	case sh.index, sh.text:
		return true
	case "logprobs":
		return sh.logprobs
	case "item":
		return sh.class == classItemAdded || sh.class == classItemDone
	case "part":
		return sh.class == classPartAdded || sh.class == classPartDone
	}
	return slices.Contains(eventMembers, name)
}

// Usage returns what a turn cost that failed, without what is not published.
func (a *AnswerStripper) Usage(u *Usage) *Usage {
	clean, _ := stripped(&a.strip, "usage", u)
	return clean
}

// end strips how a turn ended, and says what was stripped of it all.
func (a *AnswerStripper) end(end *TurnEnd) *TurnEnd {
	clean := *end
	clean.Usage = a.Usage(end.Usage)
	clean.Upstream, _ = stripped(&a.strip, "response", end.Upstream)
	clean.Stripped = append(slices.Clip(end.Stripped), a.strip.Losses()...)
	return &clean
}

// splice puts a member into the event as it came, if it did.
func (a *AnswerStripper) splice(ev *Event, m Member) {
	if ev.Raw == nil {
		return
	}
	if raw, err := SetMembers(ev.Raw, m); err == nil { // it came from the decoder, so it is an object
		ev.Raw = raw
	}
}

func (a *AnswerStripper) spliceValue(ev *Event, name string, v any) {
	if b, err := json.Marshal(v); err == nil {
		a.splice(ev, Member{Name: name, Value: b})
	}
}

// stripped returns v, or a copy without what is not published and true. v itself
// may belong to somebody else and is only looked at.
func stripped[T any](s *stripper, at string, v T) (T, bool) {
	look := stripper{looking: true}
	look.value(at, reflect.ValueOf(&v))
	if len(look.found) == 0 {
		return v, false
	}
	for _, l := range look.found {
		s.Note(l.Param, l.Reason)
	}
	s.more += look.more
	var clean T
	raw, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(raw, &clean, decodeOptions)
	}
	if err != nil {
		var none T
		return none, true // it was decoded from the wire, so it can be again
	}
	new(stripper).value(at, reflect.ValueOf(&clean))
	return clean, true
}
