package server

import (
	"strconv"
	"testing"
	"time"
)

// TestKeysAreForgotten: what is kept of keys is bounded by those in use, and a key
// that owes something or is at work is not forgotten.
func TestKeysAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	l := newLocalLimits(func() time.Time { return now })
	debtor := &Key{Name: "debtor", Limits: Limits{TokensPerMinute: 60}}
	worker := &Key{Name: "worker", Limits: Limits{Concurrent: 1}}
	l.Reserve(t.Context(), debtor, claimRun)
	l.Settle(t.Context(), debtor, 60*60)
	l.Reserve(t.Context(), worker, claimRun)
	for i := range 10 * minSweep {
		now = now.Add(time.Millisecond)
		l.Reserve(t.Context(), &Key{Name: strconv.Itoa(i), Limits: Limits{RequestsPerMinute: 6000}}, claimRequest)
	}
	if len(l.keys) > minSweep+20 { // those of the last 10 ms are in use
		t.Errorf("%d keys are kept", len(l.keys))
	}
	for _, k := range []*Key{debtor, worker} {
		if l.Reserve(t.Context(), k, claimRun).refusal == nil {
			t.Errorf("%s was forgotten", k.Name)
		}
	}
}

// TestBucketAgainstTheClock: a clock that goes back gives nothing and takes
// nothing.
func TestBucketAgainstTheClock(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	var b bucket
	b.limit(now, 60, 1)
	b.add(1)
	b.limit(now.Add(-time.Hour), 60, 1)
	if got := b.wait(); got != time.Second {
		t.Errorf("an hour back the wait is %v, want 1s", got)
	}
	b.limit(now.Add(time.Second), 60, 1)
	if got := b.wait(); got != 0 {
		t.Errorf("a second on the wait is %v, want 0", got)
	}
}
