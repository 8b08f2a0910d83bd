package pgstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// readChain walks from a response ($1, of $2) to what it continues. Beyond the caps
// ($3, $4) it stops, and then sends no bodies at all. It looks into one table, and
// of that only at the partitions from $5 to $10: each that it might have to look at
// costs, whether it does or not. $6 to $9 are where an earlier statement got to.
//
// The limit of the inner query makes it a lookup, which touches one partition,
// whatever the planner thinks of their sizes.
const readChain = `
with recursive chain as (
	select id, parent, parent_items, status, depth, oldest, context, input, output, $6::int4 as items, $7::int4 + 1 as hop,
		$8::int8 + coalesce(octet_length(context), 0) + coalesce(octet_length(input), 0) + coalesce(octet_length(output), 0) as bytes
	from %[1]s where id = $1 and owner = $2 and (not deleted or $9::bool)
	union all
	select p.id, p.parent, p.parent_items, p.status, p.depth, p.oldest, p.context, p.input, p.output, c.parent_items, c.hop + 1,
		c.bytes + coalesce(octet_length(p.context), 0) + coalesce(octet_length(p.input), 0) + coalesce(octet_length(p.output), 0)
	from chain c cross join lateral (
		select id, parent, parent_items, status, depth, oldest, context, input, output
		from %[1]s where id = c.parent and owner = $2 and id >= $5 and id < $10 limit 1
	) p
	where c.hop <= $3::int4 and c.bytes <= $4::int8
), total as (
	select max(hop) <= $3::int4 and max(bytes) <= $4::int8 as within from chain
)
select id, parent, parent_items, status, depth, oldest, items, bytes, within,
	case when within then context end, case when within then input end, case when within then output end
from chain, total order by hop`

// Chain implements [store.Responses]. Most chains are of one day, and its partition
// is asked by name; where one goes on, its members say how far. The clocks of those
// who made them may differ.
func (s *Store) Chain(ctx context.Context, owner, id string, caps store.Caps) ([]store.Segment, error) {
	at, err := s.locateVisible(owner, id)
	if err != nil {
		return nil, err
	}
	w := walk{place: at, next: &at.id, items: -1}
	today := dayOf(responses.IDTime(id))
	if err := w.goOn(ctx, caps, "responses_"+today.Format(dayFormat), floorID(today), floorID(today.Add(day))); err != nil {
		return nil, err
	}
	if w.next != nil {
		if err := w.goOn(ctx, caps, "responses", floorID(w.chain[0].Oldest), floorID(today.Add(2*day))); err != nil {
			return nil, err
		}
	}
	if w.next != nil {
		if err := w.goOn(ctx, caps, "responses", [16]byte{}, lastID); err != nil {
			return nil, err
		}
	}
	if w.next != nil { // an ancestor is gone: cannot be, see store.MayLink
		return nil, store.ErrNotFound
	}
	slices.Reverse(w.chain)
	return w.chain, nil
}

// walk is a chain as far as it was read, the youngest first.
type walk struct {
	place
	chain []store.Segment
	next  *[16]byte // what the oldest continues
	items int       // how much of it
	bytes int64
}

// goOn reads on as far as the chain lies in a table between two ids.
func (w *walk) goOn(ctx context.Context, caps store.Caps, table string, from, to [16]byte) error {
	if bytes.Compare(w.next[:], from[:]) < 0 || bytes.Compare(w.next[:], to[:]) >= 0 {
		return nil
	}
	begun := *w
	return w.run(ctx, "read a chain", true, func(ctx context.Context) error {
		*w = begun
		err := w.queryAll(ctx, fmt.Sprintf(readChain, table), []any{*w.next, w.owner, caps.Depth, caps.Bytes, from, w.items, len(w.chain), w.bytes, len(w.chain) > 0, to}, w.step)
		if err == nil && len(w.chain) == 0 || sqlState(err) == undefinedTable {
			return store.ErrNotFound // of that day there is nothing
		}
		return err
	})
}

// step takes one more segment.
func (w *walk) step(rows pgx.Rows) error {
	var (
		seg    store.Segment
		id     [16]byte
		within bool
	)
	// The driver knows plain types faster than named ones.
	err := rows.Scan(&id, &w.next, &w.items, (*string)(&seg.Status), &seg.Depth, &seg.Oldest, &seg.Items, &w.bytes, &within,
		(*[]byte)(&seg.Context), (*[]byte)(&seg.Input), (*[]byte)(&seg.Output))
	if err == nil && !within {
		return store.ErrTooLong
	}
	seg.ID = formatID(responses.PrefixResponse, &id)
	w.chain = append(w.chain, seg)
	return err
}

