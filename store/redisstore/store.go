// Package redisstore is a [store.Store] in Redis or Valkey, alone or as a cluster.
//
// Every write is one script that runs in one slot, so it happens whole or not at
// all; a chain is read in one round trip. Responses and all that leads to them
// expire by themselves; conversations stay until they are deleted.
//
// What Redis has acknowledged it has in memory. Whether that survives a crash is
// a matter of its configuration: see docs/state.md.
package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

// Options configures [Open]. The zero value is usable.
type Options struct {
	// Retention is how long responses are kept. Zero means
	// [store.DefaultRetention].
	Retention time.Duration
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
	// Logger is told at the beginning if Redis is set up to lose what it has
	// acknowledged. Nil means slog.Default.
	Logger *slog.Logger
}

// A Store is a [store.Store] in Redis.
type Store struct {
	client    rueidis.Client
	prefix    string
	retention time.Duration
	now       func() time.Time
	// written is when a write last worked, in nanoseconds since began: for each shard
	// of a cluster, whose nodes fail one by one, otherwise for all as that of shard 0.
	written [responses.Shards]atomic.Int64
	began   time.Time
}

var _ store.Store = (*Store)(nil)

// Open connects to the Redis at a URL:
//
//	redis://user:password@host:6379/0?prefix=antiphon:
//
// rediss:// speaks TLS. A cluster is recognised by itself, and may be given several
// times addr=host:port; cluster=false treats a node as if it were alone. prefix is
// what all keys begin with, so that gateways can share a Redis. master_set asks
// Sentinels. The caller closes the store.
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	option, prefix, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("%w: redis at %v: %w", store.ErrUnavailable, option.InitAddress, err)
	}
	s := &Store{client: client, prefix: prefix, retention: cmp.Or(o.Retention, store.DefaultRetention), now: o.Now, began: time.Now()}
	if err := s.Ready(ctx, responses.RandomShard()); err != nil {
		client.Close()
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	s.advise(ctx, o.Logger)
	return s, nil
}

// advise warns of settings under which Redis drops what it has acknowledged. Who
// may not ask for them is not warned.
func (s *Store) advise(ctx context.Context, log *slog.Logger) {
	for addr, node := range s.client.Nodes() {
		memory, _ := node.Do(ctx, node.B().Info().Section("memory").Build()).ToString()
		if policy := setting(memory, "maxmemory_policy"); policy != "" && policy != "noeviction" {
			log.WarnContext(ctx, "redis drops responses when its memory is full; set maxmemory-policy noeviction", "redis", addr, "maxmemory_policy", policy)
		}
		persistence, _ := node.Do(ctx, node.B().Info().Section("persistence").Build()).ToString()
		if setting(persistence, "aof_enabled") == "0" {
			log.WarnContext(ctx, "redis loses responses when it stops; set appendonly yes", "redis", addr)
		}
	}
}

// setting finds a line of what INFO says.
func setting(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// readyFor is how long a write that worked says that the next one will.
const readyFor = time.Second

// Ready implements [store.Store]. It writes something small: a Redis that is full,
// or a replica, answers and yet takes nothing.
func (s *Store) Ready(ctx context.Context, shard uint16) error {
	shard %= responses.Shards
	if last := s.lastWrite(shard).Load(); last > 0 && time.Since(s.began)-time.Duration(last) < readyFor {
		return nil
	}
	key := space{prefix: s.prefix, shard: shard}.key(kindReady, "")
	err := s.client.Do(ctx, s.client.B().Set().Key(key).Value("").Px(readyFor).Build()).Error()
	if err != nil {
		err = s.failed(ctx, err)
	}
	s.wrote(shard, err)
	return err
}

// wrote notes whether a write to a shard worked. That something is not there says
// nothing about it.
func (s *Store) wrote(shard uint16, err error) {
	switch {
	case err == nil:
		s.lastWrite(shard).Store(max(int64(time.Since(s.began)), 1))
	case errors.Is(err, store.ErrUnavailable):
		s.lastWrite(shard).Store(0)
	}
}

func (s *Store) lastWrite(shard uint16) *atomic.Int64 {
	if s.client.Mode() != rueidis.ClientModeCluster {
		shard = 0
	}
	return &s.written[shard]
}

// Close implements [store.Store].
func (s *Store) Close() error {
	s.client.Close()
	return nil
}
