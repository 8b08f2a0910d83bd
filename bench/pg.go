package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/antiphon-dev/antiphon/internal/pgtest"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/store/pgstore"
)

const benchOwner = "bench"

// database is a PostgreSQL that nobody else uses: durable as it comes, with room
// enough that checkpoints do not fall into one of two measurements.
type database struct {
	*pgtest.Server
}

func newDatabase() (*database, error) {
	server, err := pgtest.NewServer("shared_buffers=256MB", "max_wal_size=4GB", "checkpoint_timeout=30min", "autovacuum_naptime=10s")
	if err != nil {
		return nil, err
	}
	if err := server.Start(); err != nil {
		return nil, errors.Join(err, server.Remove())
	}
	return &database{server}, nil
}

// url is that of a schema.
func (d *database) url(schema string) string {
	return d.URL() + "?sslmode=disable&pool_max_conns=20&search_path=" + schema
}

// pgbench runs PostgreSQL's own measurement and returns its transactions per second.
func (d *database) pgbench(ctx context.Context, args ...string) (float64, error) {
	out, err := exec.CommandContext(ctx, "pgbench", append(args, "-h", "127.0.0.1", "-p", strconv.Itoa(d.Port()), "-U", "postgres", "postgres")...).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("pgbench: %w\n%s", err, out)
	}
	found := regexp.MustCompile(`tps = ([0-9.]+)`).FindSubmatch(out)
	if found == nil {
		return 0, nil
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

// keeper is a store in a schema of its own, and the bare connections beside it.
type keeper struct {
	*pgstore.Store
	bare  *pgxpool.Pool
	clock *movedClock
}

// movedClock is the real time, moved.
type movedClock struct{ by atomic.Int64 }

func (c *movedClock) Now() time.Time       { return time.Now().Add(time.Duration(c.by.Load())) }
func (c *movedClock) set(by time.Duration) { c.by.Store(int64(by)) }

// keeper opens a store that begins at a time from now.
func (d *database) keeper(ctx context.Context, schema string, retention, from time.Duration) (*keeper, error) {
	k := &keeper{clock: &movedClock{}}
	k.clock.set(from)
	var err error
	if k.Store, err = pgstore.Open(ctx, []string{d.url(schema)}, &pgstore.Options{Retention: retention, Now: k.clock.Now, Timeout: time.Minute, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig(d.url(schema))
	if err != nil {
		return nil, errors.Join(err, k.Store.Close())
	}
	cfg.ConnConfig.RuntimeParams["jit"] = "off"
	cfg.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	if k.bare, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, errors.Join(err, k.Store.Close())
	}
	return k, nil
}

func (k *keeper) close() {
	k.bare.Close()
	k.Close()
}

func (k *keeper) exec(ctx context.Context, sql string) error {
	_, err := k.bare.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}

// number returns what a statement with one number in its answer says.
func (k *keeper) number(ctx context.Context, sql string) (n float64, err error) {
	err = k.bare.QueryRow(ctx, sql).Scan(&n)
	return n, err
}

// prose is text like what people and models write: common words are common, and
// zstd makes about half of it.
func prose(bytes int) string {
	var text strings.Builder
	for text.Len() < bytes {
		// The nth word comes about 1/n of the time.
		n := int(math.Exp(rand.Float64() * math.Log(20_000)))
		word := rand.New(rand.NewPCG(uint64(n), 7))
		for range 2 + word.IntN(8) {
			text.WriteByte("etaoinshrdlucmfwygpbvk"[word.IntN(22)])
		}
		text.WriteByte(' ')
	}
	return text.String()[:bytes]
}

// turn is a response with that many bytes of input and output.
func turn(at time.Time, parent *store.Record, bytes int) *store.Record {
	r := &store.Record{Status: responses.StatusCompleted, Epoch: 1, Oldest: at, Head: []byte(`{"object":"response","model":"m","status":"completed"}`)}
	shard := responses.RandomShard()
	if parent != nil {
		shard, _ = responses.Shard(parent.ID)
		r.Link = store.Link{ID: parent.ID, Items: len(parent.Input) + len(parent.Output)}
		r.Depth, r.Oldest = parent.Depth+1, parent.Oldest
	}
	r.ID = responses.NewID(responses.PrefixResponse, shard, at)
	message := func(bytes int) store.Item {
		id := responses.NewID(responses.PrefixMessage, shard, at)
		return store.Item{ID: id, Data: fmt.Appendf(nil, `{"id":%q,"type":"message","content":%q}`, id, prose(bytes))}
	}
	r.Input = []store.Item{message(bytes / 2)}
	r.Output = []store.Item{message(bytes / 2)}
	return r
}

// chain keeps a chain whose turns lie apart from each other, and returns its last.
func (k *keeper) chain(ctx context.Context, turns, bytes int, began time.Time, apart time.Duration) (last *store.Record, err error) {
	for i := range turns {
		last = turn(began.Add(time.Duration(i)*apart), last, bytes)
		if err := k.Create(ctx, benchOwner, last); err != nil {
			return nil, err
		}
	}
	return last, nil
}
