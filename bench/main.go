// Command bench measures the gateway side by side with the bare thing: the same
// load, on the same machine, in the same run, so that what it prints are ratios
// and growths rather than one machine's speeds.
//
//	go run ./bench                    everything
//	go run ./bench events ttft        some of it
//	go run ./bench spine              what must hold before anything is built on it
//	go run ./bench spine --small      the same in less than a minute
//
// It builds the commands antiphon and fakeupstream and runs each as a process of
// its own, so that memory and CPU time are theirs alone. Two more servers are
// this command run again: "bench proxy" is a bare httputil.ReverseProxy, the
// least that anything in the middle can do; "bench replay" plays answers that
// were rendered in advance, so that the upstream costs little. The client is
// this process. Everything is on the loopback interface. Where nginx is installed,
// the measurement relay has it beside the proxy.
//
// Progress goes to standard error, the table to standard output. The exit code
// is 1 if a measurement failed or a hard bar was missed. An aim that was missed
// is only reported: speed depends on who else uses the machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// A measurement is one thing that bench can measure.
type measurement struct {
	name  string
	about string
	spine bool // part of "bench spine"
	run   func(context.Context, *rig, *section) error
}

var measurements = []measurement{
	{"events", "events per second, against a bare reverse proxy", true, measureEvents},
	{"allocs", "allocations per translated text delta", true, measureAllocs},
	{"streams", "memory of open streams", true, measureStreams},
	{"million", "very long answers and very long lines", true, measureMillion},
	{"stall", "readers that stop reading", true, measureStall},
	{"relay", "answers that pass as they came, against a bare reverse proxy and nginx", false, measureRelay},
	{"redis", "responses and chains in Redis, against redis-benchmark", false, measureRedis},
	{"postgres", "responses and chains in PostgreSQL, against its bare rows and pgbench", false, measurePostgres},
	{"retention", "a million responses in PostgreSQL, of which some are dropped under traffic", false, measureRetention},
	{"tools", "a loop of tools, against the bare calls of the model", false, measureTools},
	{"telemetry", "a gateway that is observed, against one that is not", false, measureTelemetry},
	{"ttft", "time to the first token, over the direct call", false, measureFirstToken},
}

// settings are the command line.
type settings struct {
	small    bool
	jsonFile string
	chosen   []measurement
}

// run is the command: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		switch args[0] {
		case "proxy":
			return serveChild(ctx, "proxy", args[1:], stderr, newProxy)
		case "replay":
			return serveChild(ctx, "replay", args[1:], stderr, newReplay)
		}
	}
	s, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "bench:", err)
		return 2
	}
	rep, err := measure(ctx, s, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	rep.print(stdout)
	if s.jsonFile != "" {
		if err := rep.writeJSON(s.jsonFile); err != nil {
			fmt.Fprintln(stderr, "bench:", err)
			return 1
		}
	}
	if rep.failed() {
		return 1
	}
	return 0
}

// parse reads the command line; flags may stand anywhere in it.
func parse(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&s.small, "small", false, "less of everything: below a minute in all")
	flags.StringVar(&s.jsonFile, "json", "", "write the raw numbers to `file`")
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: bench [spine | measurement…] [--small] [--json file]")
		for _, m := range measurements {
			fmt.Fprintf(stderr, "  %-8s %s\n", m.name, m.about)
		}
		flags.PrintDefaults()
	}
	var names []string
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			break
		}
		names = append(names, flags.Arg(0))
		args = flags.Args()[1:]
	}
	var err error
	s.chosen, err = choose(names)
	return s, err
}

// choose finds measurements by name; no name means all of them.
func choose(names []string) ([]measurement, error) {
	for _, name := range names {
		known := name == "spine" || slices.ContainsFunc(measurements, func(m measurement) bool { return m.name == name })
		if !known {
			return nil, fmt.Errorf("there is no measurement %q; bench --help lists them", name)
		}
	}
	var chosen []measurement
	for _, m := range measurements {
		if len(names) == 0 || slices.Contains(names, m.name) || m.spine && slices.Contains(names, "spine") {
			chosen = append(chosen, m)
		}
	}
	return chosen, nil
}

// measure runs the chosen measurements one after another. One that fails is a
// row of the report and does not keep the others from running.
func measure(ctx context.Context, s *settings, progress io.Writer) (*report, error) {
	rep := newReport(s.small)
	rig, err := newRig(ctx, s.small, progress)
	if err != nil {
		return nil, err
	}
	defer rig.close()
	limit := 5 * time.Minute
	if s.small {
		limit = time.Minute
	}
	for _, m := range s.chosen {
		began := time.Now()
		rig.say("%s: %s", m.name, m.about)
		bounded, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done after %v", limit))
		sec := rep.section(m.name)
		if err := m.run(bounded, rig, sec); err != nil {
			sec.fail(err)
			rig.say("%s: failed: %v", m.name, err)
		}
		cancel()
		rig.stopAll()
		if ctx.Err() != nil {
			return nil, errors.New("interrupted")
		}
		rig.say("%s: took %v", m.name, time.Since(began).Round(100*time.Millisecond))
	}
	return rep, nil
}
