package responses

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"slices"
	"strings"
	"time"
)

// A Composer makes the events of one turn from what a model said, for drivers
// whose upstream does not speak in Responses events. The driver reports text,
// reasoning and calls as they come; the composer opens and closes items and
// parts around them, gives them ids and indexes, and fills every member that
// clients rely on. What it makes is legal by [Grammar] whatever the order of the
// calls; after [Composer.End] it makes nothing more.
//
// It is for one goroutine. Take the events after each call.
type Composer struct {
	newID func(prefix string) string
	out   []Event
	items int // items added so far
	text  *composedText
	calls []*ComposedCall // those that are open
	ended bool
	// encrypt makes the encrypted_content of reasoning; nil for none.
	encrypt func(text string) string
	// For upstreams that know items; see Name and Finish.
	named    string
	taken    map[string]bool // ids in use
	complete func(Item)
}

// NewComposer returns a composer whose items get ids in the given shard.
func NewComposer(shard uint16, now func() time.Time) *Composer {
	return &Composer{newID: func(prefix string) string { return NewID(prefix, shard, now()) }}
}

// Take returns the events made since the last Take. They are valid until the
// next call of any method.
func (c *Composer) Take() []Event {
	out := c.out
	c.out = c.out[:0]
	return out
}

// emit adds an event, unless the turn has ended: what comes late is dropped.
func (c *Composer) emit(ev Event) {
	if !c.ended {
		c.out = append(c.out, ev)
	}
}

// composedText is the open message or reasoning item.
type composedText struct {
	id    string
	index int
	typ   string // TypeMessage or TypeReasoning
	parts []Part // those that are done
	// The open part; partType is "" if there is none.
	partType string
	text     []byte
	logprobs []LogProb
	notes    []jsontext.Value // its annotations
}

// partEvents are the event types of a kind of part.
var partEvents = map[string]struct{ added, delta, textDone, partDone EventType }{
	TypeOutputText:  {EventPartAdded, EventTextDelta, EventTextDone, EventPartDone},
	TypeRefusal:     {EventPartAdded, EventRefusalDelta, EventRefusalDone, EventPartDone},
	TypeSummaryText: {EventSummaryPartAdded, EventSummaryDelta, EventSummaryDone, EventSummaryPartDone},
}

// Text adds to the answer's text.
func (c *Composer) Text(s string, logprobs []LogProb) {
	logprobs = withTopLogprobs(logprobs)
	c.delta(TypeMessage, TypeOutputText, s, logprobs)
	if c.text != nil {
		c.text.logprobs = append(c.text.logprobs, logprobs...)
	}
}

// withTopLogprobs returns list with a top_logprobs member in every element, as
// readers require, also where the upstream has none to tell.
func withTopLogprobs(list []LogProb) []LogProb {
	if !slices.ContainsFunc(list, func(p LogProb) bool { return p.TopLogprobs == nil }) {
		return list
	}
	list = slices.Clone(list)
	for i := range list {
		if list[i].TopLogprobs == nil {
			list[i].TopLogprobs = []LogProb{}
		}
	}
	return list
}

// Refusal adds to the text of a refusal.
func (c *Composer) Refusal(s string) { c.delta(TypeMessage, TypeRefusal, s, nil) }

// Reasoning adds to what the model thought. It is shown as a summary, the one
// form of reasoning that every client reads.
func (c *Composer) Reasoning(s string) { c.delta(TypeReasoning, TypeSummaryText, s, nil) }

// EncryptReasoning sets what makes the encrypted_content of reasoning items out of
// their text: what the driver wants to get back, in a form that clients cannot
// read or change.
func (c *Composer) EncryptReasoning(encrypt func(text string) string) { c.encrypt = encrypt }

// Annotate attaches an annotation to the text.
func (c *Composer) Annotate(annotation jsontext.Value) {
	c.openPart(TypeMessage, TypeOutputText)
	t := c.text
	note := struct {
		Type       EventType      `json:"type"`
		ItemID     string         `json:"item_id"`
		Output     int            `json:"output_index"`
		Content    int            `json:"content_index"`
		Index      int            `json:"annotation_index"`
		Annotation jsontext.Value `json:"annotation"`
	}{EventAnnotationAdded, t.id, t.index, len(t.parts), len(t.notes), annotation}
	raw, err := json.Marshal(&note)
	if err != nil {
		return // annotation came from a decoder, so it is JSON
	}
	t.notes = append(t.notes, annotation)
	c.emit(Event{Type: EventAnnotationAdded, OutputIndex: t.index, ItemID: t.id, Index: len(t.parts), Raw: raw})
}

