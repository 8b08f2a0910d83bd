package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json/v2"
	"slices"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// keptInput returns the items that the request added as they are kept.
func (m *memory) keptInput(responseID string) ([]store.Item, error) {
	added := keepable(m.added)
	kept := make([]store.Item, 0, len(added)-m.linked)
	for i, it := range added[m.linked:] {
		k, err := keptItem(it, func() string {
			if m.hashes != nil {
				return m.hashes[m.linked+i].itemID(it.Type())
			}
			return inputID(it.Type(), responseID, i)
		})
		if err != nil {
			return nil, err
		}
		kept = append(kept, k)
	}
	return kept, nil
}

// keepable returns the items that are kept. What asks for a compaction asks for it
// once, and says nothing.
func keepable(items []responses.Item) []responses.Item {
	trigger := func(it responses.Item) bool { _, ok := it.(*responses.CompactionTrigger); return ok }
	if !slices.ContainsFunc(items, trigger) {
		return items
	}
	return slices.DeleteFunc(slices.Clone(items), trigger)
}

// keptItem returns an input item as it is kept. It gets an id if it has none.
func keptItem(it responses.Item, newID func() string) (store.Item, error) {
	it = responses.AsResource(it)
	if it.ItemID() == "" {
		it = responses.WithItemID(it, newID())
	}
	data, err := json.Marshal(it)
	return store.Item{ID: it.ItemID(), Data: data}, err
}

// keptOutput returns generated items as they are kept: without what was rendered
// for the client only.
func keptOutput(items []responses.Item) ([]store.Item, error) {
	kept := make([]store.Item, 0, len(items))
	for _, it := range items {
		if isRenderedID(it.ItemID()) {
			continue
		}
		data, err := json.Marshal(it)
		if err != nil {
			return nil, err
		}
		kept = append(kept, store.Item{ID: it.ItemID(), Data: data})
	}
	return slices.Clip(kept), nil
}

// inputID is the id of an input item that came without one. It is always the same
// for the same place.
func inputID(typ, responseID string, index int) string {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(responseID), uint64(index)))
	return inputPrefix(typ) + hex.EncodeToString(sum[:16])
}

func inputPrefix(typ string) string {
	switch typ {
	case responses.TypeFunctionCallOutput:
		return "fco_"
	case responses.TypeCustomToolCallOutput:
		return "ctco_"
	}
	if p := responses.ItemPrefix(typ); p != "" {
		return p
	}
	return "item_"
}