// newestWith finds the newest response with a key a.key that its owner may see; of
// a key that many responses have, it looks at one. %s says which kind of key. It takes the
// owner as $1, and as $3 the first id that is not over its time.
const newestWith = `
cross join lateral (
	select k.response, k.items, r.depth, r.oldest
	from response_keys k
	cross join lateral (select depth, oldest from responses where id = k.response and owner = $1 and not deleted limit 1) r
	where k.owner = $1 and k.key = a.key and k.response >= $3 and k.items is %s
	order by k.response desc limit 1
) newest`

// Items implements [store.Responses]. An id of ours says where its item is; what is
// not there, or has an id of another kind, may be anywhere.
func (s *Store) Items(ctx context.Context, owner string, ids []string) ([]store.Item, error) {
	if len(ids) > store.MaxItemIDs {
		return nil, store.ErrTooLong
	}
	ask, rest := map[*cluster][]string{}, map[*cluster][]string{}
	for _, id := range ids {
		shard, ours := responses.Shard(id)
		for _, c := range s.clusters {
			if ours && c != s.of(shard) {
				rest[c] = append(rest[c], id)
			} else {
				ask[c] = append(ask[c], id)
			}
		}
	}
	found, err := s.itemsFrom(ctx, owner, ask)
	if err != nil {
		return nil, err
	}
	have := map[string]bool{}
	for _, it := range found {
		have[it.ID] = true
	}
	for c, ids := range rest {
		if rest[c] = slices.DeleteFunc(ids, func(id string) bool { return have[id] }); len(rest[c]) == 0 {
			delete(rest, c)
		}
	}
	more, err := s.itemsFrom(ctx, owner, rest)
	return append(found, more...), err
}

// itemsFrom asks several databases at once.
func (s *Store) itemsFrom(ctx context.Context, owner string, ask map[*cluster][]string) (found []store.Item, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for c, ids := range ask {
		wg.Go(func() {
			items, e := s.clusterItems(ctx, c, owner, ids)
			mu.Lock()
			defer mu.Unlock()
			found, err = append(found, items...), errors.Join(err, e)
		})
	}
	wg.Wait()
	return found, err
}

func (s *Store) clusterItems(ctx context.Context, c *cluster, owner string, ids []string) (found []store.Item, err error) {
	var keys [][]byte
	for _, id := range ids {
		keys = append(keys, itemKey(id))
	}
	err = c.run(ctx, "find items", true, func(ctx context.Context) error {
		found = nil
		// A response is sent once, however many of its items are wanted.
		return c.queryAll(ctx, `
			with found as materialized (
				select distinct newest.response as id from unnest($2::bytea[]) a (key) `+fmt.Sprintf(newestWith, "null")+`
			)
			select r.output from found cross join lateral (select output from responses where id = found.id and owner = $1 limit 1) r`,
			[]any{owner, keys, s.firstVisible()}, func(rows pgx.Rows) error {
				var body store.Body
				if err := rows.Scan(&body); err != nil {
					return err
				}
				items, err := body.Find(ids)
				found = append(found, items...)
				return err
			})
	})
	return found, err
}

// Prefix implements [store.Responses]. A client that resends its history has added
// little to it, so the last contexts are asked for first.
func (s *Store) Prefix(ctx context.Context, owner string, shard uint16, marks []store.Mark) (*store.Found, error) {
	if len(marks) > store.MaxMarks {
		return nil, store.ErrTooLong
	}
	for count := 32; len(marks) > 0; count *= 16 {
		from := max(len(marks)-count, 0)
		found, err := s.lastMarked(ctx, owner, shard, marks[from:])
		if found != nil {
			found.Mark += from
		}
		if !errors.Is(err, store.ErrNotFound) {
			return found, err
		}
		marks = marks[:from]
	}
	return nil, store.ErrNotFound
}

func (s *Store) lastMarked(ctx context.Context, owner string, shard uint16, marks []store.Mark) (*store.Found, error) {
	var keys [][]byte
	for _, m := range marks {
		keys = append(keys, markKey(shard, m))
	}
	var (
		found store.Found
		id    [16]byte
		items int
	)
	c := s.of(shard)
	err := c.run(ctx, "find a context", true, func(ctx context.Context) error {
		err := c.pool.QueryRow(ctx, `
			select a.n - 1, newest.response, newest.items, newest.depth, newest.oldest
			from unnest($2::bytea[]) with ordinality a (key, n) `+fmt.Sprintf(newestWith, "not null")+`
			order by a.n desc limit 1`,
			owner, keys, s.firstVisible()).Scan(&found.Mark, &id, &items, &found.Depth, &found.Oldest)
		if errors.Is(err, pgx.ErrNoRows) {
			return store.ErrNotFound
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	found.Link = store.Link{ID: formatID(responses.PrefixResponse, &id), Items: items}
	return &found, nil
}
