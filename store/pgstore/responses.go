package pgstore

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// insertResponse writes a response and its keys unless it is there, or what it
// continues is not. The lock on that keeps it from being deleted meanwhile.
const insertResponse = `
link as (
	select from responses where id = $3 and owner = $2 and not deleted for share
), new as (
	insert into responses (id, owner, parent, parent_items, conversation, epoch, oldest, depth, status, losses, draft_keys, head, context, input, output)
	select $1::uuid, $2::text, $3::uuid, $4::int4, $5::uuid, $6::int8, $7::timestamptz, $8::int4, $9::text, $10::bytea,
		case when $11::bool then $16::bytea[] end, $12::bytea, $13::bytea, $14::bytea, $15::bytea
	where ($3::uuid is null or exists (select from link)) and %s
	on conflict do nothing
	returning id
), keyed as (
	insert into response_keys (response, owner, key, items)
	select new.id, $2, k.key, k.items from new, unnest($16::bytea[], $17::int4[]) k (key, items)
)`

// plainArgs is how many arguments insertResponse has.
const plainArgs = 17

var (
	createResponse = "with" + fmt.Sprintf(insertResponse, "true") + `
select exists (select from new), $3::uuid is null or exists (select from link), true, true`

	// Its conversation is locked by the statement before it.
	createInConversation = "with" + freshItems("$18", "$19", "$5", "$2") + "," +
		fmt.Sprintf(insertResponse, "(select fits from room)") + "," +
		growConversation("$5", "$2", "exists (select from new)") + `
select exists (select from new), $3::uuid is null or exists (select from link), exists (select from room), coalesce((select fits from room), true)`
)

// Create implements [store.Responses].
func (s *Store) Create(ctx context.Context, owner string, r *store.Record) error {
	at, err := s.locate(owner, responses.PrefixResponse, r.ID)
	if err != nil {
		return fmt.Errorf("pgstore: %q cannot be the id of a response", r.ID)
	}
	parent, ok := optionalID(responses.PrefixResponse, r.Link.ID)
	if !ok {
		return store.ErrLinkGone
	}
	conversation, ok := optionalID(responses.PrefixConversation, r.Conversation)
	if !ok {
		return store.ErrNotFound
	}
	losses, err := packLosses(r.Losses)
	if err != nil {
		return err
	}
	keys, items := keys(r)
	args := []any{
		at.id, owner, parent, r.Link.Items, conversation, r.Epoch, r.Oldest, r.Depth, string(r.Status), losses, !store.Ended(r.Status),
		[]byte(store.Pack(r.Head)), []byte(store.PackItems(r.Context)), []byte(store.PackItems(r.Input)), []byte(store.PackItems(r.Output)), keys, items,
	}
	if extends(r.Conversation, r.Status) {
		itemKeys, bodies := packEach(r.Input, r.Output)
		args = append(args, itemKeys, bodies)
	}
	return at.run(ctx, "create a response", true, func(ctx context.Context) error {
		err := at.create(ctx, conversation, args)
		if sqlState(err) == checkViolation {
			if err := s.makeFor(ctx, at.cluster, r.Created()); err != nil {
				return err
			}
			err = at.create(ctx, conversation, args)
		}
		return err
	})
}

// create writes a response in one round trip, and looks further only if it was not
// written.
func (at place) create(ctx context.Context, conversation *[16]byte, args []any) error {
	var created, linked, there, fits bool
	batch := &pgx.Batch{}
	read := func(row pgx.Row) error { return row.Scan(&created, &linked, &there, &fits) }
	if len(args) > plainArgs {
		batch.Queue(lockConversation, conversation, at.owner)
		batch.Queue(createInConversation, args...).QueryRow(read)
	} else {
		batch.Queue(createResponse, args...).QueryRow(read)
	}
	if err := at.pool.SendBatch(ctx, batch).Close(); err != nil || created {
		return err
	}
	var exists bool
	err := at.pool.QueryRow(ctx, "select exists (select from responses where id = $1 and owner = $2)", at.id, at.owner).Scan(&exists)
	switch {
	case err != nil || exists:
		return err
	case !linked:
		return store.ErrLinkGone
	case !there:
		return store.ErrNotFound
	case !fits:
		return store.ErrTooLong
	}
	return fmt.Errorf("response %x was not written", at.id)
}

// extends reports whether a response adds to a conversation.
func extends(conversation string, status responses.Status) bool {
	return conversation != "" && (status == responses.StatusCompleted || status == responses.StatusIncomplete)
}

func packLosses(losses []responses.Loss) ([]byte, error) {
	if len(losses) == 0 {
		return nil, nil
	}
	plain, err := json.Marshal(losses)
	return store.Pack(plain), err
}

