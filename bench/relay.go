package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"sync/atomic"
	"time"
)

// relayConnections is how many clients ask at once, each on a connection that it
// keeps.
const relayConnections = 32

// A relayLoad is what clients ask a Responses upstream for.
type relayLoad struct {
	name    string
	counted string // what is counted: requests or events
	play    script
	request int // bytes of a request, about
	aim     *limit
}

var relayLoads = []relayLoad{
	{"JSON, requests of 0.2 KB", "request", script{playWhole, 1_500}, 200, atLeast(0.90)},
	{"JSON, requests of 20 KB", "request", script{playWhole, 1_500}, 20_000, atLeast(0.90)},
	{"SSE, bursts of 4 KiB", "event", script{playBurst, 300}, 200, atLeast(0.85)},
	{"SSE, one event in each write", "event", script{playToken, 300}, 200, atLeast(0.85)},
}

// measureRelay compares the gateway's byte path, which passes answers on as they
// came, with a bare proxy and, where nginx is installed, with that. Every byte of
// every answer is compared with what the upstream sent, which also proves that
// the gateway relays: an answer that it ran would have an id of its own.
//
// Client and upstream share the machine with what is in the middle, so the ratio
// of rates is closer to one than the ratio of CPU times, which is the middle's
// alone.
func measureRelay(ctx context.Context, r *rig, s *section) error {
	for _, load := range relayLoads {
		runners, err := relayRace(ctx, r, &load, pick(r, time.Second, 300*time.Millisecond), pick(r, 7, 3))
		if err != nil {
			return err
		}
		reportRelay(s, &load, runners)
	}
	return measureCrowd(ctx, r, s)
}

// A question is a request and the answer to it.
type question struct {
	request []byte
	key     string // "" for none
	want    *cannedResponse
}

// A runner is one way to the upstream and what was measured on it.
type runner struct {
	route
	questions func(i int64) question // the i-th that is asked
	asked     atomic.Int64
	rates     []float64 // requests or events per second, one for each round
	units     int       // requests or events in all rounds
	spent     time.Duration
}

// relayRace runs the load on every route in turns and returns proxy, gateway and,
// if it is installed, nginx.
func relayRace(ctx context.Context, r *rig, load *relayLoad, length time.Duration, rounds int) ([]*runner, error) {
	defer r.stopAll()
	runners, err := relayRunners(ctx, r, load)
	if err != nil {
		return nil, err
	}
	return runners, takeTurns(ctx, r, load.name, runners, length, rounds)
}

// takeTurns lets the runners run in turns.
func takeTurns(ctx context.Context, r *rig, name string, runners []*runner, length time.Duration, rounds int) error {
	client := newClient()
	defer client.CloseIdleConnections()
	for _, to := range runners {
		if _, err := to.run(ctx, client, length/4); err != nil { // warms up
			return err
		}
	}
	for round := range rounds {
		said := ""
		for i := range runners {
			to := runners[(round+i)%len(runners)] // nobody is always first
			if err := to.round(ctx, client, length); err != nil {
				return err
			}
			said += fmt.Sprintf(", %s %s/s", to.name, format(to.rates[round], ""))
		}
		r.say("relay: %s, round %d of %d%s", name, round+1, rounds, said)
	}
	return nil
}

// relayRunners starts an upstream and everything that stands in front of it.
func relayRunners(ctx context.Context, r *rig, load *relayLoad) ([]*runner, error) {
	upstream, err := r.replay(ctx)
	if err != nil {
		return nil, err
	}
	always := question{request: responseRequest(load.play, load.request), want: renderResponse(load.play)}
	starts := []struct {
		name  string
		start func(context.Context, *process) (*process, error)
	}{{"proxy", r.proxy}, {"gateway", r.relay}, {"nginx", r.nginx}}
	var runners []*runner
	for _, s := range starts {
		server, err := s.start(ctx, upstream)
		if s.name == "nginx" && errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") == "" {
			r.say("relay: nginx is not installed")
			continue
		}
		if err != nil {
			return nil, err
		}
		runners = append(runners, &runner{
			route: route{s.name, server, responsesProtocol}, questions: func(int64) question { return always },
		})
	}
	return runners, nil
}

