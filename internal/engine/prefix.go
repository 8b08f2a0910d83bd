package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// Many clients send their whole history again with every request, and do not say
// store: false. What they sent before is found by a hash for each beginning of the
// history, and only what is new is stored:
//
//	h(0) = H(owner)    h(j) = H(h(j-1), item j)
//
// A record has marks for the contexts that a later request may begin with: those
// after its input and after its output. Nobody who reads can tell: the input of such
// a response is put together again, and items that came without an id have one that
// is made of their hash.

// worthFinding is from how many items on a request is looked up: fewer are no
// history.
const worthFinding = 3

// A contextHash stands for items in their order.
type contextHash [sha256.Size]byte

func newContextHash(owner string) contextHash {
	return sha256.Sum256([]byte("antiphon context 1\x00" + owner))
}

// add returns the hash with one more item, as it is kept but without an id that we
// gave it.
func (h contextHash) add(item jsontext.Value) (contextHash, error) {
	if err := item.Compact(); err != nil {
		return h, err
	}
	return sha256.Sum256(append(h[:], item...)), nil
}

// itemID is the id of the last item, if it came without one.
func (h contextHash) itemID(typ string) string { return inputPrefix(typ) + hex.EncodeToString(h[:16]) }

// shard is where what begins like this lies.
func (h contextHash) shard() uint16 { return binary.BigEndian.Uint16(h[:]) % responses.Shards }

// recognise finds how much of the input of a request that goes on from nothing is
// stored already.
func (e *Engine) recognise(ctx context.Context, owner string, m *memory) error {
	if !m.keep || m.asked.PreviousResponseID != "" || m.conversation != "" {
		return nil
	}
	if err := m.fingerprint(owner); err != nil || len(m.hashes) < worthFinding {
		return err
	}
	first := max(0, len(m.hashes)-store.MaxMarks)
	marks := make([]store.Mark, 0, len(m.hashes)-first)
	for _, h := range m.hashes[first:] {
		marks = append(marks, store.Mark{Hash: h})
	}
	found, err := e.opts.Store.Prefix(ctx, owner, m.shard, marks)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return storeFailure(err, nil)
	}
	if found.Depth+1 >= e.opts.ContextDepth || !store.MayLink(found.Oldest, e.opts.Now(), e.opts.Retention) {
		return nil // all of it is stored anew, and found there from now on
	}
	m.link, m.depth, m.oldest = found.Link, found.Depth+1, found.Oldest
	m.linked = first + found.Mark + 1
	return nil
}

// fingerprint hashes the input. The shard is that of the history up to the first
// message of a user: what comes before is often the same for everybody, and would
// put all of it in one place.
func (m *memory) fingerprint(owner string) error {
	h := newContextHash(owner)
	m.hashes = make([]contextHash, 0, len(m.added))
	placed := false
	added := keepable(m.added)
	for i, it := range added {
		data, err := json.Marshal(responses.AsResource(it))
		if err != nil {
			return err
		}
		if h, err = h.add(data); err != nil {
			return err
		}
		m.hashes = append(m.hashes, h)
		msg, ok := it.(*responses.Message)
		if user := ok && msg.Role == responses.RoleUser; !placed && (user || i == len(added)-1) {
			m.shard, placed = h.shard(), true
		}
	}
	return nil
}

// marks are the contexts that a later request may begin with: after the input, and
// after the output.
func (m *memory) marks(r *store.Record) ([]store.Mark, error) {
	n := len(m.hashes)
	if n == 0 || r.Status != responses.StatusCompleted && r.Status != responses.StatusIncomplete {
		return nil, nil
	}
	var marks []store.Mark
	if len(r.Input) > 0 { // else somebody else's mark is at the same place
		marks = append(marks, store.Mark{Hash: m.hashes[n-1], Items: len(r.Input)})
	}
	h, err := m.hashes[n-1], error(nil)
	for _, it := range r.Output {
		if h, err = h.add(it.Data.Clone()); err != nil {
			return nil, err
		}
	}
	if len(r.Output) > 0 {
		marks = append(marks, store.Mark{Hash: h, Items: len(r.Input) + len(r.Output)})
	}
	return marks, nil
}

// wholeInput is the input of a kept response. Of one whose request went on from
// nothing, what was stored before is part of it.
func (e *Engine) wholeInput(ctx context.Context, owner string, r *store.Record) ([]store.Item, error) {
	if r.Link.ID == "" || previousOf(r.Head) != "" {
		return r.Input, nil
	}
	chain, err := e.opts.Store.Chain(ctx, owner, r.ID, e.caps())
	if err != nil {
		return nil, storeFailure(err, errNoResponse)
	}
	var items []store.Item
	left := e.opts.ContextBytes
	for i := range chain[:len(chain)-1] {
		part, err := chain[i].Unpack(left)
		if err != nil {
			return nil, e.chainFailure(err)
		}
		for _, it := range part {
			left -= len(it.Data)
		}
		items = append(items, part...)
	}
	return append(items, r.Input...), nil
}

// previousOf is the previous_response_id of a response object.
func previousOf(head jsontext.Value) (id string) {
	for name, v := range responses.Members(head) {
		if name == "previous_response_id" && v.Kind() == '"' {
			_ = json.Unmarshal(v, &id) // it is a string
		}
	}
	return id
}
