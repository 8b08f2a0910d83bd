package memstore

import (
	"cmp"
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// StoreOptions configures [NewStore]. The zero value is usable.
type StoreOptions struct {
	// Bytes bounds what is kept. Zero means 256 MiB. Beyond it, what was not used
	// for the longest time goes.
	Bytes int64
	// Retention is how long responses are kept. Zero means
	// [store.DefaultRetention].
	Retention time.Duration
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

// A Store is a [store.Store] in memory: bounded, of one process, gone with it.
type Store struct {
	bytes     int64
	retention time.Duration
	now       func() time.Time

	mu            sync.Mutex // guards the rest
	records       map[key]*record
	conversations map[key]*conversation
	items         map[key]*record // by the ids of their output items
	marks         map[markKey]*record
	used          *list.List // of keptThing, the last used first
	stats         Stats
}

// Stats is what a store holds, and what it let go for want of room.
type Stats struct {
	Responses, Conversations int
	Bytes                    int64
	EvictedResponses         int64
	EvictedConversations     int64
}

var _ store.Store = (*Store)(nil)

type markKey struct {
	owner string
	shard uint16
	hash  [32]byte
}

// record is a response. Its bodies are packed: a context is read more often than
// taken apart, and the bound is about bytes.
type record struct {
	key
	kept                   store.Record // without Context, Input and Output
	context, input, output store.Body
	outputIDs              []string
	next                   map[*record]struct{} // those that link to it
	deleted                bool
	bytes                  int64
	place                  *list.Element
}

// keptThing is what eviction can take.
type keptThing interface {
	lastMoment(retention time.Duration) time.Time // zero: none
}

// overhead is what a kept thing costs besides its bodies, roughly.
const overhead = 512

func (r *record) lastMoment(retention time.Duration) time.Time {
	return r.kept.Created().Add(store.Kept(retention))
}

// NewStore returns an empty store. It starts nothing.
func NewStore(opts *StoreOptions) *Store {
	var o StoreOptions
	if opts != nil {
		o = *opts
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Store{
		bytes:         cmp.Or(o.Bytes, 256<<20),
		retention:     cmp.Or(o.Retention, store.DefaultRetention),
		now:           o.Now,
		records:       map[key]*record{},
		conversations: map[key]*conversation{},
		items:         map[key]*record{},
		marks:         map[markKey]*record{},
		used:          list.New(),
	}
}

// Stats returns what the store holds.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Ready implements [store.Store]: memory is always there.
func (s *Store) Ready(context.Context, uint16) error { return nil }

// Close implements [store.Store].
func (s *Store) Close() error { return nil }

// Create implements [store.Responses].
func (s *Store) Create(_ context.Context, owner string, r *store.Record) error {
	n := &record{key: key{owner, r.ID}, next: map[*record]struct{}{}, context: store.PackItems(r.Context), input: store.PackItems(r.Input)}
	n.set(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records[n.key] != nil {
		return nil
	}
	var parent *record
	if r.Link.ID != "" {
		parent = s.records[key{owner, r.Link.ID}]
		if parent == nil || parent.deleted {
			return store.ErrLinkGone
		}
	}
	if err := s.extend(owner, r, r.Input); err != nil {
		return err
	}
	if parent != nil {
		parent.next[n] = struct{}{}
	}
	s.records[n.key] = n
	s.stats.Responses++
	n.place = s.used.PushFront(n)
	s.index(n)
	s.touchAncestors(n)
	s.makeRoom(n)
	return nil
}

// set takes over what an update may change.
func (n *record) set(r *store.Record) {
	n.kept = *r
	n.kept.Context, n.kept.Input, n.kept.Output = nil, nil, nil
	n.kept.Head, n.kept.Losses, n.kept.Marks = slices.Clone(r.Head), slices.Clone(r.Losses), slices.Clone(r.Marks)
	n.output = store.PackItems(r.Output)
	n.outputIDs = n.outputIDs[:0]
	for _, it := range r.Output {
		n.outputIDs = append(n.outputIDs, it.ID)
	}
}

// index makes a record findable by its items and marks, and counts its size.
func (s *Store) index(n *record) {
	for _, id := range n.outputIDs {
		s.items[key{n.owner, id}] = n
	}
	shard, _ := responses.Shard(n.id)
	for _, m := range n.kept.Marks {
		s.marks[markKey{n.owner, shard, m.Hash}] = n
	}
	s.resize(n)
}

func (s *Store) resize(n *record) {
	s.stats.Bytes -= n.bytes
	n.bytes = overhead + int64(len(n.context)+len(n.input)+len(n.output)+len(n.kept.Head)+len(n.kept.Marks)*96+len(n.outputIDs)*128)
	s.stats.Bytes += n.bytes
}

// unindex is the opposite of index.
func (s *Store) unindex(n *record) {
	for _, id := range n.outputIDs {
		if k := (key{n.owner, id}); s.items[k] == n {
			delete(s.items, k)
		}
	}
	shard, _ := responses.Shard(n.id)
	for _, m := range n.kept.Marks {
		if k := (markKey{n.owner, shard, m.Hash}); s.marks[k] == n {
			delete(s.marks, k)
		}
	}
}

// Update implements [store.Responses].
func (s *Store) Update(_ context.Context, owner string, r *store.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.find(owner, r.ID)
	if err != nil {
		return err
	}
	switch {
	case n.kept.Epoch > r.Epoch:
		return store.ErrFenced
	case store.Ended(n.kept.Status):
		if n.kept.Status == r.Status {
			return nil
		}
		return store.ErrFenced
	}
	changed := *r
	changed.Link, changed.Conversation, changed.Depth, changed.Oldest = n.kept.Link, n.kept.Conversation, n.kept.Depth, n.kept.Oldest
	input, err := n.input.Items(maxInt)
	if err != nil {
		return err
	}
	if err := s.extend(owner, &changed, input); err != nil {
		return err
	}
	s.unindex(n)
	n.set(&changed)
	s.index(n)
	s.makeRoom(n)
	return nil
}

const maxInt = int(^uint(0) >> 1)

// find returns a record that its owner may see, and notes that it was used, with
// what it builds on: that must not be evicted before it.
func (s *Store) find(owner, id string) (*record, error) {
	n := s.records[key{owner, id}]
	if n == nil || n.deleted || !s.visible(n) {
		return nil, store.ErrNotFound
	}
	s.used.MoveToFront(n.place)
	s.touchAncestors(n)
	return n, nil
}

func (s *Store) visible(n *record) bool { return s.now().Sub(n.kept.Created()) < s.retention }

// Get implements [store.Responses].
func (s *Store) Get(_ context.Context, owner, id string) (*store.Record, error) {
	s.mu.Lock()
	n, err := s.find(owner, id)
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	r, context, input, output := n.kept, n.context, n.input, n.output
	s.mu.Unlock()
	r.Head, r.Losses, r.Marks = slices.Clone(r.Head), slices.Clone(r.Losses), slices.Clone(r.Marks)
	for _, b := range []struct {
		dst  *[]store.Item
		body store.Body
	}{{&r.Context, context}, {&r.Input, input}, {&r.Output, output}} {
		if *b.dst, err = b.body.Items(maxInt); err != nil {
			return nil, err
		}
	}
	return &r, nil
}

// Chain implements [store.Responses].
func (s *Store) Chain(_ context.Context, owner, id string, caps store.Caps) ([]store.Segment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.find(owner, id)
	if err != nil {
		return nil, err
	}
	var chain []store.Segment
	items, size := -1, 0
	for n != nil {
		seg := store.Segment{
			ID: n.id, Status: n.kept.Status, Depth: n.kept.Depth, Oldest: n.kept.Oldest,
			Items: items, Context: n.context, Input: n.input, Output: n.output,
		}
		size += seg.Size()
		if len(chain) == caps.Depth || size > caps.Bytes {
			return nil, store.ErrTooLong
		}
		chain = append(chain, seg)
		link := n.kept.Link
		if link.ID == "" {
			break
		}
		items = link.Items
		if n = s.records[key{owner, link.ID}]; n == nil { // cannot be: see evict
			return nil, store.ErrNotFound
		}
	}
	slices.Reverse(chain)
	return chain, nil
}

// touchAncestors notes that what a record builds on is in use, so that it is not
// evicted before the record.
func (s *Store) touchAncestors(n *record) {
	for n.kept.Link.ID != "" {
		parent := s.records[key{n.owner, n.kept.Link.ID}]
		if parent == nil {
			return
		}
		n = parent
		s.used.MoveToFront(n.place)
	}
}

// Delete implements [store.Responses].
func (s *Store) Delete(_ context.Context, owner, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.find(owner, id)
	if err != nil {
		return err
	}
	n.deleted = true
	s.unindex(n)
	s.wipe(n)
	return nil
}

// wipe forgets the content of a deleted record that nothing builds on, and then of
// the deleted ones that only it built on. Their ids stay taken.
func (s *Store) wipe(n *record) {
	for n != nil && n.deleted && len(n.next) == 0 {
		parent := s.records[key{n.owner, n.kept.Link.ID}]
		if parent != nil {
			delete(parent.next, n)
		}
		n.kept = store.Record{ID: n.id}
		n.context, n.input, n.output, n.outputIDs = nil, nil, nil, nil
		s.resize(n)
		n = parent
	}
}

// remove takes a record out of everything.
func (s *Store) remove(n *record) {
	s.unindex(n)
	delete(s.records, n.key)
	s.used.Remove(n.place)
	s.stats.Bytes -= n.bytes
	s.stats.Responses--
	if parent := s.records[key{n.owner, n.kept.Link.ID}]; parent != nil {
		delete(parent.next, n)
	}
}

// Items implements [store.Responses].
func (s *Store) Items(_ context.Context, owner string, ids []string) ([]store.Item, error) {
	if len(ids) > store.MaxItemIDs {
		return nil, store.ErrTooLong
	}
	s.mu.Lock()
	bodies := map[*record]store.Body{}
	for _, id := range ids {
		if n := s.items[key{owner, id}]; n != nil && s.visible(n) {
			bodies[n] = n.output
		}
	}
	s.mu.Unlock()
	var found []store.Item
	for _, body := range bodies {
		items, err := body.Find(ids)
		if err != nil {
			return nil, err
		}
		found = append(found, items...)
	}
	return found, nil
}

// Prefix implements [store.Responses].
func (s *Store) Prefix(_ context.Context, owner string, shard uint16, marks []store.Mark) (*store.Found, error) {
	if len(marks) > store.MaxMarks {
		return nil, store.ErrTooLong
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range slices.Backward(marks) {
		n := s.marks[markKey{owner, shard, m.Hash}]
		if n == nil || !s.visible(n) {
			continue
		}
		for _, own := range n.kept.Marks {
			if own.Hash == m.Hash {
				return &store.Found{Mark: i, Link: store.Link{ID: n.id, Items: own.Items}, Depth: n.kept.Depth, Oldest: n.kept.Oldest}, nil
			}
		}
	}
	return nil, store.ErrNotFound
}

// makeRoom drops what is over its time or over the bound, but never what was just
// written.
func (s *Store) makeRoom(keep keptThing) {
	for place := s.used.Back(); place != nil; place = s.used.Back() {
		thing := place.Value.(keptThing)
		last := thing.lastMoment(s.retention)
		expired := !last.IsZero() && !s.now().Before(last)
		if thing == keep || !expired && s.stats.Bytes <= s.bytes {
			return
		}
		s.evict(thing, expired)
	}
}

// evict drops a thing, and what builds on it: a chain is never cut.
func (s *Store) evict(thing keptThing, expired bool) {
	switch t := thing.(type) {
	case *record:
		for n := range t.next {
			s.evict(n, expired)
		}
		s.remove(t)
		if !expired {
			s.stats.EvictedResponses++
		}
	case *conversation:
		s.dropConversation(t)
		s.stats.EvictedConversations++
	}
}
