package responses

import (
	"errors"
	"fmt"
	"hash/maphash"
)

// A Grammar checks a stream of events, one at a time, against the order that
// clients rely on:
//
//	created → (queued) → in_progress → items … → one terminal event
//	item:    output_item.added → content … → output_item.done
//	content: part.added → delta … → text.done → part.done
//	call:    arguments.delta … → arguments.done, without parts
//	         a call that the server runs: progress before, between and after
//
// Indexes count from zero without gaps, the response and its items keep their
// ids, done events carry what was said before, an incomplete item is the last
// one. Several items may be open at once. Sequence numbers count from zero
// without gaps. Text may come without deltas, whole in a done event.
//
// It needs memory for open items only, never for text. It is for one goroutine.
type Grammar struct {
	turn     bool // events of one turn: no lifecycle, no numbers, ends with EventTurnEnd
	state    grammarState
	next     int64  // sequence number of the next event
	response string // id of the response
	items    int    // how many were added
	open     map[int]*openItem
	// incomplete is set once an item ended so: no other may be added.
	incomplete bool
	seed       maphash.Seed
}

type grammarState uint8

const (
	grammarStart   grammarState = iota
	grammarCreated              // created was seen
	grammarQueued               // queued was seen
	grammarRunning              // in_progress was seen, or the turn began
	grammarErrored              // an error event was seen: only failed may follow
	grammarEnded
)

// What is wrong by the type of an event alone.
var (
	errAfterEnd   = errors.New("after the terminal event")
	errNotRunning = errors.New("an item event before response.in_progress or after an error")
	errNotHere    = errors.New("not legal here")
)

// after is the state after a lifecycle event, if that may come now.
func (s grammarState) after(t EventType) (_ grammarState, legal bool) {
	switch t {
	case EventCreated:
		return grammarCreated, s == grammarStart
	case EventQueued:
		return grammarQueued, s == grammarCreated
	case EventInProgress:
		return grammarRunning, s == grammarCreated || s == grammarQueued
	case EventFailed:
		return grammarEnded, s != grammarStart
	default: // completed, incomplete
		return grammarEnded, s == grammarRunning
	}
}

// fail is what an error event does.
func (s *grammarState) fail() error {
	if *s == grammarStart || *s == grammarErrored {
		return errNotHere
	}
	*s = grammarErrored
	return nil
}

// openItem is an item between added and done.
type openItem struct {
	id, typ string
	parts   map[string]*partList // by index member
	part    *openPart            // the part that is open, or the item's own text
}

// partList is what is known of an item's content or summary.
type partList struct {
	added int
	text  maphash.Hash // of the parts that are done
}

// openPart is a text between its first event and its done events.
type openPart struct {
	index  string // content_index, summary_index, or "" for the item's own text
	at     int
	typ    string
	text   maphash.Hash // of what was said so far, to compare with the done events
	deltas bool
	done   bool // the text's done event was seen
}

// NewGrammar returns a grammar for a whole response.
func NewGrammar() *Grammar { return &Grammar{seed: maphash.MakeSeed()} }

// NewTurnGrammar returns a grammar for the events of one turn of a driver: item
// events, then one [EventTurnEnd].
func NewTurnGrammar() *Grammar {
	return &Grammar{turn: true, state: grammarRunning, seed: maphash.MakeSeed()}
}

// CheckSequence checks a whole response, which must have ended.
func CheckSequence(events []Event) error {
	g := NewGrammar()
	for i := range events {
		if err := g.Check(&events[i]); err != nil {
			return fmt.Errorf("event %d (%s): %w", i, events[i].Type, err)
		}
	}
	if !g.Ended() {
		return fmt.Errorf("after %d events: no terminal event", len(events))
	}
	return nil
}

// Ended reports whether the terminal event was seen.
func (g *Grammar) Ended() bool { return g.state == grammarEnded }

// Check says why ev may not come next; nil if it may. After an error the
// grammar must not be used further.
func (g *Grammar) Check(ev *Event) error {
	if g.state == grammarEnded {
		return errAfterEnd
	}
	if !g.turn {
		if ev.Seq != g.next {
			return fmt.Errorf("sequence_number is %d, not %d", ev.Seq, g.next)
		}
		g.next++
	}
	sh := shapes[ev.Type]
	switch sh.class {
	case classLifecycle:
		return g.lifecycle(ev)
	case classTurnEnd:
		return g.turnEnd(ev)
	case classError:
		return g.errorEvent()
	}
	if g.state != grammarRunning {
		return errNotRunning
	}
	switch sh.class {
	case classItemAdded:
		return g.itemAdded(ev)
	case classOther:
		return nil
	}
	if g.turn && (sh.item == TypeMCPCall || sh.item == TypeMCPListTools) {
		return nil // what an upstream runs by itself, it tells in its own way
	}
	it := g.open[ev.OutputIndex]
	switch {
	case it == nil && ev.OutputIndex < g.items:
		return fmt.Errorf("item %d is already done", ev.OutputIndex)
	case it == nil:
		return fmt.Errorf("item %d was not added", ev.OutputIndex)
	case sh.class == classItemDone:
		return g.itemDone(it, ev)
	case ev.ItemID != it.id:
		return fmt.Errorf("item_id is %q, but item %d is %q", ev.ItemID, ev.OutputIndex, it.id)
	}
	return g.content(it, sh, ev)
}

