package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

const (
	benchRetention = 30 * 24 * time.Hour
	chainTurns     = 50
	chainBytes     = 4 << 10 // of a turn
	writers        = 16
)

var benchCaps = store.Caps{Depth: 1000, Bytes: 64 << 20}

// measurePostgres compares what the store does in PostgreSQL with the least that
// PostgreSQL can do: a chain with one row, a response with a row of pgbench.
func measurePostgres(ctx context.Context, r *rig, s *section) error {
	db, err := newDatabase()
	if err != nil {
		return err
	}
	defer db.Remove()
	for _, part := range []func(context.Context, *rig, *section, *database) error{measureChains, measureWrites, measureBytes} {
		if err := part(ctx, r, s, db); err != nil {
			return err
		}
	}
	return nil
}

// measureChains reads chains that lie in one partition and in thirty, and single
// rows of the same size, in turns.
func measureChains(ctx context.Context, r *rig, s *section, db *database) error {
	one, err := db.keeper(ctx, "one", benchRetention, 0)
	if err != nil {
		return err
	}
	defer one.close()
	midday := time.Now().UTC().Truncate(24 * time.Hour).Add(12 * time.Hour)
	if err := one.leaveOnly(ctx, midday); err != nil {
		return err
	}
	narrow, err := one.chain(ctx, chainTurns, chainBytes, midday, time.Second)
	if err != nil {
		return err
	}
	long, err := one.chain(ctx, pick(r, 1000, 200), 1<<10, midday, time.Second)
	if err != nil {
		return err
	}
	thirty, err := db.keeper(ctx, "thirty", 2*benchRetention, 0)
	if err != nil {
		return err
	}
	defer thirty.close()
	const span = 29 * 24 * time.Hour
	wide, err := thirty.chain(ctx, chainTurns, chainBytes, midday.Add(-span), span/(chainTurns-1))
	if err != nil {
		return err
	}
	today, err := thirty.chain(ctx, chainTurns, chainBytes, midday, time.Second)
	if err != nil {
		return err
	}
	for _, k := range []*keeper{one, thirty} {
		if err := k.exec(ctx, "analyze"); err != nil {
			return err
		}
	}
	reads := []*timed{
		{name: "row", do: func(ctx context.Context) error { return one.row(ctx, narrow.ID) }},
		{name: "chain in the only partition", do: func(ctx context.Context) error { return one.read(ctx, narrow.ID, chainTurns) }},
		{name: "chain in one of 38 partitions", do: func(ctx context.Context) error { return thirty.read(ctx, today.ID, chainTurns) }},
		{name: "chain over 30 of them", do: func(ctx context.Context) error { return thirty.read(ctx, wide.ID, chainTurns) }},
		{name: "long chain", do: func(ctx context.Context) error { return one.read(ctx, long.ID, long.Depth+1) }},
	}
	rounds, each := pick(r, 15, 5), pick(r, 40, 10)
	for range rounds {
		for _, t := range reads {
			if err := t.round(ctx, each); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
	}
	for _, t := range reads {
		r.say("postgres: %s: %s", t.name, format(spreadOf(t.best).median*1e3, "ms"))
	}
	row, chain := reads[0].best, reads[1].best
	s.add(rowAt("a row of 4 KB", spreadOf(row).median*1e3, "ms"))
	s.addSpread(rowOf("chain of 50, to one row", "×", atMost(15)), spreadOf(paired(chain, row)))
	s.addSpread(rowOf("chain of 50, in one of 38 partitions to in the only one", "×", atMost(1.2)), spreadOf(paired(reads[2].best, chain)))
	s.addSpread(rowOf("chain of 50, over 30 partitions to in the only one", "×", atMost(1.2)), spreadOf(paired(reads[3].best, chain)))
	s.addSpread(rowOf(fmt.Sprintf("chain of %d, to one row", long.Depth+1), "×", nil), spreadOf(paired(reads[4].best, row)))
	return nil
}

func rowAt(metric string, value float64, unit string) row {
	return row{Metric: metric, Value: value, Unit: unit}
}

func rowOf(metric, unit string, l *limit) row { return row{Metric: metric, Unit: unit, Limit: l} }

// timed is something that is done again and again.
type timed struct {
	name string
	do   func(context.Context) error
	best []float64 // a tenth of each round was faster, in seconds
}

// round does it some times. Who else uses the machine interrupts what takes long
// more often than what does not, so the fast ones are compared.
func (t *timed) round(ctx context.Context, times int) error {
	took := make([]float64, times)
	for i := range took {
		began := time.Now()
		if err := t.do(ctx); err != nil {
			return err
		}
		took[i] = time.Since(began).Seconds()
	}
	t.best = append(t.best, percentile(took, 0.1))
	return nil
}

// leaveOnly drops the partitions of all days but one.
func (k *keeper) leaveOnly(ctx context.Context, day time.Time) error {
	return k.exec(ctx, fmt.Sprintf(`do $$ declare name text; begin
		for name in select relname from pg_class where relnamespace = current_schema()::regnamespace and relkind = 'r' and relname ~ '_[0-9]{8}$' and relname !~ '%s$' loop
			execute 'drop table ' || name;
		end loop; end $$`, day.Format("20060102")))
}

// row reads one row, with its bodies, by the bare driver.
func (k *keeper) row(ctx context.Context, id string) error {
	key, _ := responses.IDBytes(id)
	var before, input, output []byte
	return k.bare.QueryRow(ctx, "select context, input, output from responses where id = $1 and owner = $2", key, benchOwner).Scan(&before, &input, &output)
}

func (k *keeper) read(ctx context.Context, id string, want int) error {
	chain, err := k.Chain(ctx, benchOwner, id, benchCaps)
	if err == nil && len(chain) != want {
		err = fmt.Errorf("a chain of %d, not %d", len(chain), want)
	}
	return err
}

// measureWrites keeps responses that continue others, and lets pgbench write, in
// turns.
func measureWrites(ctx context.Context, r *rig, s *section, db *database) error {
	if _, err := db.pgbench(ctx, "-i", "-q", "-s", "10"); err != nil {
		return err
	}
	k, err := db.keeper(ctx, "writes", benchRetention, 0)
	if err != nil {
		return err
	}
	defer k.close()
	length := pick(r, 6*time.Second, 2*time.Second)
	var ours, theirs []float64
	for range pick(r, 5, 2) {
		tps, err := db.pgbench(ctx, "-N", "-n", "-M", "prepared", "-c", fmt.Sprint(writers), "-j", "2", "-T", fmt.Sprint(int(length.Seconds())))
		if err != nil {
			return err
		}
		puts, err := k.puts(ctx, length)
		if err != nil {
			return err
		}
		r.say("postgres: %s puts/s, pgbench -N %s/s", format(puts, ""), format(tps, ""))
		ours, theirs = append(ours, puts), append(theirs, tps)
	}
	s.addSpread(rowOf("puts of 4 KB at 16 writers", "/s", nil), spreadOf(ours))
	s.addSpread(rowOf("puts, to pgbench -N", "×", atLeast(0.5)), spreadOf(paired(ours, theirs)))
	return nil
}

// puts lets writers each extend a chain for a while, and returns how many
// responses were kept in a second.
func (k *keeper) puts(ctx context.Context, length time.Duration) (float64, error) {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		total int
		first error
	)
	began := time.Now()
	for range writers {
		wg.Go(func() {
			n, err := k.extend(ctx, began.Add(length))
			mu.Lock()
			defer mu.Unlock()
			if total += n; first == nil {
				first = err
			}
		})
	}
	wg.Wait()
	return float64(total) / time.Since(began).Seconds(), first
}