func (c *Composer) delta(itemType, partType, s string, logprobs []LogProb) {
	if s == "" && len(logprobs) == 0 {
		return
	}
	s = validText(s)
	c.openPart(itemType, partType)
	t := c.text
	t.text = append(t.text, s...)
	c.emit(Event{
		Type: partEvents[partType].delta, OutputIndex: t.index, ItemID: t.id, Index: len(t.parts), Text: s, Logprobs: logprobs,
	})
}

// validText replaces what is not UTF-8, which JSON cannot carry. It is done piece
// by piece, so that the deltas say the same as the whole.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// openPart makes sure that a part of the given kind is open in an item of the
// given kind, closing what is in the way.
func (c *Composer) openPart(itemType, partType string) {
	if c.text != nil && c.text.typ != itemType {
		c.closeText(StatusCompleted)
	}
	if c.text == nil {
		c.openText(itemType)
	}
	t := c.text
	if t.partType == partType {
		return
	}
	c.closePart()
	t.partType = partType
	c.emit(Event{
		Type: partEvents[partType].added, OutputIndex: t.index, ItemID: t.id, Index: len(t.parts), Part: t.part(),
	})
}

func (c *Composer) openText(itemType string) {
	c.text = &composedText{id: c.itemID(itemType), index: c.items, typ: itemType}
	c.items++
	c.emit(Event{Type: EventItemAdded, OutputIndex: c.text.index, Item: c.text.item(StatusInProgress)})
}

// part returns the open part as it is now.
func (t *composedText) part() Part {
	switch t.partType {
	case TypeRefusal:
		return &Refusal{Refusal: string(t.text)}
	case TypeSummaryText:
		return &SummaryText{Text: string(t.text)}
	default:
		return &OutputText{Text: string(t.text), Logprobs: t.logprobs, Annotations: t.notes}
	}
}

// item returns the item with the parts that are done.
func (t *composedText) item(status Status) Item {
	if t.typ == TypeReasoning {
		return &Reasoning{ID: t.id, Summary: t.parts, Status: status}
	}
	return &Message{ID: t.id, Role: RoleAssistant, Status: status, Content: Content{Parts: t.parts}}
}

func (c *Composer) closePart() {
	t := c.text
	if t.partType == "" {
		return
	}
	types, part := partEvents[t.partType], t.part()
	at := Event{OutputIndex: t.index, ItemID: t.id, Index: len(t.parts)}
	done, partDone := at, at
	done.Type, done.Text, done.Logprobs = types.textDone, TextOf([]Part{part}), t.logprobs
	partDone.Type, partDone.Part = types.partDone, part
	c.emit(done)
	c.emit(partDone)
	t.parts = append(t.parts, part)
	t.partType, t.text, t.logprobs, t.notes = "", nil, nil, nil
}

func (c *Composer) closeText(status Status) {
	if c.text == nil {
		return
	}
	c.closePart()
	item := c.text.item(status)
	if r, ok := item.(*Reasoning); ok && c.encrypt != nil {
		r.EncryptedContent = c.encrypt(TextOf(r.Summary))
	}
	if c.complete != nil {
		c.complete(item)
	}
	c.emit(Event{Type: EventItemDone, OutputIndex: c.text.index, Item: item})
	c.text = nil
}

// End closes everything that is open and ends the turn. Where the turn is
// incomplete, so is the item it stopped in, if that is the last one. A turn in
// which the model said nothing has one empty message: clients read the first.
func (c *Composer) End(end *TurnEnd) {
	if c.items == 0 {
		c.openPart(TypeMessage, TypeOutputText)
	}
	statusOf := func(index int) Status {
		if end.Status == StatusIncomplete && index == c.items-1 {
			return StatusIncomplete
		}
		return StatusCompleted
	}
	// Items may be open side by side; the text, if open, is the last of them.
	for _, k := range c.calls {
		k.close(statusOf(k.index))
	}
	c.calls = nil
	if c.text != nil {
		c.closeText(statusOf(c.text.index))
	}
	c.emit(Event{Type: EventTurnEnd, End: end})
	c.ended = true
}
