package main

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	// stallBytes is what the upstream would like to send to each reader: more
	// than it may get rid of.
	stallBytes = 24 << 20
	// maxWritten is what it may get rid of, buffers of sockets included.
	maxWritten = 16 // MiB
	// maxStallGrowth is how much memory that may cost the gateway.
	maxStallGrowth = 8 // MiB
	stallReaders   = 50
	// window is what the gateway keeps for a reader, in KiB. Buffers that grow,
	// the text so far and what the collector has not come to yet are on top.
	window = 256
)

// measureStall has readers that stop reading. The upstream must be held back
// then, and the gateway must not collect what it sends. The gateway ends such
// readers after half a minute; this looks at what happens before.
func measureStall(ctx context.Context, r *rig, s *section) error {
	one, err := stalled(ctx, r, 1)
	if err != nil {
		return err
	}
	r.stopAll()
	many, err := stalled(ctx, r, stallReaders)
	if err != nil {
		return err
	}
	each := many.growth * 1024 / stallReaders
	crowd := fmt.Sprintf("%d readers, ", stallReaders)
	s.add(
		row{Metric: "one reader, bytes that the upstream could write", Value: one.written, Unit: "MiB", Limit: below(maxWritten).hard()},
		row{Metric: "one reader, growth of the gateway", Value: one.growth, Unit: "MiB", Limit: atMost(maxStallGrowth).hard()},
		row{
			Metric: crowd + "most bytes that the upstream could write to one", Value: many.written, Unit: "MiB",
			Limit: below(maxWritten).hard(),
		},
		row{Metric: crowd + "growth of the gateway for each", Value: each, Unit: "KiB", Limit: atMost(16 * window).hard()},
		row{Metric: crowd + "growth of the gateway for each, as aimed at", Value: each, Unit: "KiB", Limit: atMost(2 * window)},
		row{Metric: crowd + "growth of the gateway after that", Value: many.later, Unit: "MiB", Limit: atMost(maxStallGrowth).hard()},
	)
	return nil
}

// stallCost is what readers that do not read cost, in MiB.
type stallCost struct {
	written float64 // by the upstream, to the reader that got most
	growth  float64 // of the gateway, once the upstream was held back
	later   float64 // of the gateway, from then on
}

// stalled opens n streams through a new gateway and reads none of them.
func stalled(ctx context.Context, r *rig, n int) (cost stallCost, err error) {
	upstream, gateway, err := r.replayed(ctx)
	if err != nil {
		return cost, err
	}
	client := newClient()
	defer client.CloseIdleConnections()
	to := route{"gateway", gateway, responsesProtocol}
	if err := warmUp(ctx, client, to); err != nil {
		return cost, err
	}
	g, err := watchGrowth(gateway)
	if err != nil {
		return cost, err
	}
	ask := call{to: to, model: script{playBurst, stallBytes / len(textChunk(cannedToken))}.String(), prompt: "play"}
	for range n {
		resp, err := ask.open(ctx, client)
		if err != nil {
			return cost, err
		}
		defer resp.Body.Close() // not before all of them have stalled
	}
	if err := awaitStandstill(ctx, client, upstream); err != nil {
		return cost, err
	}
	if cost.growth, err = g.now(); err != nil {
		return cost, err
	}
	r.say("stall: %d of them, growth %s", n, format(cost.growth, "MiB"))
	if err := sleep(ctx, pick(r, 5*time.Second, time.Second)); err != nil {
		return cost, err
	}
	now, err := g.now()
	if err != nil {
		return cost, err
	}
	cost.later = now - cost.growth
	stats, err := statsOf(ctx, client, upstream)
	cost.written = mib(stats.Most)
	return cost, err
}

// awaitStandstill returns when the upstream has not been able to write anything
// for a second, or has nothing left to write, or after ten seconds.
func awaitStandstill(ctx context.Context, client *http.Client, upstream *process) error {
	last, still := int64(-1), 0
	for range 100 {
		stats, err := statsOf(ctx, client, upstream)
		if err != nil {
			return err
		}
		if still++; stats.Total != last {
			last, still = stats.Total, 0
		}
		if still == 10 {
			return nil
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func statsOf(ctx context.Context, client *http.Client, upstream *process) (replayStats, error) {
	var stats replayStats
	err := fetch(ctx, client, http.MethodGet, upstream.url()+"/stats", &stats)
	return stats, err
}
