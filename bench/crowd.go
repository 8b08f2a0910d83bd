package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A crowd is a configuration with many keys and models.
type crowd struct{ keys, models int }

// crowdPlays is how many models are asked for. Each is a script of its own, so
// that an answer tells which it was.
const crowdPlays = 500

func (c crowd) key(i int64) string { return fmt.Sprintf("sk-bench-%032d", i%int64(c.keys)) }
func (crowd) play(i int64) script  { return script{playWhole, 1_000 + int(i%crowdPlays)} }

// questions are asked by the members of the crowd in turn, for one model after
// another.
func (c crowd) questions() func(i int64) question {
	all := make([]question, crowdPlays)
	for i := range all {
		play := c.play(int64(i))
		all[i] = question{request: responseRequest(play, 200), want: renderResponse(play)}
	}
	return func(i int64) question {
		q := all[i%crowdPlays]
		q.key = c.key(i * 7919) // a prime: neighbours in time are none in the file
		return q
	}
}

// file is the configuration. Alone, a pattern takes every model.
func (c crowd) file(upstream string) string {
	var b strings.Builder
	b.WriteString("auth:\n  keys:\n")
	for i := range c.keys {
		fmt.Fprintf(&b, "    - { name: key-%d, key: %q }\n", i, c.key(int64(i)))
	}
	fmt.Fprintf(&b, "upstreams:\n  up: { protocol: responses, url: %q }\nmodels:\n", upstream+"/v1")
	if c.models == 1 {
		return b.String() + "  \"*\": up\n"
	}
	for i := range c.models {
		switch {
		case i < crowdPlays:
			fmt.Fprintf(&b, "  %s: up\n", c.play(int64(i)))
		case i%10 == 0:
			fmt.Fprintf(&b, "  \"family-%d/*\": up\n", i)
		default:
			fmt.Fprintf(&b, "  model-%d: up\n", i)
		}
	}
	return b.String()
}

// crowded starts a gateway with the configuration of a crowd.
func (r *rig) crowded(ctx context.Context, upstream *process, c crowd) (*process, error) {
	file := filepath.Join(r.dir, fmt.Sprintf("crowd-%d.yaml", c.keys))
	if err := os.WriteFile(file, []byte(c.file(upstream.url())), 0o600); err != nil {
		return nil, err
	}
	return r.built(ctx, "antiphon", "serve", "--config", file, "--log", "off")
}

// measureCrowd compares a gateway of one key and one pattern with one of many keys
// and models, in many short rounds: the difference is to be smaller than what the
// neighbours of a longer one make.
func measureCrowd(ctx context.Context, r *rig, s *section) error {
	return measureCrowdOf(ctx, r, s, pick(r, crowd{100_000, 10_000}, crowd{10_000, 1_000}),
		pick(r, 400*time.Millisecond, 200*time.Millisecond), pick(r, 25, 7))
}

func measureCrowdOf(ctx context.Context, r *rig, s *section, many crowd, length time.Duration, rounds int) error {
	defer r.stopAll()
	upstream, err := r.replay(ctx)
	if err != nil {
		return err
	}
	var runners []*runner
	for _, c := range []crowd{{1, 1}, many} {
		server, err := r.crowded(ctx, upstream, c)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("with %s keys", format(float64(c.keys), ""))
		runners = append(runners, &runner{route: route{name, server, responsesProtocol}, questions: c.questions()})
	}
	title := fmt.Sprintf("%s keys and %s models", format(float64(many.keys), ""), format(float64(many.models), ""))
	if err := takeTurns(ctx, r, title, runners, length, rounds); err != nil {
		return err
	}
	alone, crowded := runners[0], runners[1]
	s.addSpread(row{Metric: title + ", rate over that of one", Limit: atLeast(0.98)}, spreadOf(paired(crowded.rates, alone.rates)))
	s.add(row{
		Metric: title + ", CPU time per request", Value: crowded.perUnit(), Unit: "µs",
		Note: fmt.Sprintf("%s times that of one", format(crowded.perUnit()/alone.perUnit(), "")),
	})
	return nil
}
