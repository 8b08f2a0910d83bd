// Package pgstore keeps what the gateway keeps in PostgreSQL: responses and their
// chains, conversations and their items. Any number of replicas share it.
//
//   - A day of responses is a partition: their ids begin with the time. Partitions
//     are made a week ahead and dropped, never emptied, when all that is in them
//     is over its time.
//   - A chain is read in one statement, which checks the owner at every hop and
//     keeps to the caps. Reads go to the primary: what was acknowledged is there.
//   - A response is written in one round trip and one transaction.
//   - Several databases share the shards of the ids by equal ranges. What hangs
//     together has one shard, so a transaction needs one database.
//
// The schema is the first of the URL's search_path; it is made and migrated when
// a store is opened, by one replica at a time.
package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// Options configures [Open]. The zero value is usable.
type Options struct {
	// Retention is how long responses are kept. Zero means
	// [store.DefaultRetention].
	Retention time.Duration
	// Now is the clock that says what is over its time. Nil means time.Now.
	Now func() time.Time
	// Timeout bounds each call, waiting for a connection included. Zero means 10 s.
	Timeout time.Duration
	// Maintain is how often partitions are made and dropped. Zero means hourly.
	Maintain time.Duration
	// NoMigrate leaves the schema as it is: somebody else runs [Migrate].
	NoMigrate bool
	// Logger gets what goes wrong in the background. Nil means slog.Default.
	Logger *slog.Logger
}

const defaultTimeout = 10 * time.Second

// A Store is a [store.Store] in one or several PostgreSQL databases. Close it.
type Store struct {
	clusters  []*cluster
	retention time.Duration
	now       func() time.Time
	log       *slog.Logger
	stop      context.CancelFunc
	upkeep    sync.WaitGroup
}

var _ store.Store = (*Store)(nil)

// Open connects to the databases, migrates them, and makes the partitions of the
// next days. The databases share the shards in the given order; another number or
// order of them is another store.
func Open(ctx context.Context, urls []string, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if len(urls) == 0 || len(urls) > responses.Shards {
		return nil, fmt.Errorf("pgstore: %d databases for %d shards", len(urls), responses.Shards)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s := &Store{
		retention: cmp.Or(o.Retention, store.DefaultRetention),
		now:       o.Now,
		log:       o.Logger,
		stop:      func() {},
	}
	if err := s.connect(ctx, urls, &o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	for _, c := range s.clusters {
		s.upkeep.Go(func() { s.maintainEvery(background, c, cmp.Or(o.Maintain, time.Hour)) })
	}
	return s, nil
}

func (s *Store) connect(ctx context.Context, urls []string, o *Options) error {
	for _, url := range urls {
		c, err := newCluster(ctx, url, cmp.Or(o.Timeout, defaultTimeout))
		if err != nil {
			return err
		}
		s.clusters = append(s.clusters, c)
		if o.NoMigrate {
			err = c.migrated(ctx)
		} else {
			_, err = c.migrate(ctx)
		}
		if err != nil {
			return fmt.Errorf("migrate the store on %s: %w", c.name, err)
		}
		if err := s.makeAhead(ctx, c); err != nil {
			return fmt.Errorf("prepare the store on %s: %w", c.name, err)
		}
	}
	return nil
}

// Close implements [store.Store]. It waits for what runs in the background.
func (s *Store) Close() error {
	s.stop()
	s.upkeep.Wait()
	for _, c := range s.clusters {
		c.pool.Close()
	}
	return nil
}

// Ready implements [store.Store].
func (s *Store) Ready(ctx context.Context, shard uint16) error { return s.of(shard).ready(ctx) }

// of returns the database of a shard.
func (s *Store) of(shard uint16) *cluster {
	return s.clusters[int(shard%responses.Shards)*len(s.clusters)/responses.Shards]
}

// a place is where something with an id lies.
type place struct {
	*cluster
	owner string
	id    [16]byte
}

// locate returns where the thing with an id would lie, and ErrNotFound for an id
// that nothing can have.
func (s *Store) locate(owner, prefix, id string) (place, error) {
	b, ok := parseID(prefix, id)
	if !ok {
		return place{}, store.ErrNotFound
	}
	shard, _ := responses.Shard(id)
	return place{s.of(shard), owner, b}, nil
}

// locateVisible is locate for a response that must not be over its time.
func (s *Store) locateVisible(owner, id string) (place, error) {
	if s.now().Sub(responses.IDTime(id)) >= s.retention {
		return place{}, store.ErrNotFound
	}
	return s.locate(owner, responses.PrefixResponse, id)
}
