package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

const (
	oneDay      = 24 * time.Hour
	keptDays    = 20            // the retention
	loadedDays  = 40            // a quarter of them is over its time
	livingTurns = 20            // of a chain
	quietTime   = time.Second   // a statement should not wait longer
	livingSpan  = 10*oneDay - 1 // of a chain: as far as it may reach back
)

// measureRetention fills a database with responses of 1 KB over forty days, then
// has what is over its time dropped while others read and write: nobody waits,
// space is returned, and no chain that is alive is cut.
func measureRetention(ctx context.Context, r *rig, s *section) error {
	db, err := newDatabase()
	if err != nil {
		return err
	}
	defer db.Remove()
	if err := db.fortyDays(ctx); err != nil {
		return err
	}
	k, err := db.keeper(ctx, "kept", keptDays*oneDay, 0)
	if err != nil {
		return err
	}
	defer k.close()
	n := pick(r, 1_000_000, 50_000)
	took, err := k.load(ctx, n)
	if err != nil {
		return err
	}
	r.say("retention: %s responses loaded in %v", format(float64(n), ""), took.Round(time.Second))
	living, err := k.livingChains(ctx, pick(r, 200, 50))
	if err != nil {
		return err
	}
	return k.dropUnderTraffic(ctx, r, s, living)
}

// fortyDays makes the partitions of the past, by a store that drops nothing.
func (d *database) fortyDays(ctx context.Context) error {
	k, err := d.keeper(ctx, "kept", 10*loadedDays*oneDay, -loadedDays*oneDay)
	if err != nil {
		return err
	}
	defer k.close()
	for back := loadedDays; back > 0; back -= 7 { // each makes a week of them
		k.clock.set(-time.Duration(back) * oneDay)
		if err := k.Maintain(ctx); err != nil {
			return err
		}
	}
	return nil
}

// load copies responses of one input and one output item into all days, and their
// keys.
func (k *keeper) load(ctx context.Context, n int) (time.Duration, error) {
	began := time.Now()
	body := turn(began, nil, 900)
	packed := [][]byte{store.Pack(body.Head), store.PackItems(body.Input), store.PackItems(body.Output)}
	ids := make([][16]byte, n)
	for i := range ids {
		at := began.Add(-time.Duration(rand.Int64N(int64(loadedDays * oneDay))))
		ids[i], _ = responses.IDBytes(responses.NewID(responses.PrefixResponse, responses.RandomShard(), at))
	}
	_, err := k.bare.CopyFrom(ctx, pgx.Identifier{"responses"}, []string{"id", "owner", "parent_items", "epoch", "oldest", "depth", "status", "head", "input", "output"},
		pgx.CopyFromSlice(n, func(i int) ([]any, error) {
			return []any{ids[i], benchOwner, 0, 1, began, 0, "completed", packed[0], packed[1], packed[2]}, nil
		}))
	if err != nil {
		return 0, err
	}
	_, err = k.bare.CopyFrom(ctx, pgx.Identifier{"response_keys"}, []string{"response", "owner", "key"},
		pgx.CopyFromSlice(n, func(i int) ([]any, error) {
			return []any{ids[i], benchOwner, fmt.Appendf(nil, "msg_%x", ids[i])}, nil
		}))
	return time.Since(began), err
}

// livingChains keeps chains whose last members are in their last hours, and whose
// first are as old as the contract allows.
func (k *keeper) livingChains(ctx context.Context, n int) (tips []string, err error) {
	for i := range n {
		tip := k.clock.Now().Add(-keptDays*oneDay + time.Hour + time.Duration(i)*time.Minute)
		last, err := k.chain(ctx, livingTurns, 1<<10, tip.Add(-livingSpan+time.Hour), (livingSpan-time.Hour)/(livingTurns-1))
		if err != nil {
			return nil, err
		}
		tips = append(tips, last.ID)
	}
	return tips, nil
}

// dropUnderTraffic lets eight clients work, first alone and then while partitions
// are dropped.
func (k *keeper) dropUnderTraffic(ctx context.Context, r *rig, s *section, living []string) error {
	before, err := k.size(ctx)
	if err != nil {
		return err
	}
	alone := k.startTraffic(ctx)
	time.Sleep(pick(r, 10*time.Second, 3*time.Second))
	quiet, err := alone.stop()
	if err != nil {
		return err
	}
	during := k.startTraffic(ctx)
	began := time.Now()
	dropErr := k.Maintain(ctx)
	took := time.Since(began)
	time.Sleep(2 * time.Second)
	slowest, err := during.stop()
	if err := errors.Join(dropErr, err); err != nil {
		return err
	}
	after, err := k.size(ctx)
	if err != nil {
		return err
	}
	cut := 0
	for _, id := range living {
		if err := k.read(ctx, id, livingTurns); err != nil {
			cut++
		}
	}
	s.add(
		row{Metric: "responses before, over 40 days", Value: before.responses},
		row{Metric: "responses after, over 30 days", Value: after.responses},
		row{Metric: "dropping ten days took", Value: took.Seconds(), Unit: "s"},
		row{Metric: "slowest statement without it", Value: quiet.Seconds(), Unit: "s"},
		row{Metric: "slowest statement meanwhile", Value: slowest.Seconds(), Unit: "s", Limit: atMost(quietTime.Seconds())},
		row{Metric: "space, to what it was", Value: after.bytes / before.bytes, Unit: "×", Limit: atMost(0.85).hard()},
		row{Metric: fmt.Sprintf("chains that were cut, of %d", len(living)), Value: float64(cut), Limit: atMost(0).hard()},
	)
	return nil
}

type keptSize struct{ responses, bytes float64 }

func (k *keeper) size(ctx context.Context) (s keptSize, err error) {
	if s.bytes, err = k.number(ctx, "select pg_database_size(current_database())::float8"); err != nil {
		return s, err
	}
	s.responses, err = k.number(ctx, "select count(*)::float8 from responses")
	return s, err
}

// traffic is clients that write and read.
type traffic struct {
	done    chan struct{}
	clients sync.WaitGroup

	mu      sync.Mutex
	slowest time.Duration // guarded by mu
	err     error         // guarded by mu
}

func (k *keeper) startTraffic(ctx context.Context) *traffic {
	t := &traffic{done: make(chan struct{})}
	for range 8 {
		t.clients.Go(func() {
			var last *store.Record
			for n := 0; ; n++ {
				select {
				case <-t.done:
					return
				default:
				}
				if n%livingTurns == 0 {
					last = nil
				}
				next := turn(k.clock.Now(), last, 1<<10)
				t.time(func() error { return k.Create(ctx, benchOwner, next) })
				t.time(func() error { return k.read(ctx, next.ID, next.Depth+1) })
				t.time(func() error {
					_, err := k.Items(ctx, benchOwner, []string{next.Output[0].ID})
					return err
				})
				last = next
			}
		})
	}
	return t
}

func (t *traffic) time(do func() error) {
	began := time.Now()
	err := do()
	took := time.Since(began)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.slowest = max(t.slowest, took)
	if t.err == nil {
		t.err = err
	}
}

// stop ends it and returns how long the slowest statement took.
func (t *traffic) stop() (time.Duration, error) {
	close(t.done)
	t.clients.Wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.slowest, t.err
}
