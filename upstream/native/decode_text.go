package native

import (
	"encoding/json/v2"

	"github.com/antiphon-dev/antiphon/responses"
)

// part is a part of an item, or the item's own text, while it is streamed.
type part struct {
	kind    *textKind
	at      int            // its index
	key     partKey        // where the upstream has it
	asAdded responses.Part // nil for an item's own text
	text    []byte         // what the deltas said
	full    string         // the same, once the text is done
	deltas  bool
	done    bool // the text's done event was emitted
}

// partKey is a place where an upstream has a part.
type partKey struct {
	index string // the member
	at    int
}

// delta adds to a text.
func (d *decoder) delta(k *textKind, in *incoming) error {
	it, err := d.itemFor(k, in)
	if err != nil {
		return err
	}
	p, err := d.partFor(it, k, in.Index)
	switch {
	case err != nil:
		return err
	case p == nil || p.done:
		if in.Text == "" {
			return nil
		}
		return lost("there is more text for something that was done")
	}
	p.text = append(p.text, in.Text...)
	if it.hidden {
		return nil
	}
	p.deltas = true
	return d.passText(in, it, p)
}

// itemFor returns the item that an event within an item is about. One that was
// not added is made up; a call stays hidden until it is known of what.
func (d *decoder) itemFor(k *textKind, in *incoming) (*item, error) {
	if it := d.find(in); it != nil {
		return it, nil
	}
	it, err := d.newItem(in)
	if err != nil {
		return nil, err
	}
	it.typ = k.item
	switch k.item {
	case responses.TypeMessage:
		err = d.show(it, &responses.Message{ID: it.upstreamID, Role: responses.RoleAssistant}, nil)
	case responses.TypeReasoning:
		err = d.show(it, &responses.Reasoning{ID: it.upstreamID}, nil)
	default:
		it.hidden = true
	}
	return it, err
}

// partFor returns the part of the kind that the upstream has at the index, and
// opens it if it is new. It returns nil if it is done.
func (d *decoder) partFor(it *item, k *textKind, at int) (*part, error) {
	p, key := it.part, partKey{k.index, at}
	if k.own() {
		key.at = 0 // whatever the event says of parts: there are none
	}
	switch {
	case it.done:
		return nil, nil
	case p != nil && p.key == key && *p.kind == *k:
		return p, nil
	case !it.takes(k):
		return nil, lost("a %s has the text of a %s", it.typ, k.item)
	case k.own():
		it.part = &part{kind: k, key: key}
		return it.part, nil
	case it.seen[key]:
		return nil, nil
	}
	if err := d.openPart(it, k, key, k.newPart("")); err != nil {
		return nil, err
	}
	p = it.part
	d.emit(responses.Event{Type: k.partAdded, OutputIndex: it.index, ItemID: it.id, Index: p.at, Part: p.asAdded})
	return p, nil
}

// takes reports whether the item may have a text of the kind: calls have their
// own, all others have parts.
func (it *item) takes(k *textKind) bool {
	if k.own() {
		return it.typ == k.item
	}
	return it.typ != responses.TypeFunctionCall && it.typ != responses.TypeCustomToolCall
}

// openPart begins a part, after the one that is open.
func (d *decoder) openPart(it *item, k *textKind, key partKey, as responses.Part) error {
	d.closePart(it)
	if len(it.closed["content_index"])+len(it.closed["summary_index"]) >= maxParts {
		return lost("one item has more than %d parts", maxParts)
	}
	it.part = &part{kind: k, at: len(it.closed[k.index]), key: key, asAdded: as}
	return nil
}

// passText emits an event about a part.
func (d *decoder) passText(in *incoming, it *item, p *part, set ...responses.Member) error {
	sent := in.head.ContentIndex
	if p.kind.index == "summary_index" {
		sent = in.head.SummaryIndex
	}
	if p.kind.index != "" && sent != (index{int64(p.at), true}) {
		set = append(set, responses.Member{Name: p.kind.index, Value: number(p.at)})
	}
	in.Event.Index = p.at
	return d.pass(in, it, set...)
}

