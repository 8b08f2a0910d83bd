package main

import (
	"context"
	"encoding/csv"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/store/redisstore"
)

const (
	redisClients = 16     // at once
	redisChain   = 50     // turns
	redisTurn    = 20_000 // bytes before they are packed
	redisSmall   = 400    // too little to be packed
	redisOwner   = "team-a"
)

// measureRedis compares what the store does with Redis with the bare commands,
// sent by redis-benchmark to the same server: keeping a response with SET, reading
// a chain with GET, each of as many bytes.
func measureRedis(ctx context.Context, r *rig, s *section) error {
	server, err := r.redis(ctx)
	if err != nil {
		return err
	}
	kept, err := redisstore.Open(ctx, "redis://"+server.addr, &redisstore.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer kept.Close()
	large, small := redisTurns(redisTurn), redisTurns(redisSmall)
	tip, turn, chain, err := fillRedis(ctx, kept, large)
	if err != nil {
		return err
	}
	put := func(turns []jsontext.Value) func(context.Context) error {
		return func(ctx context.Context) error { return kept.Create(ctx, redisOwner, redisRecord(nil, turns)) }
	}
	read := func(ctx context.Context) error {
		segments, err := kept.Chain(ctx, redisOwner, tip, store.Caps{Depth: redisChain, Bytes: 64 << 20})
		if err == nil && len(segments) != redisChain {
			err = fmt.Errorf("a chain of %d has %d segments", redisChain, len(segments))
		}
		return err
	}
	races := []redisRace{
		{"put", "SET", turn, redisClients, pick(r, 3000, 1000), put(large)},
		{"put, one client", "SET", turn, 1, pick(r, 1000, 300), put(large)},
		{"put, nothing to pack", "SET", redisSmall, redisClients, pick(r, 10_000, 2000), put(small)},
		{fmt.Sprintf("chain of %d", redisChain), "GET", chain, redisClients, pick(r, 500, 200), read},
		{fmt.Sprintf("chain of %d, one client", redisChain), "GET", chain, 1, pick(r, 200, 100), read},
	}
	for _, race := range races {
		if err := race.run(ctx, r, server.addr, s); err != nil {
			return err
		}
	}
	return server.alive()
}

// redis starts a Redis that writes to disk once a second, as one that keeps
// responses should at least.
func (r *rig) redis(ctx context.Context) (*process, error) {
	for _, program := range []string{"redis-server", "redis-benchmark"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp(r.dir, "redis-")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddress()
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	p, err := startAt(ctx, "redis-server", addr, "redis-server", "--bind", host, "--port", port, "--dir", dir, "--appendonly", "yes", "--appendfsync", "everysec", "--save", "")
	if err != nil {
		return nil, err
	}
	r.running = append(r.running, p)
	return p, nil
}

// fillRedis keeps a chain, and returns its last id, the bytes that a turn takes,
// and all of it.
func fillRedis(ctx context.Context, s *redisstore.Store, turns []jsontext.Value) (tip string, turn, chain int, err error) {
	var last *store.Record
	for range redisChain {
		last = redisRecord(last, turns)
		if err := s.Create(ctx, redisOwner, last); err != nil {
			return "", 0, 0, err
		}
	}
	segments, err := s.Chain(ctx, redisOwner, last.ID, store.Caps{Depth: redisChain, Bytes: 64 << 20})
	for _, seg := range segments {
		chain += seg.Size()
	}
	return last.ID, chain / redisChain, chain, err
}

// redisTurns are what turns of a size say on one side, made in advance, so that no
// time is spent on making it up.
func redisTurns(size int) (turns []jsontext.Value) {
	random := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 3000) // which packs about as well as code and prose do
	for i := range words {
		words[i] = strconv.FormatUint(random.Uint64()>>(24+random.UintN(5)*8), 36)
	}
	for range 64 {
		var b strings.Builder
		b.WriteString(`{"type":"message","role":"user","content":"`)
		for b.Len() < size/2 {
			b.WriteString(words[random.IntN(len(words))*random.IntN(len(words))/len(words)])
			b.WriteByte(' ')
		}
		turns = append(turns, jsontext.Value(b.String()+`"}`))
	}
	return turns
}

func redisRecord(parent *store.Record, turns []jsontext.Value) *store.Record {
	shard := responses.RandomShard()
	if parent != nil {
		shard, _ = responses.Shard(parent.ID)
	}
	now := time.Now()
	rec := &store.Record{ID: responses.NewID(responses.PrefixResponse, shard, now), Status: responses.StatusCompleted, Oldest: now}
	rec.Head = jsontext.Value(`{"id":"` + rec.ID + `","object":"response","status":"completed","model":"m"}`)
	if parent != nil {
		rec.Link, rec.Depth, rec.Oldest = store.Link{ID: parent.ID, Items: 2}, parent.Depth+1, parent.Oldest
	}
	item := func() []store.Item {
		return []store.Item{{ID: responses.NewID(responses.PrefixMessage, shard, now), Data: turns[rand.IntN(len(turns))]}}
	}
	rec.Input, rec.Output = item(), item()
	return rec
}

// A redisRace is something that the store does beside a command of Redis that
// moves as many bytes.
type redisRace struct {
	name, command string
	bytes         int
	clients       int
	times         int
	do            func(context.Context) error
}

func (race *redisRace) run(ctx context.Context, r *rig, addr string, s *section) error {
	var ours, bare []float64
	for round := range pick(r, 7, 3) {
		rate, err := race.bare(ctx, addr)
		if err != nil {
			return err
		}
		bare = append(bare, rate)
		if rate, err = race.ours(ctx); err != nil {
			return err
		}
		ours = append(ours, rate)
		r.say("redis: %s: round %d: %.0f/s, %s %.0f/s", race.name, round+1, ours[round], race.command, bare[round])
	}
	s.addSpread(row{Metric: fmt.Sprintf("%s, of the rate of %s with %.1f KB", race.name, race.command, float64(race.bytes)/1000)}, spreadOf(paired(ours, bare)))
	s.addSpread(row{Metric: race.name, Unit: "/s"}, spreadOf(ours))
	return nil
}

// ours does the thing many times, and returns how often in a second.
func (race *redisRace) ours(ctx context.Context) (float64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var left atomic.Int64
	left.Store(int64(race.times))
	began := time.Now()
	var clients sync.WaitGroup
	for range race.clients {
		clients.Go(func() {
			for left.Add(-1) >= 0 && ctx.Err() == nil {
				if err := race.do(ctx); err != nil {
					cancel(fmt.Errorf("%s: %w", race.name, err))
				}
			}
		})
	}
	clients.Wait()
	return float64(race.times) / time.Since(began).Seconds(), context.Cause(ctx)
}

// bare has redis-benchmark send the command.
func (race *redisRace) bare(ctx context.Context, addr string) (float64, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, err
	}
	benchmark := func(tests string, times int) (string, error) {
		out, err := exec.CommandContext(ctx, "redis-benchmark", "-h", host, "-p", port, "--csv", "-t", tests,
			"-c", strconv.Itoa(race.clients), "-n", strconv.Itoa(times), "-d", strconv.Itoa(race.bytes)).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("redis-benchmark: %w: %s", err, out)
		}
		return string(out), nil
	}
	if race.command == "GET" { // of what SET has put there
		if _, err := benchmark("set", race.clients); err != nil {
			return 0, err
		}
	}
	out, err := benchmark(strings.ToLower(race.command), 4*race.times) // it takes less time for each
	if err != nil {
		return 0, err
	}
	return benchmarkRate(out, race.command)
}

// benchmarkRate finds the requests per second in what redis-benchmark printed.
func benchmarkRate(out, command string) (float64, error) {
	table := csv.NewReader(strings.NewReader(out))
	table.FieldsPerRecord = -1
	lines, err := table.ReadAll()
	if err != nil {
		return 0, fmt.Errorf("redis-benchmark said %q: %w", out, err)
	}
	for _, line := range lines {
		if len(line) > 1 && line[0] == command {
			return strconv.ParseFloat(line[1], 64)
		}
	}
	return 0, errors.New("redis-benchmark said nothing of " + command + ": " + out)
}
