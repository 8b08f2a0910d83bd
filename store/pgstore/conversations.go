package pgstore

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// lockConversation goes before whatever changes the items of a conversation: the
// statement after it sees all that was added before.
const lockConversation = "select from conversations where id = $1 and owner = $2 for update"

// freshItems are those of the given items that a conversation does not have, and
// room says whether they fit into it.
func freshItems(keys, bodies, id, owner string) string {
	return fmt.Sprintf(`
fresh as (
	select i.key, i.body, row_number() over (order by i.n) as n
	from unnest(%[1]s::bytea[], %[2]s::bytea[]) with ordinality i (key, body, n)
	left join lateral (select true as there from conversation_items where conversation = %[3]s and owner = %[4]s and key = i.key limit 1) had on true
	where had.there is null
), room as (
	select items + (select count(*) from fresh) <= %[5]d as fits from conversations where id = %[3]s and owner = %[4]s
)`, keys, bodies, id, owner, store.MaxConversationItems)
}

// growConversation adds fresh items at the end on a condition.
func growConversation(id, owner, condition string) string {
	return fmt.Sprintf(`
grown as (
	update conversations set items = items + (select count(*) from fresh), next = next + (select count(*) from fresh)
	where id = %[1]s and owner = %[2]s and %[3]s
	returning id, owner, next - (select count(*) from fresh) as first
), added as (
	insert into conversation_items (conversation, owner, position, key, body)
	select grown.id, grown.owner, grown.first + fresh.n - 1, fresh.key, fresh.body from grown, fresh
)`, id, owner, condition)
}

var addToConversation = "with" + freshItems("$3", "$4", "$1", "$2") + "," + growConversation("$1", "$2", "(select fits from room)") + `
select exists (select from room), coalesce((select fits from room), true)`

// packEach returns the keys and bodies of items. Of those with the same id, the
// first counts.
func packEach(lists ...[]store.Item) (keys, bodies [][]byte) {
	seen := map[string]bool{}
	keys, bodies = [][]byte{}, [][]byte{}
	for _, items := range lists {
		for _, it := range items {
			if seen[it.ID] {
				continue
			}
			seen[it.ID] = true
			keys, bodies = append(keys, itemKey(it.ID)), append(bodies, store.PackItems([]store.Item{it}))
		}
	}
	return keys, bodies
}

// unpackOne is the opposite of packEach for one item.
func unpackOne(body store.Body) (store.Item, error) {
	items, err := body.Items(math.MaxInt)
	if err != nil || len(items) != 1 {
		return store.Item{}, errors.Join(err, fmt.Errorf("pgstore: a body of %d items, not 1", len(items)))
	}
	return items[0], nil
}

func (s *Store) locateConversation(owner, id string) (place, error) {
	return s.locate(owner, responses.PrefixConversation, id)
}

// CreateConversation implements [store.Conversations].
func (s *Store) CreateConversation(ctx context.Context, owner string, c *store.Conversation, items []store.Item) error {
	at, err := s.locateConversation(owner, c.ID)
	if err != nil {
		return fmt.Errorf("pgstore: %q cannot be the id of a conversation", c.ID)
	}
	keys, bodies := packEach(items)
	if len(keys) > store.MaxConversationItems {
		return store.ErrTooLong
	}
	return at.run(ctx, "create a conversation", true, func(ctx context.Context) error {
		_, err := at.pool.Exec(ctx, `
			with new as (
				insert into conversations (id, owner, metadata, items, next) values ($1, $2, $3, $4::int4, $4::int4)
				on conflict do nothing returning id
			)
			insert into conversation_items (conversation, owner, position, key, body)
			select new.id, $2::text, i.n - 1, i.key, i.body from new, unnest($5::bytea[], $6::bytea[]) with ordinality i (key, body, n)`,
			at.id, owner, []byte(store.Pack(c.Metadata)), len(keys), keys, bodies)
		return err
	})
}

// GetConversation implements [store.Conversations].
func (s *Store) GetConversation(ctx context.Context, owner, id string) (*store.Conversation, error) {
	at, err := s.locateConversation(owner, id)
	if err != nil {
		return nil, err
	}
	var body store.Body
	err = at.run(ctx, "get a conversation", true, func(ctx context.Context) error {
		return notFound(at.pool.QueryRow(ctx, "select metadata from conversations where id = $1 and owner = $2", at.id, owner).Scan(&body))
	})
	if err != nil {
		return nil, err
	}
	metadata, err := body.Unpack(math.MaxInt)
	return &store.Conversation{ID: id, Metadata: metadata}, err
}

// notFound says in the words of the contract that there is no row.
func notFound(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return store.ErrNotFound
	}
	return err
}

