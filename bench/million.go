package main

import (
	"context"
	"fmt"
	"time"
)

const (
	shortLine = 24  // MiB: below the gateway's limit for a line
	longLine  = 100 // MiB: far above it
	lineLimit = 32  // MiB
)

// measureMillion sends what no honest upstream sends, and what a long one may:
// an answer of a million deltas, a line that is just about allowed, and one that
// is not. All must end as they should, and the gateway must stay small.
func measureMillion(ctx context.Context, r *rig, s *section) error {
	for _, part := range []func(context.Context, *rig, *section) error{manyDeltas, allowedLine, refusedLine} {
		if err := part(ctx, r, s); err != nil {
			return err
		}
		r.stopAll()
	}
	return nil
}

// manyDeltas counts to a million. The end of the answer repeats its whole text
// four times: in the text, the part, the item and the response.
func manyDeltas(ctx context.Context, r *rig, s *section) error {
	n := pick(r, 1_000_000, 100_000)
	fake, err := r.fake(ctx)
	if err != nil {
		return err
	}
	gateway, err := r.gateway(ctx, fake)
	if err != nil {
		return err
	}
	count := func(n int) call {
		return call{to: route{"gateway", gateway, responsesProtocol}, model: "tiny", prompt: fmt.Sprintf("count to %d", n)}
	}
	client := newClient()
	defer client.CloseIdleConnections()
	few := count(20)
	if err := few.complete(ctx, client, 20); err != nil {
		return err
	}
	g, err := watchGrowth(gateway)
	if err != nil {
		return err
	}
	r.say("million: counting to %s", format(float64(n), ""))
	began := time.Now()
	many := count(n)
	if err := many.complete(ctx, client, n); err != nil {
		return err
	}
	took := time.Since(began)
	atPeak, err := g.atPeak()
	if err != nil {
		return err
	}
	s.add(
		row{
			Metric: "deltas of one answer", Value: float64(n),
			Note: fmt.Sprintf("in %v", took.Round(10*time.Millisecond)), Limit: atLeast(float64(n)).hard(),
		},
		// The text of 7 MB leaves five times at the end: as the done text, in the
		// part, in the item, in the response, and each is held by the run, the log
		// and the frame before it is garbage. What must not happen is that the
		// million events themselves are held.
		row{Metric: "deltas of one answer, growth of the gateway", Value: atPeak, Unit: "MiB", Limit: below(128).hard()},
	)
	return nil
}

// allowedLine sends a line of a size that an image may have.
func allowedLine(ctx context.Context, r *rig, s *section) error {
	t, atPeak, err := playLongLine(ctx, r, shortLine)
	if err != nil {
		return err
	}
	s.add(
		row{
			Metric: fmt.Sprintf("a line of %d MiB passes", shortLine), Value: yes(t.last == "response.completed" && t.deltas == 1),
			Note: t.last, Limit: atLeast(1).hard(),
		},
		row{Metric: fmt.Sprintf("a line of %d MiB, growth of the gateway", shortLine), Value: atPeak, Unit: "MiB"},
	)
	return nil
}

// refusedLine sends a line that would fill the gateway's memory if it let it.
func refusedLine(ctx context.Context, r *rig, s *section) error {
	t, atPeak, err := playLongLine(ctx, r, longLine)
	if err != nil {
		return err
	}
	s.add(
		row{
			Metric: fmt.Sprintf("a line of %d MiB is refused", longLine), Value: yes(t.last == "response.failed" && t.done),
			Note: t.last, Limit: atLeast(1).hard(),
		},
		row{
			Metric: fmt.Sprintf("a line of %d MiB, growth of the gateway", longLine), Value: atPeak, Unit: "MiB",
			Limit: below(3 * lineLimit).hard(),
		},
	)
	return nil
}

// playLongLine sends a line through a new gateway and returns what the client
// saw, and the gateway's growth in MiB.
func playLongLine(ctx context.Context, r *rig, size int) (*tally, float64, error) {
	_, gateway, err := r.replayed(ctx)
	if err != nil {
		return nil, 0, err
	}
	client := newClient()
	defer client.CloseIdleConnections()
	to := route{"gateway", gateway, responsesProtocol}
	if err := warmUp(ctx, client, to); err != nil {
		return nil, 0, err
	}
	g, err := watchGrowth(gateway)
	if err != nil {
		return nil, 0, err
	}
	r.say("million: a line of %d MiB", size)
	ask := call{to: to, model: script{playLine, size}.String(), prompt: "play"}
	t, err := ask.read(ctx, client)
	if err != nil {
		return nil, 0, err
	}
	atPeak, err := g.atPeak()
	return t, atPeak, err
}

// growth is the memory of a process since a moment.
type growth struct {
	p     *process
	begun memory
}

func watchGrowth(p *process) (*growth, error) {
	m, err := memoryOf(p.pid())
	return &growth{p, m}, err
}

// atPeak is how much larger the process was at its largest, in MiB.
func (g *growth) atPeak() (float64, error) {
	m, err := memoryOf(g.p.pid())
	return mib(m.peak - g.begun.now), err
}

// now is how much larger the process is, in MiB.
func (g *growth) now() (float64, error) {
	m, err := memoryOf(g.p.pid())
	return mib(m.now - g.begun.now), err
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// yes makes a number of a fact.
func yes(fact bool) float64 {
	if fact {
		return 1
	}
	return 0
}
