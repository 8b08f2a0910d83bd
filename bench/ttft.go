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
// second that the gateway can take here. The routes take turns. What a bare
// proxy adds tells how much of it is the price of any process in the middle: on
// a machine with more to do than CPUs, most of it.
func measureFirstToken(ctx context.Context, r *rig, s *section) error {
	fake, err := r.fake(ctx)
	if err != nil {
		return err
	}
	gateway, err := r.gateway(ctx, fake)
	if err != nil {
		return err
	}
	proxy, err := r.proxy(ctx, fake)
	if err != nil {
		return err
	}
	client := newClient()
	defer client.CloseIdleConnections()
	timings := []*timing{
		{call: firstTokenCall(route{"direct", fake, chatProtocol})},
		{call: firstTokenCall(route{"proxy", proxy, chatProtocol})},
		{call: firstTokenCall(route{"gateway", gateway, responsesProtocol})},
	}
	most, err := timings[2].fullLoad(ctx, client, pick(r, 2*time.Second, time.Second))
	if err != nil {
		return err
	}
	r.say("ttft: %s requests/s at full load", format(most, ""))
	rounds := pick(r, 5, 2)
	for round := range rounds {
		for _, t := range timings {
			if err := t.halfLoad(ctx, client, most/2, pick(r, 3*time.Second, time.Second)); err != nil {
				return err
			}
		}
		r.say("ttft: round %d of %d: p50 direct %s, proxy %s, gateway %s", round+1, rounds,
			format(timings[0].p50[round], "ms"), format(timings[1].p50[round], "ms"), format(timings[2].p50[round], "ms"))
	}
	reportFirstToken(s, timings, most/2)
	return nil
}

// reportFirstToken takes direct, proxy and gateway.
func reportFirstToken(s *section, timings []*timing, rate float64) {
	times := chart{Title: "time to first token", Unit: fmt.Sprintf("ms, at %s requests/s", format(rate, ""))}
	for _, t := range timings {
		times.Lines = append(times.Lines, chartLine{t.to.name + " p50", spreadOf(t.p50).median})
	}
	for _, t := range timings {
		times.Lines = append(times.Lines, chartLine{t.to.name + " p99", spreadOf(t.p99).median})
	}
	s.draw(times)
	direct, proxy, gateway := timings[0], timings[1], timings[2]
	s.addSpread(row{Metric: "added to the direct call, p50", Unit: "ms", Limit: atMost(0.3)}, spreadOf(added(gateway.p50, direct.p50)))
	s.addSpread(row{Metric: "added to the direct call, p99", Unit: "ms", Limit: atMost(2)}, spreadOf(added(gateway.p99, direct.p99)))
	s.addSpread(row{Metric: "added by a bare proxy, p50", Unit: "ms"}, spreadOf(added(proxy.p50, direct.p50)))
	s.addSpread(row{Metric: "added by a bare proxy, p99", Unit: "ms"}, spreadOf(added(proxy.p99, direct.p99)))
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
