package responses

// This file is for drivers whose upstream knows items: they have ids of their own,
// begin and end, and say at their end what was never streamed.

// Name gives the item that begins next the id that the upstream has for it, so
// that the item can go back under it (R17). One that is not valid for its kind, or
// that is taken, is replaced by one of ours.
func (c *Composer) Name(id string) { c.named = id }

// itemID returns the id of an item that begins.
func (c *Composer) itemID(typ string) string {
	id := c.named
	c.named = ""
	if !ValidID(ItemPrefix(typ), id) || c.taken[id] {
		id = c.newID(ItemPrefix(typ))
	}
	if c.taken == nil {
		c.taken = map[string]bool{}
	}
	c.taken[id] = true
	return id
}

// Begin begins an item of type TypeMessage or TypeReasoning, and ends the one that
// is open. Text and Reasoning begin one by themselves.
func (c *Composer) Begin(typ string) {
	c.closeText(StatusCompleted)
	c.openText(typ)
}

// NextPart ends the open part: what comes next is another.
func (c *Composer) NextPart() {
	if c.text != nil {
		c.closePart()
	}
}

// Finish ends the open message or reasoning. complete, which may be nil, may add to
// the item what was not streamed; it must leave id, status and streamed text alone.
func (c *Composer) Finish(complete func(Item)) {
	if c.text == nil {
		return
	}
	c.complete = complete
	c.closeText(StatusCompleted)
	c.complete = nil
}

// Whole adds an item that came in one piece, of a kind that is not streamed.
func (c *Composer) Whole(it Item) {
	c.closeText(StatusCompleted)
	c.Name(it.ItemID())
	it = WithItemID(it, c.itemID(it.Type()))
	index := c.items
	c.items++
	c.emit(Event{Type: EventItemAdded, OutputIndex: index, Item: it})
	c.emit(Event{Type: EventItemDone, OutputIndex: index, Item: it})
}

// Finish ends a call whose arguments are whole, before the turn does.
func (k *ComposedCall) Finish() {
	if k.done {
		return
	}
	k.close(StatusCompleted)
	for i, open := range k.c.calls {
		if open == k {
			k.c.calls = append(k.c.calls[:i], k.c.calls[i+1:]...)
			return
		}
	}
}