// UpdateConversation implements [store.Conversations].
func (s *Store) UpdateConversation(ctx context.Context, owner, id string, metadata jsontext.Value) (*store.Conversation, error) {
	at, err := s.locateConversation(owner, id)
	if err != nil {
		return nil, err
	}
	err = at.run(ctx, "update a conversation", true, func(ctx context.Context) error {
		done, err := at.pool.Exec(ctx, "update conversations set metadata = $3 where id = $1 and owner = $2", at.id, owner, []byte(store.Pack(metadata)))
		if err == nil && done.RowsAffected() == 0 {
			return store.ErrNotFound
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &store.Conversation{ID: id, Metadata: metadata.Clone()}, nil
}

// DeleteConversation implements [store.Conversations].
func (s *Store) DeleteConversation(ctx context.Context, owner, id string) error {
	at, err := s.locateConversation(owner, id)
	if err != nil {
		return err
	}
	return at.run(ctx, "delete a conversation", false, func(ctx context.Context) error {
		var gone int64
		batch := &pgx.Batch{}
		batch.Queue(lockConversation, at.id, owner)
		batch.Queue("delete from conversation_items where conversation = $1 and owner = $2", at.id, owner)
		batch.Queue("delete from conversations where id = $1 and owner = $2", at.id, owner).Exec(func(done pgconn.CommandTag) error {
			gone = done.RowsAffected()
			return nil
		})
		err := at.pool.SendBatch(ctx, batch).Close()
		if err == nil && gone == 0 {
			return store.ErrNotFound
		}
		return err
	})
}

// AddItems implements [store.Conversations].
func (s *Store) AddItems(ctx context.Context, owner, id string, items []store.Item) error {
	at, err := s.locateConversation(owner, id)
	if err != nil {
		return err
	}
	return at.run(ctx, "add items to a conversation", true, func(ctx context.Context) error {
		return at.add(ctx, at.pool, items)
	})
}

// add adds items to the conversation at a place in one round trip.
func (at place) add(ctx context.Context, db interface {
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}, lists ...[]store.Item) error {
	keys, bodies := packEach(lists...)
	var there, fits bool
	batch := &pgx.Batch{}
	batch.Queue(lockConversation, at.id, at.owner)
	batch.Queue(addToConversation, at.id, at.owner, keys, bodies).QueryRow(func(row pgx.Row) error { return row.Scan(&there, &fits) })
	err := db.SendBatch(ctx, batch).Close()
	switch {
	case err != nil:
		return err
	case !there:
		return store.ErrNotFound
	case !fits:
		return store.ErrTooLong
	}
	return nil
}

// listItems returns a page and one item more, if there is one, and no bodies from
// where they are too large together. It is told the direction, its comparison, and
// what is before the first position.
const listItems = `
select i.n, case when $5::int8 = 0 or i.bytes <= $5 then i.body end
from (
	select row_number() over page as n, sum(octet_length(body)) over page as bytes, body
	from (
		select position, body from conversation_items
		where conversation = $1 and owner = $2
		and position %[2]s coalesce((select position from conversation_items where conversation = $1 and owner = $2 and key = $3), %[3]d)
		order by position %[1]s limit $4
	) one
	window page as (order by position %[1]s)
) i order by i.n`

var listAscending, listDescending = fmt.Sprintf(listItems, "asc", ">", -1), fmt.Sprintf(listItems, "desc", "<", math.MaxInt64)

// ListItems implements [store.Conversations].
func (s *Store) ListItems(ctx context.Context, owner, id string, p store.Page) (items []store.Item, more bool, err error) {
	at, err := s.locateConversation(owner, id)
	if err != nil {
		return nil, false, err
	}
	var after []byte
	if p.After != "" {
		after = itemKey(p.After)
	}
	list := listAscending
	if p.Descending {
		list = listDescending
	}
	limit := p.Limit
	if limit <= 0 {
		limit = store.MaxConversationItems
	}
	err = at.run(ctx, "list the items of a conversation", true, func(ctx context.Context) error {
		items, more = nil, false
		// What is listed and whether there is anything to list are one round trip.
		batch := &pgx.Batch{}
		batch.Queue(`select ($3::bytea is null or exists (select from conversation_items where conversation = $1 and owner = $2 and key = $3))
			from conversations where id = $1 and owner = $2`, at.id, owner, after).QueryRow(func(row pgx.Row) error {
			var there bool
			if err := notFound(row.Scan(&there)); err != nil || there {
				return err
			}
			return store.ErrNotFound
		})
		batch.Queue(list, at.id, owner, after, limit+1, p.Bytes).Query(func(rows pgx.Rows) error {
			for rows.Next() {
				var n int
				var body store.Body
				if err := rows.Scan(&n, &body); err != nil {
					return err
				}
				if n > limit {
					more = true
					continue
				}
				if body == nil {
					return store.ErrTooLong
				}
				it, err := unpackOne(body)
				if err != nil {
					return err
				}
				items = append(items, it)
			}
			return rows.Err()
		})
		return at.pool.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return nil, false, err
	}
	return items, more, nil
}

// GetItem implements [store.Conversations].
func (s *Store) GetItem(ctx context.Context, owner, id, item string) (store.Item, error) {
	at, err := s.locateConversation(owner, id)
	if err != nil {
		return store.Item{}, err
	}
	var body store.Body
	err = at.run(ctx, "get an item of a conversation", true, func(ctx context.Context) error {
		return notFound(at.pool.QueryRow(ctx, "select body from conversation_items where conversation = $1 and owner = $2 and key = $3",
			at.id, owner, itemKey(item)).Scan(&body))
	})
	if err != nil {
		return store.Item{}, err
	}
	return unpackOne(body)
}

// DeleteItem implements [store.Conversations].
func (s *Store) DeleteItem(ctx context.Context, owner, id, item string) error {
	at, err := s.locateConversation(owner, id)
	if err != nil {
		return err
	}
	return at.run(ctx, "delete an item of a conversation", false, func(ctx context.Context) error {
		var gone int64
		batch := &pgx.Batch{}
		batch.Queue(lockConversation, at.id, owner)
		batch.Queue(`
			with gone as (
				delete from conversation_items where conversation = $1 and owner = $2 and key = $3 returning conversation
			)
			update conversations set items = items - 1 from gone where id = $1 and owner = $2`, at.id, owner, itemKey(item)).
			Exec(func(done pgconn.CommandTag) error {
				gone = done.RowsAffected()
				return nil
			})
		err := at.pool.SendBatch(ctx, batch).Close()
		if err == nil && gone == 0 {
			return store.ErrNotFound
		}
		return err
	})
}