// textDone ends a text.
func (d *decoder) textDone(k *textKind, in *incoming) error {
	it, err := d.itemFor(k, in)
	if err != nil {
		return err
	}
	p, err := d.partFor(it, k, in.Index)
	if err != nil || p == nil || p.done {
		return err
	}
	d.streamText(it, p, in.Text)
	if it.hidden || k.own() && len(p.text) == 0 {
		return nil // the item may have the text
	}
	return d.endText(it, p, in)
}

// streamText emits the whole text as one delta if there was none.
func (d *decoder) streamText(it *item, p *part, text string) {
	if len(p.text) > 0 || p.done || text == "" || p.kind.delta == "" {
		return
	}
	p.text = append(p.text, text...)
	if !it.hidden {
		p.deltas = true
		d.emit(responses.Event{Type: p.kind.delta, OutputIndex: it.index, ItemID: it.id, Index: p.at, Text: text})
	}
}

// endText emits a text's done event: the upstream's if there is one. Clients
// have read the deltas, so it says what they said.
func (d *decoder) endText(it *item, p *part, in *incoming) error {
	p.full, p.text, p.done = string(p.text), nil, true
	if in == nil {
		d.emit(responses.Event{Type: p.kind.done, OutputIndex: it.index, ItemID: it.id, Index: p.at, Text: p.full})
		return nil
	}
	if in.Text == p.full {
		return d.passText(in, it, p)
	}
	in.Text = p.full
	return d.passText(in, it, p, responses.Member{Name: p.kind.text, Value: quote(p.full)})
}

// partAdded begins a part.
func (d *decoder) partAdded(in *incoming) error {
	k := partKind(in.Event.Type, in.Part)
	it, err := d.itemFor(k, in)
	key := partKey{k.index, in.Index}
	switch {
	case err != nil:
		return err
	case it.done, it.seen[key], it.part != nil && it.part.key == key && *it.part.kind == *k:
		return nil // said twice
	case !it.takes(k):
		return lost("a %s has parts", it.typ)
	}
	if err := d.openPart(it, k, key, in.Part); err != nil {
		return err
	}
	return d.passPart(in, it)
}

// passPart emits an event whose payload is a part.
func (d *decoder) passPart(in *incoming, it *item) error {
	o, ok := in.Part.(*responses.OutputText)
	if !ok || o.Annotations != nil {
		return d.passText(in, it, it.part)
	}
	// Clients expect the member, and the encoder of the struct writes it.
	return d.passNewPart(in, it, o)
}

func (d *decoder) passNewPart(in *incoming, it *item, p responses.Part) error {
	value, err := json.Marshal(p)
	if err != nil {
		return err
	}
	in.Part = p
	return d.passText(in, it, it.part, responses.Member{Name: "part", Value: value})
}

// partDone ends a part.
func (d *decoder) partDone(in *incoming) error {
	k := partKind(in.Event.Type, in.Part)
	it, err := d.itemFor(k, in)
	key := partKey{k.index, in.Index}
	switch {
	case err != nil:
		return err
	case it.done, it.seen[key]:
		return nil // said twice
	case it.part != nil && it.part.key == key && *it.part.kind != *k:
		d.closePart(it) // it became another part: what was streamed stands
		return nil
	case !it.takes(k):
		return lost("a %s has parts", it.typ)
	case it.part == nil || it.part.key != key:
		return d.wholePart(it, k, key, in.Part)
	}
	p, text := it.part, responses.TextOf([]responses.Part{in.Part})
	d.streamText(it, p, text)
	if !p.done && k.delta != "" {
		if err := d.endText(it, p, nil); err != nil {
			return err
		}
	}
	if k.delta != "" && text != p.full {
		err = d.passNewPart(in, it, k.withText(in.Part, p.full))
	} else {
		err = d.passPart(in, it)
	}
	it.leavePart(in.Part)
	return err
}