func (g *Grammar) lifecycle(ev *Event) error {
	if g.turn {
		return fmt.Errorf("a lifecycle event within a turn")
	}
	next, legal := g.state.after(ev.Type)
	switch {
	case ev.Response == nil:
		return fmt.Errorf("no response in it")
	case g.state != grammarStart && ev.Response.ID != g.response:
		return fmt.Errorf("the response's id is %q, but it was created as %q", ev.Response.ID, g.response)
	case !legal:
		return errNotHere
	}
	g.state, g.response = next, ev.Response.ID
	switch {
	case next != grammarEnded:
		return nil
	case ev.Type == EventFailed:
		return g.failed(ev)
	default:
		return g.finished(ev)
	}
}

func (g *Grammar) failed(ev *Event) error {
	if ev.Response.Status != StatusFailed || ev.Response.Error == nil {
		return fmt.Errorf("the response's status is %q and its error is %v", ev.Response.Status, ev.Response.Error)
	}
	return nil
}

func (g *Grammar) finished(ev *Event) error {
	want := StatusCompleted
	if ev.Type == EventIncomplete {
		want = StatusIncomplete
		if ev.Response.IncompleteDetails == nil {
			return fmt.Errorf("incomplete without incomplete_details")
		}
	}
	switch {
	case ev.Response.Status != want:
		return fmt.Errorf("the response's status is %q, not %q", ev.Response.Status, want)
	case len(g.open) > 0:
		return fmt.Errorf("%d items are still open", len(g.open))
	case g.incomplete && ev.Type != EventIncomplete:
		return fmt.Errorf("an item is incomplete, but the response is not")
	case len(ev.Response.Output) != g.items:
		return fmt.Errorf("the response has %d items, but %d were streamed", len(ev.Response.Output), g.items)
	}
	return nil
}

func (g *Grammar) turnEnd(ev *Event) error {
	switch {
	case !g.turn:
		return fmt.Errorf("a turn's end in a response")
	case ev.End == nil:
		return fmt.Errorf("no payload")
	case ev.End.Status != StatusCompleted && ev.End.Status != StatusIncomplete:
		return fmt.Errorf("a turn cannot end %q", ev.End.Status)
	case len(g.open) > 0:
		return fmt.Errorf("%d items are still open", len(g.open))
	case g.incomplete && ev.End.Status != StatusIncomplete:
		return fmt.Errorf("an item is incomplete, but the turn is not")
	}
	g.state = grammarEnded
	return nil
}

func (g *Grammar) errorEvent() error {
	if g.turn {
		return errNotHere
	}
	return g.state.fail()
}

func (g *Grammar) itemAdded(ev *Event) error {
	switch {
	case ev.Item == nil:
		return fmt.Errorf("no item in it")
	case ev.Item.ItemID() == "":
		return fmt.Errorf("the item has no id")
	case ev.OutputIndex != g.items:
		return fmt.Errorf("output_index is %d, not %d", ev.OutputIndex, g.items)
	case g.incomplete:
		return fmt.Errorf("an item after an incomplete one")
	}
	g.items++
	if g.open == nil {
		g.open = map[int]*openItem{}
	}
	g.open[ev.OutputIndex] = &openItem{id: ev.Item.ItemID(), typ: ev.Item.Type()}
	return nil
}

func (g *Grammar) itemDone(it *openItem, ev *Event) error {
	switch {
	case ev.Item == nil:
		return fmt.Errorf("no item in it")
	case ev.Item.ItemID() != it.id:
		return fmt.Errorf("the item's id is %q, but it was added as %q", ev.Item.ItemID(), it.id)
	case ev.Item.Type() != it.typ:
		return fmt.Errorf("the item's type is %q, but it was added as %q", ev.Item.Type(), it.typ)
	case it.part != nil && it.part.index != "":
		return fmt.Errorf("its part %d is still open", it.part.at)
	case it.part != nil && !it.part.done:
		return fmt.Errorf("its text has no done event")
	}
	if ItemStatus(ev.Item) == StatusIncomplete {
		if ev.OutputIndex != g.items-1 {
			return fmt.Errorf("it is incomplete, but not the last item")
		}
		g.incomplete = true
	}
	delete(g.open, ev.OutputIndex)
	return g.saidAs(it, ev.Item)
}

