package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"
)

const (
	// eventStreams is how many streams run at once.
	eventStreams = 32
	// calibration is how many deltas each stream has in the run that finds out
	// how long a round must be.
	calibration = 1_000
	// maxRoundDeltas bounds a stream of a round, in case calibration errs.
	maxRoundDeltas = 400_000
)

// measureEvents compares what comes through the gateway, which translates, with
// what a bare proxy passes on and with what the upstream itself sends. An event
// is a text delta: it is one on every route.
//
// The routes take turns, round by round. At full speed everybody waits for
// everybody else, and events that pile up are handled together; at a steady
// pace each travels alone, as real tokens do, and what it costs is CPU time.
func measureEvents(ctx context.Context, r *rig, s *section) error {
	rounds, length := pick(r, 7, 3), pick(r, time.Second, 400*time.Millisecond)
	for _, kind := range []struct{ play, name string }{
		{playBurst, "bursts of 4 KiB"},
		{playToken, "token by token"},
	} {
		courses, err := race(ctx, r, kind.play, length, rounds)
		if err != nil {
			return err
		}
		reportRates(s, kind.name, courses)
		reportCosts(s, kind.name, courses)
	}
	courses, err := race(ctx, r, playPaced, pick(r, 3*time.Second, time.Second), pick(r, 3, 1))
	if err != nil {
		return err
	}
	name := fmt.Sprintf("one token each %v", paceTick)
	reportCosts(s, name, courses)
	s.add(row{
		Metric: name + ", events per CPU time over the proxy's",
		Value:  courses[1].perEvent() / courses[2].perEvent(), Limit: atLeast(0.5),
	})
	return nil
}

// A course is a route and what was measured on it.
type course struct {
	route
	play   script
	rates  []float64 // events per second, one for each round
	events int
	wall   time.Duration
	spent  cpuTimes
}

// cpuTimes are of what is in the middle, of the upstream and of the client.
type cpuTimes struct{ middle, upstream, client time.Duration }

// race runs one kind of script on every route in turns and returns direct, proxy
// and gateway.
func race(ctx context.Context, r *rig, kind string, length time.Duration, rounds int) ([]*course, error) {
	upstream, gateway, err := r.replayed(ctx)
	if err != nil {
		return nil, err
	}
	proxy, err := r.proxy(ctx, upstream)
	if err != nil {
		return nil, err
	}
	defer r.stopAll()
	courses := []*course{
		{route: route{"direct", upstream, chatProtocol}},
		{route: route{"proxy", proxy, chatProtocol}},
		{route: route{"gateway", gateway, responsesProtocol}},
	}
	client := newClient()
	defer client.CloseIdleConnections()
	for _, c := range courses {
		if err := c.calibrate(ctx, client, kind, length); err != nil {
			return nil, err
		}
	}
	for round := range rounds {
		for _, c := range courses {
			if err := c.round(ctx, client, upstream); err != nil {
				return nil, err
			}
		}
		r.say("events: %s, round %d of %d: direct %s/s, proxy %s/s, gateway %s/s", kind, round+1, rounds,
			format(courses[0].rates[round], ""), format(courses[1].rates[round], ""), format(courses[2].rates[round], ""))
	}
	return courses, nil
}

// calibrate warms the route up and chooses a script that takes about as long as
// a round should on it.
func (c *course) calibrate(ctx context.Context, client *http.Client, kind string, length time.Duration) error {
	c.play = script{kind, calibration}
	began := time.Now()
	if err := c.run(ctx, client); err != nil {
		return err
	}
	n := float64(calibration) * length.Seconds() / time.Since(began).Seconds()
	c.play.n = int(min(max(n, calibration), maxRoundDeltas))
	return nil
}

// run plays the script on all streams at once.
func (c *course) run(ctx context.Context, client *http.Client) error {
	return together(ctx, eventStreams, func(ctx context.Context, _ int) error {
		ask := call{to: c.route, model: c.play.String(), prompt: "play"}
		return ask.complete(ctx, client, c.play.n)
	})
}

// round is a run that counts.
func (c *course) round(ctx context.Context, client *http.Client, upstream *process) error {
	before, err := c.cpuTimes(upstream)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := c.run(ctx, client); err != nil {
		return err
	}
	wall := time.Since(began)
	after, err := c.cpuTimes(upstream)
	if err != nil {
		return err
	}
	events := eventStreams * c.play.n
	c.rates = append(c.rates, float64(events)/wall.Seconds())
	c.events += events
	c.wall += wall
	c.spent.middle += after.middle - before.middle
	c.spent.upstream += after.upstream - before.upstream
	c.spent.client += after.client - before.client
	return nil
}

// cpuTimes returns what was used so far. On the direct route there is nothing
// in the middle.
func (c *course) cpuTimes(upstream *process) (t cpuTimes, err error) {
	if t.upstream, err = cpuTime(upstream.pid()); err != nil {
		return t, err
	}
	if t.client, err = cpuTime(os.Getpid()); err != nil || c.server == upstream {
		return t, err
	}
	t.middle, err = cpuTime(c.server.pid())
	return t, err
}

// perEvent is the CPU time of the middle for one event, in microseconds.
func (c *course) perEvent() float64 {
	return float64(c.spent.middle.Nanoseconds()) / 1e3 / float64(c.events)
}

// share is a part of a core, in percent.
func (c *course) share(spent time.Duration) float64 { return 100 * spent.Seconds() / c.wall.Seconds() }

func reportRates(s *section, name string, courses []*course) {
	rates := chart{
		Title: "events per second, " + name,
		Unit:  fmt.Sprintf("%d streams, median of %d rounds", eventStreams, len(courses[0].rates)),
	}
	for _, c := range courses {
		rates.Lines = append(rates.Lines, chartLine{c.name, spreadOf(c.rates).median})
	}
	s.draw(rates)
	proxy, gateway := courses[1], courses[2]
	s.addSpread(row{Metric: name + ", rate over the proxy's", Limit: atLeast(0.5)}, spreadOf(paired(gateway.rates, proxy.rates)))
}

func reportCosts(s *section, name string, courses []*course) {
	proxy, gateway := courses[1], courses[2]
	s.draw(
		chart{Title: "CPU time per event, " + name, Unit: "µs, of the process in the middle", Lines: []chartLine{
			{proxy.name, proxy.perEvent()}, {gateway.name, gateway.perEvent()},
		}},
		chart{Title: "who used the CPUs on the way through the gateway, " + name, Unit: "% of a core", Lines: []chartLine{
			{"upstream", gateway.share(gateway.spent.upstream)},
			{"gateway", gateway.share(gateway.spent.middle)},
			{"client", gateway.share(gateway.spent.client)},
		}},
	)
	s.add(row{
		Metric: name + ", CPU time per event", Value: gateway.perEvent(), Unit: "µs",
		Note: fmt.Sprintf("%s times the proxy's", format(gateway.perEvent()/proxy.perEvent(), "")),
	})
}
