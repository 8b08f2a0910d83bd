package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// Reasoning has a sealed form, which only who made it can read and which goes back
// to it on the next turn. Upstreams are asked for it whenever the gateway remembers;
// a client gets it if it asks. So what the run builds on, and what is stored, is the
// whole, and what the log has is what the client is to see.

// showsSealed reports whether the client gets the sealed form of reasoning: if it
// asked for it, or if it takes for granted that the response is remembered and
// nobody here does; then it is all that the client can go on with.
func (e *Engine) showsSealed(req *responses.Request) bool {
	counts := e.opts.Store == nil && (req.Store == nil || *req.Store)
	return counts || req.Includes(responses.IncludeEncryptedReasoning)
}

// asShown returns an event as the client gets it. ev is left as it is.
func (r *Run) asShown(ev *responses.Event) *responses.Event {
	if r.showsSealed {
		return ev
	}
	switch {
	case isSealed(ev.Item):
		c := *ev
		c.Item = unsealed(ev.Item)
		return &c
	case ev.Response != nil && slices.ContainsFunc(ev.Response.Output, isSealed):
		c, resp := *ev, *ev.Response
		resp.Output = slices.Clone(resp.Output)
		for i, it := range resp.Output {
			resp.Output[i] = unsealed(it)
		}
		c.Response = &resp
		return &c
	}
	return ev
}

func isSealed(it responses.Item) bool {
	reasoning, ok := it.(*responses.Reasoning)
	return ok && reasoning.EncryptedContent != ""
}

// unsealed returns an item without the sealed form of reasoning.
func unsealed(it responses.Item) responses.Item {
	if !isSealed(it) {
		return it
	}
	c := *it.(*responses.Reasoning)
	c.EncryptedContent = ""
	return &c
}

// isBare reports whether an item is reasoning that may have a sealed form which the
// client was not given.
func isBare(it responses.Item) bool {
	return it.Type() == responses.TypeReasoning && it.ItemID() != "" && !isSealed(it)
}

// sealAgain returns items with the sealed form of the bare ones among them whose ids
// are given and that are stored: without it, most who made it refuse it. items is
// left as it is.
//
// A store that does not answer is no reason to fail here: requests that need it are
// refused by whoever asks whether it is ready, and the others may do without.
func (e *Engine) sealAgain(ctx context.Context, owner, at string, items []responses.Item, bare []string) ([]responses.Item, error) {
	if len(bare) == 0 {
		return items, nil
	}
	found, err := e.findItems(ctx, owner, at, bare)
	if errors.Is(err, store.ErrUnavailable) {
		return items, nil
	}
	if err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	for i, it := range items {
		data, ok := found[it.ItemID()]
		if !ok || !isBare(it) {
			continue
		}
		kept, err := responses.DecodeItem(data)
		if err != nil {
			return nil, fmt.Errorf("stored item %s: %w", it.ItemID(), err)
		}
		items[i] = sealedAs(it, kept)
	}
	return items, nil
}

// sealedAs returns reasoning with the sealed form that it has in the store. It must
// be the same reasoning: some upstreams use an id again.
func sealedAs(it, kept responses.Item) responses.Item {
	bare, ok1 := it.(*responses.Reasoning)
	whole, ok2 := kept.(*responses.Reasoning)
	if !ok1 || !ok2 || responses.TextOf(bare.Summary) != responses.TextOf(whole.Summary) {
		return it
	}
	c := *bare
	c.EncryptedContent = whole.EncryptedContent
	return &c
}
