package main

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// TestProcessThatEndsAtOnce: its last words are in the error.
func TestProcessThatEndsAtOnce(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := startProcess(t.Context(), "replay", self, "replay", "--bogus")
	if err == nil {
		p.stop()
		t.Fatal("a server with a wrong command line started")
	}
	if !strings.Contains(err.Error(), "replay: ended at once") || !strings.Contains(err.Error(), "bogus") {
		t.Errorf("got %v, want the name, that it ended, and what it said", err)
	}
}

func TestStopWaits(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := startProcess(t.Context(), "replay", self, "replay")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.alive(); err != nil {
		t.Error(err)
	}
	p.stop()
	p.stop()
	if p.alive() == nil {
		t.Error("a stopped process is said to be alive")
	}
	if conn, err := net.Dial("tcp", p.addr); err == nil {
		conn.Close()
		t.Error("a stopped process accepts connections")
	}
}

func TestLastBytes(t *testing.T) {
	t.Parallel()
	var b lastBytes
	for range 3 {
		b.Write([]byte(strings.Repeat("a", keptOutput-1)))
	}
	b.Write([]byte("end\n"))
	if got := b.String(); len(got) != keptOutput-1 || !strings.HasSuffix(got, "aend") {
		t.Errorf("got %d bytes ending in %.10q, want the last %d", len(got), got[len(got)-4:], keptOutput-1)
	}
}

func TestTogether(t *testing.T) {
	t.Parallel()
	err := together(t.Context(), 10, func(ctx context.Context, i int) error {
		if i == 3 {
			return os.ErrInvalid
		}
		<-ctx.Done() // the others end only because one failed
		return nil
	})
	if err != os.ErrInvalid {
		t.Errorf("got %v, want the error of the one that failed", err)
	}
}

// TestAllocationsPerDelta holds the hard limit of the measurement allocs on a
// shorter answer. It counts for the whole process, so it is not parallel.
func TestAllocationsPerDelta(t *testing.T) {
	for _, kind := range []string{playBurst, playToken} {
		cost, err := allocations(t.Context(), script{kind, 5_000})
		if err != nil {
			t.Fatal(err)
		}
		if cost.count <= 0 || cost.count > 10 {
			t.Errorf("%s: %.2f allocations per delta, want some and at most 10", kind, cost.count)
		}
	}
}

// TestSmoke runs a tiny race against the programs as they are built.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the gateway and runs it")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	r, err := newRig(ctx, true, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	courses, err := race(ctx, r, playBurst, time.Millisecond, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range courses {
		if len(c.rates) != 2 || c.rates[0] <= 0 || c.events != 2*eventStreams*c.play.n || c.play.n < calibration {
			t.Errorf("%s: got rates %v and %d events of %v, want two rounds", c.name, c.rates, c.events, c.play)
		}
	}
	if len(r.running) != 0 {
		t.Errorf("%d processes are still running", len(r.running))
	}
}
