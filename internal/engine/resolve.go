package engine

import (
	"context"
	"encoding/json/jsontext"
	"fmt"
	"slices"

	"github.com/antiphon-dev/antiphon/responses"
)

// resolve makes whole what a request only refers to.
func (e *Engine) resolve(ctx context.Context, owner string, m *memory) error {
	for _, kept := range m.context {
		it, err := responses.DecodeItem(kept.Data)
		if err != nil {
			return fmt.Errorf("stored item %s: %w", kept.ID, err)
		}
		m.before = append(m.before, it)
	}
	added, err := e.dereference(ctx, owner, "input", m.before, m.added)
	if err != nil {
		return err
	}
	m.resolved = !slices.Equal(added, m.added)
	m.added = added
	if err := m.checkDuplicates(); err != nil {
		return err
	}
	return m.checkCalls()
}

// dereference returns items with what their references stand for: output items of
// stored responses. One that refers to what is there already, before it or in the
// context, says nothing new and is left out. Reasoning without its sealed form, which
// clients get only if they ask, refers to itself.
func (e *Engine) dereference(ctx context.Context, owner, at string, before, items []responses.Item) ([]responses.Item, error) {
	seen := idsOf(before)
	var wanted, bare []string
	for _, it := range items {
		switch id := it.ItemID(); {
		case seen[id]:
		case isReference(it):
			wanted = append(wanted, id)
		case isBare(it):
			bare = append(bare, id)
		}
	}
	found, err := e.findItems(ctx, owner, at, wanted)
	if err != nil {
		return nil, err
	}
	if items, err = e.sealAgain(ctx, owner, at, items, bare); err != nil || !slices.ContainsFunc(items, isReference) {
		return items, err
	}
	out := make([]responses.Item, 0, len(items))
	for i, it := range items {
		if isReference(it) {
			id := it.ItemID()
			if seen[id] {
				continue
			}
			data, ok := found[id]
			if !ok {
				return nil, responses.InvalidParam(responses.CodeNotFound, fmt.Sprintf("%s[%d].id", at, i),
					"There is no such item among the output of stored responses: send the item itself. Items of responses with \"store\": false are not kept.")
			}
			if it, err = responses.DecodeItem(data); err != nil {
				return nil, fmt.Errorf("stored item %s: %w", id, err)
			}
		}
		seen[it.ItemID()] = true
		out = append(out, it)
	}
	return out, nil
}

func isReference(it responses.Item) bool { return it.Type() == responses.TypeItemReference }

// idsOf are the ids of items that have one.
func idsOf(items []responses.Item) map[string]bool {
	ids := map[string]bool{}
	for _, it := range items {
		if id := it.ItemID(); id != "" {
			ids[id] = true
		}
	}
	return ids
}

// lookupIDs is how many items are looked up at once: what they take together is
// known only afterwards.
const lookupIDs = 100

// findItems looks items up by their ids. Together they are bounded as a context is.
func (e *Engine) findItems(ctx context.Context, owner, at string, ids []string) (map[string]jsontext.Value, error) {
	found := map[string]jsontext.Value{}
	slices.Sort(ids)
	size := 0
	for chunk := range slices.Chunk(slices.Compact(ids), lookupIDs) {
		items, err := e.opts.Store.Items(ctx, owner, chunk)
		if err != nil {
			return nil, storeFailure(err, nil)
		}
		for _, it := range items {
			found[it.ID] = it.Data
			size += len(it.Data)
		}
		if size > e.opts.ContextBytes {
			return nil, e.tooLong(at)
		}
	}
	return found, nil
}

// checkDuplicates refuses items that are in the context already: a model would
// read them twice.
func (m *memory) checkDuplicates() error {
	seen := idsOf(m.before)
	for i, it := range m.added {
		id := it.ItemID()
		if seen[id] {
			return responses.InvalidParam(responses.CodeInvalidValue, fmt.Sprintf("input[%d].id", i),
				"The item %q is part of what this request goes on from: send only what is new.", id)
		}
		if m.conversation != "" && id != "" {
			seen[id] = true // its items are told apart by their ids
		}
	}
	return nil
}

// checkCalls refuses the result of a call that nobody made: a model that saw it
// would answer something else than was asked.
func (m *memory) checkCalls() error {
	calls := map[string]bool{}
	for _, it := range m.before {
		if _, ok := it.(*responses.Compaction); ok {
			return nil // only its upstream knows which calls are in it
		}
		calls[responses.CallID(it)] = true
	}
	for i, it := range m.added {
		id, field := "", ""
		switch it := it.(type) {
		case *responses.Compaction:
			return nil
		case *responses.FunctionCallOutput:
			id, field = it.CallID, "function_call"
		case *responses.CustomToolCallOutput:
			id, field = it.CallID, "custom_tool_call"
		default:
			calls[responses.CallID(it)] = true
			continue
		}
		if !calls[id] {
			return responses.InvalidParam(responses.CodeInvalidValue, fmt.Sprintf("input[%d].call_id", i),
				"There is no call %q that this could be the result of: send its %s item before it, or go on from the response that made it.", id, field)
		}
	}
	return nil
}

// taken are the ids that an item of the response cannot have.
func (m *memory) taken() map[string]bool {
	return idsOf(slices.Concat(m.before, m.added))
}
