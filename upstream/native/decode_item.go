package native

import (
	"slices"

	"github.com/antiphon-dev/antiphon/responses"
)

// An item is an item of the turn, from its first event on. Once it is done only
// what is needed to recognise it is kept.
type item struct {
	index  int    // its output_index
	id     string // its public id
	callID string // the public call_id of a call
	typ    string

	upstreamID string // the id under which it was added
	rotates    bool   // it was seen with other ids
	hidden     bool   // nothing of it was shown: it is a call of something yet unknown
	done       bool

	asAdded responses.Item
	part    *part                       // the open part, or the item's own text
	closed  map[string][]responses.Part // index member → the parts that are done
	seen    map[partKey]bool            // where the upstream had those
}

// itemAdded begins an item.
func (d *decoder) itemAdded(in *incoming) error {
	if it := d.begun(in); it != nil {
		if it.hidden {
			return d.reveal(it, in.Item)
		}
		return nil // said twice
	}
	it, err := d.newItem(in)
	if err != nil {
		return err
	}
	return d.show(it, in.Item, in)
}

// begun returns the open item that output_item.added announces once more, or
// only now.
func (d *decoder) begun(in *incoming) *item {
	at := in.head.OutputIndex
	there := d.byIndex[at.at]
	it := d.byID[in.Item.ItemID()]
	if it == nil && at.given && there != nil && there.hidden {
		it = there
	}
	if it == nil || it.done || it.typ != in.Item.Type() || at.given && there != it {
		return nil
	}
	return it
}

// newItem registers the item that an event is the first of.
func (d *decoder) newItem(in *incoming) (*item, error) {
	it := &item{upstreamID: in.Event.ItemID}
	if in.Item != nil {
		it.upstreamID, it.typ = in.Item.ItemID(), in.Item.Type()
	}
	if err := d.register(it); err != nil {
		return nil, err
	}
	if i := in.head.OutputIndex; i.given {
		d.byIndex[i.at] = it
	}
	return it, nil
}

func (d *decoder) register(it *item) error {
	switch {
	case len(d.items) >= maxItems:
		return lost("more than %d items", maxItems)
	case len(d.open) >= maxOpen:
		return lost("more than %d items are open at once", maxOpen)
	}
	d.items = append(d.items, it)
	d.open = append(d.open, it)
	if it.upstreamID != "" {
		if _, taken := d.byID[it.upstreamID]; taken {
			d.byID[it.upstreamID] = nil
		} else {
			d.byID[it.upstreamID] = it
		}
	}
	return nil
}

// show emits output_item.added: the upstream's event if it sent one, else one of
// our own.
func (d *decoder) show(it *item, as responses.Item, in *incoming) error {
	d.flush(false)
	it.typ, it.index, it.hidden = as.Type(), d.shown, false
	d.shown++
	it.id = d.publicID(as)
	it.callID = d.publicCallID(as)
	if responses.ItemStatus(as) == "" {
		as = withStatus(as, responses.StatusInProgress)
	}
	it.asAdded = it.own(as)
	if in == nil {
		d.emit(responses.Event{Type: responses.EventItemAdded, OutputIndex: it.index, Item: it.asAdded})
		return nil
	}
	in.Event.Item = it.asAdded
	return d.pass(in, it)
}

// publicID is the upstream's id if clients can take it and no other item has it,
// else one of our own (R17).
func (d *decoder) publicID(as responses.Item) string {
	prefix := responses.ItemPrefix(as.Type())
	id := as.ItemID()
	if !responses.ValidID(prefix, id) || d.ids[id] {
		if prefix == "" {
			prefix = "item_"
		}
		id = d.newID(prefix)
	}
	d.ids[id] = true
	return id
}

func (d *decoder) publicCallID(as responses.Item) string {
	var id string
	switch as := as.(type) {
	case *responses.FunctionCall:
		id = as.CallID
	case *responses.CustomToolCall:
		id = as.CallID
	default:
		return ""
	}
	if !responses.ValidID("", id) {
		return d.newID(responses.PrefixCall)
	}
	return id
}

// own returns a copy of as with the item's public ids.
func (it *item) own(as responses.Item) responses.Item {
	as = responses.WithItemID(as, it.id)
	switch as := as.(type) {
	case *responses.FunctionCall:
		as.CallID = it.callID
	case *responses.CustomToolCall:
		as.CallID = it.callID
	}
	return as
}

// reveal shows an item of which only its text was known.
func (d *decoder) reveal(it *item, as responses.Item) error {
	if as.Type() != it.typ {
		return lost("a %s was streamed as a %s", as.Type(), it.typ)
	}
	if err := d.show(it, emptied(as), nil); err != nil {
		return err
	}
	p := it.part
	if p == nil || len(p.text) == 0 {
		return nil
	}
	p.deltas = true
	d.emit(responses.Event{Type: p.kind.delta, OutputIndex: it.index, ItemID: it.id, Text: string(p.text)})
	return nil
}

// itemDone ends an item.
func (d *decoder) itemDone(in *incoming) error {
	it := d.find(in)
	switch {
	case it == nil:
		it, err := d.newItem(in)
		if err != nil {
			return err
		}
		return d.wholeAs(it, in.Item)
	case it.done:
		return nil // said twice
	case it.hidden:
		if err := d.reveal(it, in.Item); err != nil {
			return err
		}
	case it.typ != in.Item.Type():
		// It became another item: both are shown.
		if err := d.close(it, withStatus(it.asAdded, responses.StatusCompleted), nil); err != nil {
			return err
		}
		return d.whole(in.Item)
	}
	return d.close(it, in.Item, in)
}

// whole shows an item that was never streamed, as if it had been.
func (d *decoder) whole(final responses.Item) error {
	it := &item{upstreamID: final.ItemID()}
	if err := d.register(it); err != nil {
		return err
	}
	return d.wholeAs(it, final)
}

func (d *decoder) wholeAs(it *item, final responses.Item) error {
	if err := d.show(it, emptied(final), nil); err != nil {
		return err
	}
	return d.close(it, final, nil)
}

// close ends an item that is shown: with the upstream's event if there is one.
// Text that it has and that was not streamed is streamed first.
func (d *decoder) close(it *item, final responses.Item, in *incoming) error {
	if err := d.streamRest(it, final); err != nil {
		return err
	}
	if s := responses.ItemStatus(final); s == "" || s == responses.StatusInProgress {
		final = withStatus(final, responses.StatusCompleted)
	}
	upstreamID := final.ItemID()
	final = it.own(it.asSaid(final))
	if enc := encryptedContent(final); enc != "" && upstreamID != "" && upstreamID != it.id {
		d.remember(it.id, upstreamID, enc)
	}
	ev := responses.Event{Type: responses.EventItemDone, OutputIndex: it.index, Item: final}
	if in != nil {
		in.Event.Item = final
		var err error
		if ev, err = in.placed(it); err != nil {
			return err
		}
	}
	if responses.ItemStatus(final) == responses.StatusIncomplete {
		d.held = append(d.held, ev)
	} else {
		d.emit(ev)
	}
	it.done, it.asAdded, it.part, it.closed, it.seen = true, nil, nil, nil, nil
	d.open = slices.DeleteFunc(d.open, func(o *item) bool { return o == it })
	return nil
}
