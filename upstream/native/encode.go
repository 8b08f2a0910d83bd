package native

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"slices"

	"github.com/antiphon-dev/antiphon/responses"
)

// encoding is how requests are encoded for one upstream.
type encoding struct {
	// stateful leaves it to the client whether the upstream stores.
	stateful bool
	// plain leaves out the encrypted reasoning that the client did not ask for.
	plain bool
	// unsealed leaves out reasoning that comes back encrypted.
	unsealed bool
	// upstreamID returns the id under which the upstream knows the item that
	// clients know by id, "" if it is the same.
	upstreamID func(id, encrypted string) string
}

// encode returns the body for the upstream: the client's own, byte for byte,
// except for what the gateway has decided. added reports whether it asks for
// encrypted reasoning although the client did not.
//
// The input is taken from the client's body unless the request says that it is
// to be encoded anew (Input.Normalized), or an id in it must be restored.
func (e *encoding) encode(r *responses.Request) (body []byte, added bool, err error) {
	set := []responses.Member{
		{Name: "model", Value: quote(r.Model)},
		{Name: "stream", Value: jsontext.Value("true")},
		// The gateway has resolved these, and it remembers.
		{Name: "background"},
		{Name: "previous_response_id"},
		{Name: "conversation"},
	}
	if !e.stateful {
		set = append(set, responses.Member{Name: "store", Value: jsontext.Value("false")})
		if added = !e.plain && !r.Includes(responses.IncludeEncryptedReasoning); added {
			include, err := json.Marshal(append(slices.Clip(r.Include), responses.IncludeEncryptedReasoning))
			if err != nil {
				return nil, false, err
			}
			set = append(set, responses.Member{Name: "include", Value: include})
		}
	}
	raw := r.Raw
	if raw == nil {
		if raw, err = json.Marshal(r); err != nil {
			return nil, false, err
		}
	}
	if items, restored := e.restore(r.Input.Items); restored || r.Input.Normalized {
		input, err := json.Marshal(items)
		if err != nil {
			return nil, false, err
		}
		set = append(set, responses.Member{Name: "input", Value: input})
	}
	body, err = responses.SetMembers(raw, set...)
	return body, added, err
}

// restore gives the items that come back the ids under which the upstream knows
// them (R17), and leaves out what it does not know. It reports whether there were
// any.
func (e *encoding) restore(items []responses.Item) (_ []responses.Item, restored bool) {
	if e.unsealed {
		items, restored = slices.DeleteFunc(slices.Clone(items), isSealedReasoning), true
	}
	for i, it := range items {
		enc := encryptedContent(it)
		if enc == "" {
			continue
		}
		id := e.upstreamID(it.ItemID(), enc)
		if id == "" {
			continue
		}
		if !restored {
			items, restored = slices.Clone(items), true
		}
		items[i] = responses.WithItemID(it, id)
	}
	return items, restored
}

// isSealedReasoning reports whether an item is reasoning of which only its upstream
// can read the whole.
func isSealedReasoning(it responses.Item) bool {
	return it.Type() == responses.TypeReasoning && encryptedContent(it) != ""
}
