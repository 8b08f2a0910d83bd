package redisstore

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// visible returns where a response of ours is, if it is young enough to be seen.
func (s *Store) visible(owner, id string) (space, error) {
	p, ok := s.space(owner, id)
	if !ok || responses.IDTime(id).UnixMilli() <= s.tooOld() {
		return p, store.ErrNotFound
	}
	return p, nil
}

// tooOld is the youngest millisecond that the retention has passed.
func (s *Store) tooOld() int64 { return s.now().Add(-s.retention).UnixMilli() }

// ttl is how many milliseconds a record has to live.
func (s *Store) ttl(id string) string {
	left := responses.IDTime(id).Add(store.Kept(s.retention)).Sub(s.now())
	return strconv.FormatInt(max(left.Milliseconds(), 1), 10)
}

// Create implements [store.Responses].
func (s *Store) Create(ctx context.Context, owner string, r *store.Record) error {
	p, ok := s.space(owner, r.ID)
	if !ok {
		return errors.New("redisstore: the id of a new response says no shard: " + strconv.Quote(r.ID))
	}
	set, err := created(r)
	if err != nil {
		return err
	}
	keys := []string{p.key(kindRecord, r.ID)}
	linked := "0"
	if r.Link.ID != "" {
		if shard, ok := responses.Shard(r.Link.ID); !ok || shard != p.shard {
			return store.ErrLinkGone
		}
		linked = "1"
		keys = append(keys, p.key(kindRecord, r.Link.ID))
	}
	say, err := p.says(r, r.Conversation, r.Input)
	if err != nil {
		return err
	}
	return s.write(ctx, createScript, p, r, keys, linked, set, say)
}

// saying is what a response adds to its conversation.
type saying struct {
	keys, items []string
	most        int
}

// says returns what a record adds to a conversation now: nothing unless it has
// ended well.
func (p space) says(r *store.Record, conversation string, input []store.Item) (saying, error) {
	if conversation == "" || !endsWell(r.Status) {
		return saying{}, nil
	}
	if shard, ok := responses.Shard(conversation); !ok || shard != p.shard {
		return saying{}, store.ErrNotFound
	}
	return saying{p.conversation(conversation), pairs(input, r.Output), store.MaxConversationItems}, nil
}

func endsWell(s responses.Status) bool {
	return s == responses.StatusCompleted || s == responses.StatusIncomplete
}

// write runs a script that writes a record: with its conversation, and with the
// entries that lead to it. Entries in other shards are written beside it; they may
// be left behind, so readers check what they find.
func (s *Store) write(ctx context.Context, sc *script, p space, r *store.Record, keys []string, flag string, set []string, say saying) error {
	ttl := s.ttl(r.ID)
	keys = append(keys, say.keys...)
	var beside []rueidis.Completed
	for _, it := range r.Output {
		key, shard := p.item(it.ID)
		if shard == p.shard {
			keys = append(keys, key)
			continue
		}
		beside = append(beside, s.client.B().Arbitrary("SET").Keys(key).Args(r.ID, "PX", ttl).Build())
	}
	for _, m := range r.Marks {
		keys = append(keys, p.key(kindMark, rueidis.BinaryString(m.Hash[:])))
	}
	args := append([]string{r.ID, ttl, flag, strconv.Itoa(say.most), strconv.Itoa(len(set))}, set...)
	_, err := s.run(ctx, sc, keys, append(args, say.items...), beside...)
	s.wrote(p.shard, err)
	return err
}

// Update implements [store.Responses].
func (s *Store) Update(ctx context.Context, owner string, r *store.Record) error {
	p, err := s.visible(owner, r.ID)
	if err != nil {
		return err
	}
	set, err := updated(r)
	if err != nil {
		return err
	}
	flag := "0"
	if endsWell(r.Status) {
		flag = "1"
	}
	keys := []string{p.key(kindRecord, r.ID)}
	err = s.write(ctx, updateScript, p, r, keys, flag, set, saying{})
	if !errors.Is(err, errConversation) {
		return err
	}
	// What was said in the beginning is packed, and stays as it was created: it is
	// read, and the update sent again with it.
	old, err := s.Get(ctx, owner, r.ID)
	if err != nil {
		return err
	}
	say, err := p.says(r, old.Conversation, old.Input)
	if err != nil {
		return err
	}
	return s.write(ctx, updateScript, p, r, keys, flag, set, say)
}

// Get implements [store.Responses].
func (s *Store) Get(ctx context.Context, owner, id string) (*store.Record, error) {
	p, err := s.visible(owner, id)
	if err != nil {
		return nil, err
	}
	v, err := s.fields(ctx, p.key(kindRecord, id), fields...)
	if err != nil {
		return nil, err
	}
	if v[0] == "" || v[1] != "" {
		return nil, store.ErrNotFound
	}
	return decode(id, v)
}