// round is a run that counts.
func (to *runner) round(ctx context.Context, client *http.Client, length time.Duration) error {
	before, err := cpuTime(to.server.pid())
	if err != nil {
		return err
	}
	began := time.Now()
	units, err := to.run(ctx, client, length)
	if err != nil {
		return err
	}
	wall := time.Since(began)
	after, err := cpuTime(to.server.pid())
	if err != nil {
		return err
	}
	to.rates = append(to.rates, float64(units)/wall.Seconds())
	to.units += units
	to.spent += after - before
	return nil
}

// run asks on all connections, again and again until the time is over, and
// returns how many requests or events were answered.
func (to *runner) run(ctx context.Context, client *http.Client, length time.Duration) (int, error) {
	var units atomic.Int64
	began := time.Now()
	err := together(ctx, relayConnections, func(ctx context.Context, _ int) error {
		buf := make([]byte, 64<<10)
		for {
			q := to.questions(to.asked.Add(1))
			if err := to.ask(ctx, client, &q, buf); err != nil {
				c := call{to: to.route, model: firstMember(q.request, "model")}
				return c.explain(ctx, err)
			}
			units.Add(int64(q.want.units))
			if time.Since(began) >= length {
				return nil
			}
		}
	})
	return int(units.Load()), err
}

// ask sends one request and compares the answer with what the upstream sends.
func (to *runner) ask(ctx context.Context, client *http.Client, q *question, buf []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.server.url()+to.speaks.path(), bytes.NewReader(q.request))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if q.key != "" {
		req.Header.Set("Authorization", "Bearer "+q.key)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("status %d: %s", resp.StatusCode, said)
	}
	return sameBytes(resp.Body, q.want.body, buf)
}

// sameBytes reads r to its end, through buf, and fails unless it is want.
func sameBytes(r io.Reader, want, buf []byte) error {
	rest := want
	for {
		n, err := r.Read(buf)
		if !bytes.HasPrefix(rest, buf[:n]) {
			return fmt.Errorf("the answer is not the upstream's from byte %d on", len(want)-len(rest))
		}
		rest = rest[n:]
		switch {
		case err == io.EOF && len(rest) > 0:
			return fmt.Errorf("the answer ended %d bytes before its end", len(rest))
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("after %d bytes: %w", len(want)-len(rest), err)
		}
	}
}

// perUnit is the CPU time of the middle for one request or event, in
// microseconds.
func (to *runner) perUnit() float64 {
	return float64(to.spent.Nanoseconds()) / 1e3 / float64(to.units)
}

// reportRelay takes proxy, gateway and perhaps nginx.
func reportRelay(s *section, load *relayLoad, runners []*runner) {
	rates := chart{
		Title: load.counted + "s per second, relayed, " + load.name,
		Unit:  fmt.Sprintf("%d connections, median of %d rounds", relayConnections, len(runners[0].rates)),
	}
	costs := chart{Title: "CPU time per " + load.counted + ", relayed, " + load.name, Unit: "µs, of the process in the middle"}
	for _, to := range runners {
		rates.Lines = append(rates.Lines, chartLine{to.name, spreadOf(to.rates).median})
		costs.Lines = append(costs.Lines, chartLine{to.name, to.perUnit()})
	}
	s.draw(rates, costs)
	proxy, gateway := runners[0], runners[1]
	s.addSpread(row{Metric: load.name + ", rate over the proxy's", Limit: load.aim}, spreadOf(paired(gateway.rates, proxy.rates)))
	s.add(row{
		Metric: load.name + ", CPU time per " + load.counted, Value: gateway.perUnit(), Unit: "µs",
		Note: fmt.Sprintf("%s times the proxy's", format(gateway.perUnit()/proxy.perUnit(), "")),
	})
	for _, nginx := range runners[2:] {
		s.addSpread(row{Metric: load.name + ", rate over nginx's, one process"}, spreadOf(paired(gateway.rates, nginx.rates)))
	}
}
