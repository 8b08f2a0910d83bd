package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	firstTokenReply   = 16 // tokens of an answer
	firstTokenWorkers = 16
)

// measureFirstToken compares the time from the request to the first token with
// that of a call that goes to the upstream directly, at half of the requests per
// second that the gateway can take here. The routes take turns.
func measureFirstToken(ctx context.Context, r *rig, s *section) error {
	fake, err := r.fake(ctx)
	if err != nil {
		return err
	}
	gateway, err := r.gateway(ctx, fake)
	if err != nil {
		return err
	}
	client := newClient()
	defer client.CloseIdleConnections()
	direct := &timing{call: firstTokenCall(route{"direct", fake, chatProtocol})}
	through := &timing{call: firstTokenCall(route{"gateway", gateway, responsesProtocol})}
	most, err := through.fullLoad(ctx, client, pick(r, 2*time.Second, time.Second))
	if err != nil {
		return err
	}
	r.say("ttft: %s requests/s at full load", format(most, ""))
	rounds := pick(r, 5, 2)
	for round := range rounds {
		for _, t := range []*timing{direct, through} {
			if err := t.halfLoad(ctx, client, most/2, pick(r, 3*time.Second, time.Second)); err != nil {
				return err
			}
		}
		r.say("ttft: round %d of %d: p50 direct %s, gateway %s", round+1, rounds,
			format(direct.p50[round], "ms"), format(through.p50[round], "ms"))
	}
	s.draw(chart{Title: "time to first token", Unit: fmt.Sprintf("ms, at %s requests/s", format(most/2, "")), Lines: []chartLine{
		{"direct p50", spreadOf(direct.p50).median}, {"gateway p50", spreadOf(through.p50).median},
		{"direct p99", spreadOf(direct.p99).median}, {"gateway p99", spreadOf(through.p99).median},
	}})
	s.addSpread(row{Metric: "added to the direct call, p50", Unit: "ms", Limit: atMost(0.3)}, spreadOf(added(through.p50, direct.p50)))
	s.addSpread(row{Metric: "added to the direct call, p99", Unit: "ms", Limit: atMost(2)}, spreadOf(added(through.p99, direct.p99)))
	return nil
}

func firstTokenCall(to route) call {
	return call{to: to, model: "tiny", prompt: fmt.Sprintf("count to %d", firstTokenReply), buffer: 4 << 10}
}

// added subtracts round by round.
func added(through, direct []float64) []float64 {
	var differences []float64
	for i := range min(len(through), len(direct)) {
		differences = append(differences, through[i]-direct[i])
	}
	return differences
}

// A timing is a route and its times to the first token, in milliseconds, one
// value for each round.
type timing struct {
	call
	p50, p99 []float64
}

// fullLoad returns how many requests per second come through if the next is
// sent as soon as one is done.
func (t *timing) fullLoad(ctx context.Context, client *http.Client, d time.Duration) (float64, error) {
	var mu sync.Mutex
	done := 0
	began := time.Now()
	err := together(ctx, firstTokenWorkers, func(ctx context.Context, _ int) error {
		mine := 0
		for time.Since(began) < d {
			if err := t.complete(ctx, client, firstTokenReply); err != nil {
				return err
			}
			mine++
		}
		mu.Lock()
		defer mu.Unlock()
		done += mine
		return nil
	})
	return float64(done) / time.Since(began).Seconds(), err
}

// halfLoad sends requests at an even rate, whether or not earlier ones are done,
// and keeps the percentiles of their times.
func (t *timing) halfLoad(ctx context.Context, client *http.Client, rate float64, d time.Duration) error {
	n := max(int(rate*d.Seconds()), 1)
	times := make([]float64, n)
	began := time.Now()
	err := together(ctx, n, func(ctx context.Context, i int) error {
		due := began.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		if err := sleep(ctx, time.Until(due)); err != nil {
			return err
		}
		ask := t.call
		sent := time.Now()
		ask.first = func() { times[i] = float64(time.Since(sent).Microseconds()) / 1e3 }
		return ask.complete(ctx, client, firstTokenReply)
	})
	t.p50 = append(t.p50, percentile(times, 0.50))
	t.p99 = append(t.p99, percentile(times, 0.99))
	return err
}