// saidAs compares the item with what its events said, where they said it.
func (g *Grammar) saidAs(open *openItem, done Item) error {
	inParts := func(index string, parts []Part) bool {
		list := open.parts[index]
		return list == nil || g.sameText(&list.text, TextOf(parts))
	}
	inCall := func(text string) bool {
		return open.part == nil || g.sameText(&open.part.text, text)
	}
	same := true
	switch it := done.(type) {
	case *Message:
		same = inParts("content_index", it.Content.Parts)
	case *Reasoning:
		same = inParts("content_index", it.Content) && inParts("summary_index", it.Summary)
	case *FunctionCall:
		same = inCall(it.Arguments)
	case *CustomToolCall:
		same = inCall(it.Input)
	case *MCPCall:
		same = inCall(it.Arguments)
	}
	if !same {
		return fmt.Errorf("its text is not what the events before said")
	}
	return nil
}

func (g *Grammar) sameText(said *maphash.Hash, text string) bool {
	return said.Sum64() == maphash.String(g.seed, text)
}

// content checks an event within an item.
func (g *Grammar) content(it *openItem, sh shape, ev *Event) error {
	switch sh.class {
	case classPartAdded:
		return g.partAdded(it, sh, ev)
	case classPartDone:
		return g.partDone(it, sh, ev)
	}
	if sh.item != "" {
		if it.typ != sh.item {
			return fmt.Errorf("it belongs to a %s, but item %d is a %s", sh.item, ev.OutputIndex, it.typ)
		}
		if sh.class == classProgress {
			return nil
		}
		if it.part == nil { // the item's own text begins with its first event
			it.part = g.newPart(sh.index, 0, "")
		}
	}
	p := it.part
	if p == nil || p.index != sh.index || p.at != ev.Index || p.typ != sh.part {
		return fmt.Errorf("no open part for it at %d", ev.Index)
	}
	if p.done {
		return fmt.Errorf("after the text's done event")
	}
	switch sh.class {
	case classDelta:
		p.deltas = true
		p.text.WriteString(ev.Text)
	case classTextDone:
		p.done = true
		// Deltas may be missing altogether, but not in part.
		if !p.deltas {
			p.text.WriteString(ev.Text)
		} else if !g.sameText(&p.text, ev.Text) {
			return fmt.Errorf("the text is not what the deltas said")
		}
	}
	return nil
}

func (g *Grammar) newPart(index string, at int, typ string) *openPart {
	p := &openPart{index: index, at: at, typ: typ}
	p.text.SetSeed(g.seed)
	return p
}

func (g *Grammar) partAdded(it *openItem, sh shape, ev *Event) error {
	list := it.parts[sh.index]
	if list == nil {
		list = new(partList)
		list.text.SetSeed(g.seed)
	}
	switch {
	case ev.Part == nil:
		return fmt.Errorf("no part in it")
	case it.typ == TypeFunctionCall || it.typ == TypeCustomToolCall || it.typ == TypeMCPCall:
		return fmt.Errorf("item %d is a %s, which has no parts", ev.OutputIndex, it.typ)
	case it.part != nil:
		return fmt.Errorf("part %d is still open", it.part.at)
	case ev.Index != list.added:
		return fmt.Errorf("%s is %d, not %d", sh.index, ev.Index, list.added)
	}
	if it.parts == nil {
		it.parts = map[string]*partList{}
	}
	it.parts[sh.index] = list
	list.added++
	it.part = g.newPart(sh.index, ev.Index, ev.Part.Type())
	return nil
}

func (g *Grammar) partDone(it *openItem, sh shape, ev *Event) error {
	p := it.part
	switch {
	case ev.Part == nil:
		return fmt.Errorf("no part in it")
	case p == nil || p.index != sh.index || p.at != ev.Index:
		return fmt.Errorf("no open part at %d", ev.Index)
	case p.typ != ev.Part.Type():
		return fmt.Errorf("the part's type is %q, but it was added as %q", ev.Part.Type(), p.typ)
	case p.deltas && !p.done:
		return fmt.Errorf("the part's text has no done event")
	}
	text := TextOf([]Part{ev.Part})
	if p.done && !g.sameText(&p.text, text) {
		return fmt.Errorf("the part's text is not what the events before said")
	}
	it.parts[sh.index].text.WriteString(text)
	it.part = nil
	return nil
}
