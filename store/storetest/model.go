package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// model is what a store should answer, written for clarity alone: lists that are
// searched from their beginning, and no index of anything.
type model struct {
	records []*modelRecord
	// past are records that a store may still have or not.
	past          []*modelRecord
	conversations []*modelConversation
}

type modelRecord struct {
	store.Record
	owner   string
	made    time.Time
	deleted bool
	// hashes are those of all marks that it ever had.
	hashes map[[32]byte]bool
}

type modelConversation struct {
	store.Conversation
	owner string
	items []store.Item
}

// record returns what an owner has under an id, also if nobody may see it.
func (m *model) record(owner, id string) *modelRecord {
	for _, r := range m.records {
		if r.owner == owner && r.ID == id {
			return r
		}
	}
	return nil
}

func (r *modelRecord) visible(now time.Time) bool {
	return !r.deleted && now.Sub(r.made) < retention
}

func (m *model) find(now time.Time, owner, id string) (*modelRecord, error) {
	r := m.record(owner, id)
	if r == nil || !r.visible(now) {
		return nil, store.ErrNotFound
	}
	return r, nil
}

func (m *model) create(now time.Time, owner string, r store.Record) error {
	if m.record(owner, r.ID) != nil {
		return nil
	}
	if r.Link.ID != "" {
		if parent := m.record(owner, r.Link.ID); parent == nil || parent.deleted {
			return store.ErrLinkGone
		}
	}
	if err := m.say(owner, &r); err != nil {
		return err
	}
	n := &modelRecord{Record: r, owner: owner, made: now.Truncate(time.Millisecond), hashes: map[[32]byte]bool{}}
	n.note(r.Marks)
	m.records = append(m.records, n)
	return nil
}

func (r *modelRecord) note(marks []store.Mark) {
	for _, mark := range marks {
		r.hashes[mark.Hash] = true
	}
}

// say adds what a response says to its conversation once it has ended well.
func (m *model) say(owner string, r *store.Record) error {
	if r.Conversation == "" || r.Status != responses.StatusCompleted && r.Status != responses.StatusIncomplete {
		return nil
	}
	return m.add(owner, r.Conversation, slices.Concat(r.Input, r.Output))
}

func (m *model) update(now time.Time, owner string, r store.Record) error {
	old, err := m.find(now, owner, r.ID)
	if err != nil {
		return err
	}
	over := slices.Contains([]responses.Status{"completed", "incomplete", "failed", "cancelled"}, old.Status)
	switch {
	case r.Epoch < old.Epoch, over && r.Status != old.Status:
		return store.ErrFenced
	case over:
		return nil
	}
	changed := old.Record
	changed.Status, changed.Epoch, changed.Head, changed.Losses, changed.Output, changed.Marks = r.Status, r.Epoch, r.Head, r.Losses, r.Output, r.Marks
	if err := m.say(owner, &changed); err != nil {
		return err
	}
	old.Record = changed
	old.note(r.Marks)
	return nil
}

func (m *model) delete(now time.Time, owner, id string) error {
	r, err := m.find(now, owner, id)
	if err == nil {
		r.deleted = true
	}
	return err
}

// modelSegment is a [store.Segment] whose items are unpacked.
type modelSegment struct {
	ID     string
	Status responses.Status
	Depth  int
	Oldest time.Time
	Items  []store.Item
}

func (m *model) chain(now time.Time, owner, id string, caps store.Caps) (chain []modelSegment, err error) {
	r, err := m.find(now, owner, id)
	if err != nil {
		return nil, err
	}
	size, take := 0, -1
	for {
		items := slices.Concat(r.Context, r.Input, r.Output)
		if take >= 0 {
			items = items[:min(take, len(items))]
		}
		for _, part := range [][]store.Item{r.Context, r.Input, r.Output} {
			size += len(store.PackItems(part))
		}
		chain = append(chain, modelSegment{r.ID, r.Status, r.Depth, r.Oldest, items})
		if len(chain) > caps.Depth || size > caps.Bytes {
			return nil, store.ErrTooLong
		}
		if r.Link.ID == "" {
			slices.Reverse(chain)
			return chain, nil
		}
		take, r = r.Link.Items, m.record(owner, r.Link.ID)
	}
}