// leavePart notes that the open part ended as the given one.
func (it *item) leavePart(as responses.Part) {
	if it.seen == nil {
		it.seen, it.closed = map[partKey]bool{}, map[string][]responses.Part{}
	}
	it.seen[it.part.key] = true
	it.closed[it.part.kind.index] = append(it.closed[it.part.kind.index], as)
	it.part = nil
}

// closePart ends what is open in the item with what was streamed.
func (d *decoder) closePart(it *item) {
	p := it.part
	if p == nil {
		return
	}
	if !p.done && p.kind.delta != "" {
		_ = d.endText(it, p, nil) // fails only for an event of the upstream
	}
	if p.kind.own() {
		return
	}
	as := p.asAdded
	if p.kind.delta != "" {
		as = p.kind.withText(as, p.full)
	}
	d.emit(responses.Event{Type: p.kind.partDone, OutputIndex: it.index, ItemID: it.id, Index: p.at, Part: as})
	it.leavePart(as)
}

// wholePart emits a part that was not streamed, as if it had been.
func (d *decoder) wholePart(it *item, k *textKind, key partKey, as responses.Part) error {
	empty := as
	if k.delta != "" {
		empty = k.newPart("")
	}
	if err := d.openPart(it, k, key, empty); err != nil {
		return err
	}
	p := it.part
	at := responses.Event{OutputIndex: it.index, ItemID: it.id, Index: p.at}
	added, done := at, at
	added.Type, added.Part = k.partAdded, empty
	done.Type, done.Part = k.partDone, as
	d.emit(added)
	if k.delta != "" {
		d.streamText(it, p, responses.TextOf([]responses.Part{as}))
		if err := d.endText(it, p, nil); err != nil {
			return err
		}
	}
	d.emit(done)
	it.leavePart(as)
	return nil
}

// annotation attaches an annotation to a text. One that comes too late is in the
// item's done event all the same.
func (d *decoder) annotation(in *incoming) error {
	it, err := d.itemFor(outputText, in)
	if err != nil {
		return err
	}
	p, err := d.partFor(it, outputText, in.Index)
	if err != nil || p == nil || p.done {
		return err
	}
	return d.passText(in, it, p)
}

// streamRest emits the text of the final item that was not streamed, and ends
// what is open.
func (d *decoder) streamRest(it *item, final responses.Item) error {
	switch final := final.(type) {
	case *responses.FunctionCall:
		d.streamOwn(it, arguments, final.Arguments)
	case *responses.CustomToolCall:
		d.streamOwn(it, customInput, final.Input)
	}
	d.closePart(it)
	switch final := final.(type) {
	case *responses.Message:
		return d.streamParts(it, responses.EventPartAdded, final.Content.Parts)
	case *responses.Reasoning:
		if err := d.streamParts(it, responses.EventSummaryPartAdded, final.Summary); err != nil {
			return err
		}
		return d.streamParts(it, responses.EventPartAdded, final.Content)
	}
	return nil
}

func (d *decoder) streamOwn(it *item, k *textKind, text string) {
	if it.part == nil && text != "" {
		it.part = &part{kind: k}
	}
	if it.part != nil {
		d.streamText(it, it.part, text)
	}
}

// streamParts emits the parts beyond those that were streamed, or all of them if
// what was streamed was empty.
func (d *decoder) streamParts(it *item, added responses.EventType, parts []responses.Part) error {
	if len(parts) == 0 {
		return nil
	}
	index := partKind(added, parts[0]).index
	streamed := it.closed[index]
	if responses.TextOf(streamed) != "" || responses.TextOf(parts) == "" {
		parts = parts[min(len(streamed), len(parts)):]
	}
	for i, p := range parts {
		if err := d.wholePart(it, partKind(added, p), partKey{index, i}, p); err != nil {
			return err
		}
	}
	return nil
}