func (s *Store) fields(ctx context.Context, key string, names ...string) ([]string, error) {
	m, err := s.client.Do(ctx, s.client.B().Hmget().Key(key).Field(names...).Build()).ToMessage()
	if err != nil {
		return nil, s.failed(ctx, err)
	}
	return texts(m)
}

// Chain implements [store.Responses].
func (s *Store) Chain(ctx context.Context, owner, id string, caps store.Caps) ([]store.Segment, error) {
	p, err := s.visible(owner, id)
	if err != nil {
		return nil, err
	}
	m, err := s.run(ctx, chainScript, []string{p.key(kindRecord, id)},
		[]string{p.key(kindRecord, ""), strconv.Itoa(caps.Depth), strconv.Itoa(caps.Bytes)})
	if err != nil {
		return nil, err
	}
	v, err := m.ToArray()
	if err != nil || len(v) == 0 || len(v)%6 != 0 {
		return nil, errors.Join(errBroken, err)
	}
	chain := make([]store.Segment, 0, len(v)/6)
	items := -1
	for ; len(v) > 0; v = v[6:] {
		at, err := parsePlace(text(&v[2]))
		if err != nil {
			return nil, err
		}
		chain = append(chain, store.Segment{
			ID: text(&v[0]), Status: responses.Status(text(&v[1])), Depth: at.depth, Oldest: at.oldest, Items: items,
			Context: body(&v[3]), Input: body(&v[4]), Output: body(&v[5]),
		})
		items = at.items
	}
	chain[0].ID = id
	slices.Reverse(chain)
	return chain, nil
}

// Delete implements [store.Responses].
func (s *Store) Delete(ctx context.Context, owner, id string) error {
	p, err := s.visible(owner, id)
	if err != nil {
		return err
	}
	_, err = s.run(ctx, deleteScript, []string{p.key(kindRecord, id)}, []string{p.key(kindRecord, "")})
	s.wrote(p.shard, err)
	return err
}

// Items implements [store.Responses]. The first step finds the records, the second
// looks into them: an entry may be older than what the record holds now.
func (s *Store) Items(ctx context.Context, owner string, ids []string) ([]store.Item, error) {
	if len(ids) > store.MaxItemIDs {
		return nil, store.ErrTooLong
	}
	lookups := make([]rueidis.Completed, 0, len(ids))
	for _, id := range ids {
		key, _ := space{prefix: s.prefix, owner: owner}.item(id)
		lookups = append(lookups, s.client.B().Get().Key(key).Build())
	}
	var reads []rueidis.Completed
	seen := map[string]bool{}
	for _, result := range s.client.DoMulti(ctx, lookups...) {
		id, err := result.ToString()
		if rueidis.IsRedisNil(err) {
			continue
		}
		if err != nil {
			return nil, s.failed(ctx, err)
		}
		p, err := s.visible(owner, id)
		if err != nil || seen[id] {
			continue
		}
		seen[id] = true
		reads = append(reads, s.client.B().Hmget().Key(p.key(kindRecord, id)).Field("s", "x", "o").Build())
	}
	var found []store.Item
	for _, result := range s.client.DoMulti(ctx, reads...) {
		m, err := result.ToMessage()
		if err != nil {
			return nil, s.failed(ctx, err)
		}
		v, err := texts(m)
		if err != nil {
			return nil, err
		}
		if v[0] == "" || v[1] != "" {
			continue
		}
		items, err := store.Body(v[2]).Find(ids)
		if err != nil {
			return nil, err
		}
		found = append(found, items...)
	}
	return found, nil
}

// Prefix implements [store.Responses].
func (s *Store) Prefix(ctx context.Context, owner string, shard uint16, marks []store.Mark) (*store.Found, error) {
	if len(marks) > store.MaxMarks {
		return nil, store.ErrTooLong
	}
	p := space{s.prefix, owner, shard % responses.Shards}
	hashes := make([]byte, 0, 32*len(marks))
	for _, m := range marks {
		hashes = append(hashes, m.Hash[:]...)
	}
	m, err := s.run(ctx, prefixScript, []string{p.key(kindMark, "")}, []string{
		p.key(kindMark, ""), p.key(kindRecord, ""), strconv.FormatInt(s.tooOld(), 10), rueidis.BinaryString(hashes)})
	if err != nil {
		return nil, err
	}
	v, err := texts(m)
	if err != nil || len(v) != 4 || len(v[3]) != 4 {
		return nil, errors.Join(errBroken, err)
	}
	at, err := parsePlace(v[2])
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(v[0])
	if err != nil {
		return nil, errBroken
	}
	items := int(binary.BigEndian.Uint32([]byte(v[3])))
	return &store.Found{Mark: n, Link: store.Link{ID: v[1], Items: items}, Depth: at.depth, Oldest: at.oldest}, nil
}