func (k *keeper) extend(ctx context.Context, until time.Time) (n int, err error) {
	body := turn(time.Now(), nil, chainBytes) // the noise is made once: it is not what is measured
	var last *store.Record
	for time.Now().Before(until) {
		r := turn(time.Now(), last, 0)
		r.Input[0].Data, r.Output[0].Data = body.Input[0].Data, body.Output[0].Data
		if err := k.Create(ctx, benchOwner, r); err != nil {
			return n, err
		}
		last = r
		if n++; n%chainTurns == 0 {
			last = nil
		}
	}
	return n, nil
}

// measureBytes keeps a conversation of 50 turns of 20 KB, by links and as what a
// client resends is recognised, and counts what PostgreSQL wrote.
func measureBytes(ctx context.Context, _ *rig, s *section, db *database) error {
	for _, resent := range []bool{false, true} {
		name := map[bool]string{false: "chain", true: "resent"}[resent]
		k, err := db.keeper(ctx, name, benchRetention, 0)
		if err != nil {
			return err
		}
		err = k.countBytes(ctx, s, name, resent)
		k.close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (k *keeper) countBytes(ctx context.Context, s *section, name string, resent bool) error {
	if err := k.exec(ctx, "checkpoint"); err != nil {
		return err
	}
	const (
		sizes = "select sum(pg_total_relation_size(oid))::float8 from pg_class where relnamespace = current_schema()::regnamespace and relkind = 'r'"
		wal   = "select (pg_current_wal_insert_lsn() - '0/0')::float8"
	)
	sizeBefore, err := k.number(ctx, sizes)
	if err != nil {
		return err
	}
	walBefore, err := k.number(ctx, wal)
	if err != nil {
		return err
	}
	sum, err := k.converse(ctx, resent)
	if err != nil {
		return err
	}
	sizeAfter, err := k.number(ctx, sizes)
	if err != nil {
		return err
	}
	walAfter, err := k.number(ctx, wal)
	if err != nil {
		return err
	}
	s.add(
		row{Metric: "50 turns of 20 KB, " + name + ": tables and indexes, to the turns", Value: (sizeAfter - sizeBefore) / sum, Unit: "×", Limit: atMost(1.3).hard()},
		row{Metric: "50 turns of 20 KB, " + name + ": log, to the turns", Value: (walAfter - walBefore) / sum, Unit: "×", Limit: atMost(1.3)},
	)
	return nil
}

// converse keeps the turns of a conversation and returns how many bytes they are.
func (k *keeper) converse(ctx context.Context, resent bool) (sum float64, err error) {
	var last *store.Record
	var marks []store.Mark
	for range chainTurns {
		r := turn(time.Now(), last, 20<<10)
		if resent && last != nil {
			shard, _ := responses.Shard(r.ID)
			found, err := k.Prefix(ctx, benchOwner, shard, marks)
			if err != nil {
				return 0, err
			}
			r.Link = found.Link
		}
		for _, it := range append(r.Input[:1:1], r.Output...) {
			sum += float64(len(it.Data))
			if resent {
				marks = append(marks, store.Mark{Hash: sha256.Sum256(it.Data), Items: len(r.Marks) + 1})
				r.Marks = append(r.Marks, marks[len(marks)-1])
			}
		}
		if err := k.Create(ctx, benchOwner, r); err != nil {
			return 0, err
		}
		last = r
	}
	return sum, k.read(ctx, last.ID, chainTurns)
}