// Update implements [store.Responses].
func (s *Store) Update(ctx context.Context, owner string, r *store.Record) error {
	at, err := s.locateVisible(owner, r.ID)
	if err != nil {
		return err
	}
	losses, err := packLosses(r.Losses)
	if err != nil {
		return err
	}
	head, output := []byte(store.Pack(r.Head)), []byte(store.PackItems(r.Output))
	keys, items := keys(r)
	return at.run(ctx, "update a response", true, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, at.pool, func(tx pgx.Tx) error {
			old, err := at.lockForUpdate(ctx, tx, r)
			if err != nil || old == nil {
				return err
			}
			if extends(old.conversation, r.Status) {
				input, err := old.input.Items(math.MaxInt)
				if err != nil {
					return err
				}
				conversation, err := s.locate(owner, responses.PrefixConversation, old.conversation)
				if err != nil {
					return err
				}
				if err := conversation.add(ctx, tx, input, r.Output); err != nil {
					return err
				}
			}
			_, err = tx.Exec(ctx, `
				with old as (
					delete from response_keys where response = $1 and owner = $2 and key = any($3)
				), new as (
					update responses set epoch = $4, status = $5, losses = $6, draft_keys = case when $7::bool then $10::bytea[] end, head = $8, output = $9
					where id = $1 and owner = $2
				)
				insert into response_keys (response, owner, key, items)
				select $1::uuid, $2::text, k.key, k.items from unnest($10::bytea[], $11::int4[]) k (key, items)`,
				at.id, owner, old.keys, r.Epoch, string(r.Status), losses, !store.Ended(r.Status), head, output, keys, items)
			return err
		})
	})
}

// draft is what an update needs to know of a response that has not ended.
type draft struct {
	conversation string
	input        store.Body
	keys         [][]byte
}

// lockForUpdate returns the response that r is a later state of, and nil if it is
// that already.
func (at place) lockForUpdate(ctx context.Context, tx pgx.Tx, r *store.Record) (*draft, error) {
	var (
		old          draft
		status       string
		epoch        int64
		conversation *[16]byte
	)
	err := tx.QueryRow(ctx, "select status, epoch, conversation, input, draft_keys from responses where id = $1 and owner = $2 and not deleted for update",
		at.id, at.owner).Scan(&status, &epoch, &conversation, &old.input, &old.keys)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, store.ErrNotFound
	case err != nil:
		return nil, err
	case epoch > r.Epoch:
		return nil, store.ErrFenced
	case store.Ended(responses.Status(status)):
		if status == string(r.Status) {
			return nil, nil
		}
		return nil, store.ErrFenced
	}
	old.conversation = formatID(responses.PrefixConversation, conversation)
	return &old, nil
}

// Get implements [store.Responses].
func (s *Store) Get(ctx context.Context, owner, id string) (*store.Record, error) {
	at, err := s.locateVisible(owner, id)
	if err != nil {
		return nil, err
	}
	r := &store.Record{ID: id}
	var parent, conversation *[16]byte
	var head, losses, before, input, output store.Body
	err = at.run(ctx, "get a response", true, func(ctx context.Context) error {
		err := at.pool.QueryRow(ctx, `
			select status, epoch, parent, parent_items, depth, oldest, conversation, head, losses, context, input, output
			from responses where id = $1 and owner = $2 and not deleted`, at.id, owner).
			Scan(&r.Status, &r.Epoch, &parent, &r.Link.Items, &r.Depth, &r.Oldest, &conversation, &head, &losses, &before, &input, &output)
		if errors.Is(err, pgx.ErrNoRows) {
			return store.ErrNotFound
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	r.Link.ID, r.Conversation = formatID(responses.PrefixResponse, parent), formatID(responses.PrefixConversation, conversation)
	for _, b := range []struct {
		dst  *[]store.Item
		body store.Body
	}{{&r.Context, before}, {&r.Input, input}, {&r.Output, output}} {
		if *b.dst, err = b.body.Items(math.MaxInt); err != nil {
			return nil, err
		}
	}
	if r.Head, err = head.Unpack(math.MaxInt); err != nil || len(losses) == 0 {
		return r, err
	}
	plain, err := losses.Unpack(math.MaxInt)
	if err != nil {
		return nil, err
	}
	return r, json.Unmarshal(plain, &r.Losses)
}

// Delete implements [store.Responses].
func (s *Store) Delete(ctx context.Context, owner, id string) error {
	at, err := s.locateVisible(owner, id)
	if err != nil {
		return err
	}
	return at.run(ctx, "delete a response", false, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, at.pool, func(tx pgx.Tx) error {
			gone, err := tx.Exec(ctx, "update responses set deleted = true where id = $1 and owner = $2 and not deleted", at.id, owner)
			if err != nil {
				return err
			}
			if gone.RowsAffected() == 0 {
				return store.ErrNotFound
			}
			return at.wipe(ctx, tx)
		})
	})
}

// wipe forgets the content of a deleted response that nothing continues, and then
// of the deleted ones that only it continued. Their ids stay taken. Who continues
// a response is asked by a new statement, after its row was locked.
func (at place) wipe(ctx context.Context, tx pgx.Tx) error {
	for next := &at.id; next != nil; {
		err := tx.QueryRow(ctx, `
			with last as (
				select id, owner, parent from responses r where id = $1 and owner = $2 and deleted
				and not exists (select from responses c where c.parent = r.id and c.owner = r.owner)
				for update
			)
			update responses r set parent = null, losses = null, draft_keys = null, head = null, context = null, input = null, output = null
			from last where r.id = last.id and r.id = $1 and r.owner = last.owner
			returning last.parent`, *next, at.owner).Scan(&next)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
