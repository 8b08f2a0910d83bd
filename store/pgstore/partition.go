package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/antiphon-dev/antiphon/store"
)

// Partitions are named after their day in UTC: responses_20260131.
const (
	day       = 24 * time.Hour
	dayFormat = "20060102"
	// ahead is how many days are prepared, so that maintenance may fail for a week.
	ahead = 7
)

// partitioned are the tables that are cut into days.
var partitioned = []string{"responses", "response_keys"}

func dayOf(t time.Time) time.Time { return t.UTC().Truncate(day) }

// Maintain makes the partitions of the next days and drops those that are over
// their time. A store does so by itself, at intervals; of several replicas, one at
// a time.
func (s *Store) Maintain(ctx context.Context) error {
	var errs []error
	for _, c := range s.clusters {
		errs = append(errs, s.makeAhead(ctx, c), s.dropOld(ctx, c))
	}
	return errors.Join(errs...)
}

// maintainEvery maintains a database until ctx ends.
func (s *Store) maintainEvery(ctx context.Context, c *cluster, interval time.Duration) {
	// Soon after the start, and not when all replicas that were started together do.
	next := time.NewTimer(interval/10 + rand.N(max(interval/10, 1)))
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			next.Reset(interval)
		}
		if err := s.dropOld(ctx, c); err != nil && ctx.Err() == nil {
			s.log.ErrorContext(ctx, "partitions that are over their time were not dropped: the database grows until this works; look for transactions that stay open, and for the rights of the user",
				"database", c.name, "error", err)
		}
		if err := s.makeAhead(ctx, c); err != nil && ctx.Err() == nil {
			s.log.ErrorContext(ctx, "the partitions of the next days were not made: responses of those days will make them, or fail; look for the rights of the user",
				"database", c.name, "error", err)
		}
	}
}

// makeAhead makes the partitions from yesterday, whose last responses may still
// run, to a week from now.
func (s *Store) makeAhead(ctx context.Context, c *cluster) error {
	today := dayOf(s.now())
	return c.run(ctx, "make partitions", true, func(ctx context.Context) error {
		return c.makeDays(ctx, today.Add(-day), today.Add(ahead*day))
	})
}

// makeFor makes the partition of a response that has none: its day was not
// prepared, or its clock is wrong.
func (s *Store) makeFor(ctx context.Context, c *cluster, made time.Time) error {
	now := s.now()
	if now.Sub(made) > store.Kept(s.retention) || made.Sub(now) > 30*day {
		return fmt.Errorf("there is no partition for a response of %s: set the clock of this machine", made.UTC().Format(time.RFC3339))
	}
	return c.makeDays(ctx, dayOf(made), dayOf(made))
}

// makeDays makes the partitions that are missing from one day to another. It does
// not get in the way of statements: a partition is made apart and then attached.
func (c *cluster) makeDays(ctx context.Context, from, to time.Time) error {
	return pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "select pg_advisory_xact_lock("+lockKey+")"); err != nil {
			return err
		}
		there, err := listPartitions(ctx, tx)
		if err != nil {
			return err
		}
		for d := from; !d.After(to); d = d.Add(day) {
			for _, table := range partitioned {
				name := table + "_" + d.Format(dayFormat)
				if there[name].state != "" {
					continue
				}
				lo, hi := floorID(d), floorID(d.Add(day))
				// Up to half a page a response lies in one piece: a body that lies apart is
				// another lookup for every member of a chain.
				_, err := tx.Exec(ctx, fmt.Sprintf(`create table %[2]s (like %[1]s including all) with (toast_tuple_target = 4080);
					alter table %[1]s attach partition %[2]s for values from ('%[3]x') to ('%[4]x')`, table, name, lo, hi), pgx.QueryExecModeSimpleProtocol)
				if err != nil {
					return fmt.Errorf("make %s: %w", name, err)
				}
			}
		}
		return nil
	})
}

// partition is a day's table. Between being attached and being dropped it is
// detaching, and then loose; a replica that died may have left it so.
type partition struct {
	table string // that it is, or was, a part of
	day   time.Time
	state string
}

const (
	attached  = "attached"
	detaching = "detaching"
	loose     = "loose"
)

// listPartitions returns the partitions by their names.
func listPartitions(ctx context.Context, db interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}) (map[string]partition, error) {
	rows, err := db.Query(ctx, `
		select parts[1], parts[2], c.relname::text, case when i.inhrelid is null then 'loose' when i.inhdetachpending then 'detaching' else 'attached' end
		from pg_class c
		cross join regexp_match(c.relname, '^(.*)_([0-9]{8})$') parts
		left join pg_inherits i on i.inhrelid = c.oid
		where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and parts[1] = any($1)`, partitioned)
	if err != nil {
		return nil, err
	}
	found := map[string]partition{}
	var table, date, name, state string
	_, err = pgx.ForEachRow(rows, []any{&table, &date, &name, &state}, func() error {
		d, err := time.Parse(dayFormat, date)
		if err == nil { // else it is not ours
			found[name] = partition{table, d, state}
		}
		return nil
	})
	return found, err
}

// dropOld drops the partitions whose youngest response is over its time. Each is
// detached first without blocking anybody. If another replica is at it, there is
// nothing to do.
func (s *Store) dropOld(ctx context.Context, c *cluster) error {
	c.drop.Lock()
	defer c.drop.Unlock()
	conn, err := c.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	// Another key than for making partitions: detaching may wait for long.
	const key = "hashtextextended('antiphon drop ' || current_schema(), 0)"
	var mine bool
	if err := conn.QueryRow(ctx, "select pg_try_advisory_lock("+key+")").Scan(&mine); err != nil || !mine {
		return err
	}
	defer func() {
		// Whatever happened, a connection that keeps the lock must not go back.
		if _, err := conn.Exec(context.WithoutCancel(ctx), "select pg_advisory_unlock("+key+")"); err != nil {
			conn.Conn().Close(context.WithoutCancel(ctx))
		}
	}()
	there, err := listPartitions(ctx, conn)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range inOrder(there) {
		p := there[name]
		if s.now().Sub(p.day.Add(day)) < store.Kept(s.retention) {
			continue
		}
		if err := dropPartition(ctx, conn, name, p); err != nil {
			errs = append(errs, fmt.Errorf("drop %s: %w", name, err))
			continue
		}
		s.log.InfoContext(ctx, "dropped a partition that is over its time", "database", c.name, "partition", name)
	}
	return errors.Join(errs...)
}

// inOrder returns the names of partitions: a table takes part in one detachment at
// a time, so one that was begun comes first, and then the oldest.
func inOrder(there map[string]partition) []string {
	rank := func(p partition) int {
		if p.state == detaching {
			return 0
		}
		return 1
	}
	return slices.SortedFunc(maps.Keys(there), func(x, y string) int {
		a, b := there[x], there[y]
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.day.Compare(b.day))
	})
}

func dropPartition(ctx context.Context, conn *pgxpool.Conn, name string, p partition) error {
	// Detaching waits for every transaction that has seen the partition.
	steps := []string{"set statement_timeout = '10min'; set lock_timeout = '10min'"}
	switch p.state {
	case attached:
		steps = append(steps, fmt.Sprintf("alter table %s detach partition %s concurrently", p.table, name))
	case detaching:
		steps = append(steps, fmt.Sprintf("alter table %s detach partition %s finalize", p.table, name))
	}
	steps = append(steps, "drop table "+name, "reset statement_timeout; reset lock_timeout")
	for _, sql := range steps {
		if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			return err
		}
	}
	return nil
}
