package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// measureTelemetry compares a gateway that is observed with one that is not: with
// metrics, and one request of a hundred traced. The receiver of the traces is not
// there, as on a bad day.
func measureTelemetry(ctx context.Context, r *rig, s *section) error {
	if err := telemetryOfRelay(ctx, r, s); err != nil {
		return err
	}
	return telemetryOfEvents(ctx, r, s)
}

// observed starts a gateway for the protocol, with telemetry if on.
func (r *rig) observed(ctx context.Context, upstream *process, protocol string, on bool) (*process, error) {
	text := fmt.Sprintf("upstreams: { up: { protocol: %s, url: %q } }\nmodels: { \"*\": up }\n", protocol, upstream.url()+"/v1")
	if on {
		admin, err := freeAddress()
		if err != nil {
			return nil, err
		}
		gone, err := freeAddress()
		if err != nil {
			return nil, err
		}
		text += fmt.Sprintf("admin: { listen: %q }\ntraces: { endpoint: \"http://%s/v1/traces\", percent: 1 }\n", admin, gone)
	}
	file := filepath.Join(r.dir, fmt.Sprintf("telemetry-%s-%t.yaml", protocol, on))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return r.built(ctx, "antiphon", "serve", "--config", file, "--log", "off")
}

func telemetryName(on bool) string {
	if on {
		return "observed"
	}
	return "alone"
}

func telemetryOfRelay(ctx context.Context, r *rig, s *section) error {
	defer r.stopAll()
	upstream, err := r.replay(ctx)
	if err != nil {
		return err
	}
	play := script{playWhole, 2_000}
	always := question{request: responseRequest(play, 2_000), want: renderResponse(play)}
	var runners []*runner
	for _, on := range []bool{false, true} {
		server, err := r.observed(ctx, upstream, "responses", on)
		if err != nil {
			return err
		}
		runners = append(runners, &runner{route: route{telemetryName(on), server, responsesProtocol}, questions: func(int64) question { return always }})
	}
	if err := takeTurns(ctx, r, "telemetry", runners, pick(r, 400*time.Millisecond, 200*time.Millisecond), pick(r, 31, 5)); err != nil {
		return err
	}
	alone, observed := runners[0], runners[1]
	s.addSpread(row{Metric: "relayed requests per second, observed over alone", Limit: atLeast(0.97)}, spreadOf(paired(observed.rates, alone.rates)))
	s.add(row{Metric: "CPU time per relayed request, observed over alone", Value: observed.perUnit() / alone.perUnit(), Limit: atMost(1.03)})
	return nil
}

func telemetryOfEvents(ctx context.Context, r *rig, s *section) error {
	defer r.stopAll()
	upstream, err := r.replay(ctx)
	if err != nil {
		return err
	}
	var courses []*course
	client := newClient()
	defer client.CloseIdleConnections()
	for _, on := range []bool{false, true} {
		server, err := r.observed(ctx, upstream, "chat", on)
		if err != nil {
			return err
		}
		c := &course{route: route{telemetryName(on), server, responsesProtocol}}
		if err := c.calibrate(ctx, client, playToken, pick(r, time.Second, 300*time.Millisecond)); err != nil {
			return err
		}
		courses = append(courses, c)
	}
	rounds := pick(r, 11, 3)
	for round := range rounds {
		for i := range courses {
			if err := courses[(round+i)%2].round(ctx, client, upstream); err != nil {
				return err
			}
		}
		r.say("telemetry: events, round %d of %d", round+1, rounds)
	}
	alone, observed := courses[0], courses[1]
	s.addSpread(row{Metric: "translated events per second, observed over alone", Limit: atLeast(0.95)}, spreadOf(paired(observed.rates, alone.rates)))
	s.add(row{Metric: "CPU time per translated event, observed over alone", Value: observed.perEvent() / alone.perEvent(), Limit: atMost(1.05)})
	return nil
}