func (m *model) items(now time.Time, owner string, ids []string) (found []store.Item) {
	for _, r := range m.records {
		if r.owner != owner || !r.visible(now) {
			continue
		}
		for _, it := range r.Output {
			if slices.Contains(ids, it.ID) {
				found = append(found, it)
			}
		}
	}
	return found
}

// expire takes what a store need not have any more from the model: whatever is
// built on something that was made too long ago.
func (m *model) expire(now time.Time) {
	m.records = slices.DeleteFunc(m.records, func(r *modelRecord) bool {
		over := now.Sub(r.Oldest) >= store.Kept(retention)
		if over {
			m.past = append(m.past, r)
		}
		return over
	})
}

// prefixes returns what Prefix may find: any record that has the last known mark.
// Where several had the same mark and one of them is gone, a store may have
// forgotten the mark, and an earlier one will do.
func (m *model) prefixes(now time.Time, owner string, shard uint16, marks []store.Mark) (allowed []store.Found, mayMiss bool) {
	for i, mark := range slices.Backward(marks) {
		had, have := 0, 0
		for _, r := range slices.Concat(m.past, m.records) {
			at, _ := responses.Shard(r.ID)
			if r.owner != owner || at != shard || !r.hashes[mark.Hash] {
				continue
			}
			had++
			own := slices.IndexFunc(r.Marks, func(o store.Mark) bool { return o.Hash == mark.Hash })
			if own < 0 || !r.visible(now) {
				continue
			}
			if m.record(owner, r.ID) != nil {
				have++
			}
			allowed = append(allowed, store.Found{Mark: i, Link: store.Link{ID: r.ID, Items: r.Marks[own].Items}, Depth: r.Depth, Oldest: r.Oldest})
		}
		if have > 0 && have == had {
			return allowed, false
		}
	}
	return allowed, true
}

func (m *model) conversation(owner, id string) (*modelConversation, error) {
	for _, c := range m.conversations {
		if c.owner == owner && c.ID == id {
			return c, nil
		}
	}
	return nil, store.ErrNotFound
}

func (m *model) converse(owner string, c store.Conversation, items []store.Item) error {
	if _, err := m.conversation(owner, c.ID); err == nil {
		return nil
	}
	m.conversations = append(m.conversations, &modelConversation{Conversation: c, owner: owner})
	return m.add(owner, c.ID, items)
}

func (m *model) add(owner, id string, items []store.Item) error {
	c, err := m.conversation(owner, id)
	if err != nil {
		return err
	}
	for _, it := range items {
		if c.index(it.ID) < 0 {
			c.items = append(c.items, it)
		}
	}
	return nil
}

func (c *modelConversation) index(id string) int {
	return slices.IndexFunc(c.items, func(it store.Item) bool { return it.ID == id })
}

func (m *model) forget(owner, id string) error {
	c, err := m.conversation(owner, id)
	m.conversations = slices.DeleteFunc(m.conversations, func(o *modelConversation) bool { return o == c })
	return err
}

func (m *model) item(owner, id, item string) (store.Item, error) {
	c, err := m.conversation(owner, id)
	if err != nil {
		return store.Item{}, err
	}
	for _, it := range c.items {
		if it.ID == item {
			return it, nil
		}
	}
	return store.Item{}, store.ErrNotFound
}

func (m *model) deleteItem(owner, id, item string) error {
	if _, err := m.item(owner, id, item); err != nil {
		return err
	}
	c, _ := m.conversation(owner, id)
	i := c.index(item)
	c.items = slices.Concat(c.items[:i], c.items[i+1:])
	return nil
}

func (m *model) list(owner, id string, p store.Page) (page []store.Item, more bool, err error) {
	c, err := m.conversation(owner, id)
	if err != nil {
		return nil, false, err
	}
	began, size := p.After == "", 0
	for i := range c.items {
		if p.Descending {
			i = len(c.items) - 1 - i
		}
		it := c.items[i]
		switch {
		case !began:
			began = it.ID == p.After
		case p.Limit > 0 && len(page) == p.Limit:
			more = true
		default:
			page = append(page, it)
			size += len(it.Data)
		}
	}
	switch {
	case !began:
		return nil, false, store.ErrNotFound
	case p.Bytes > 0 && size > p.Bytes:
		return nil, false, store.ErrTooLong
	}
	return page, more, nil
}

// sameError reports whether a store failed as the model did.
func sameError(want, got error) bool {
	if want == nil {
		return got == nil
	}
	return errors.Is(got, want)
}
