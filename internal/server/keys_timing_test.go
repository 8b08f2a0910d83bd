package server

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	timingBatch   = 64    // comparisons that are timed at once
	timingSamples = 3_000 // of each class, in a round
	timingRounds  = 3
	// timingBar is the t beyond which two classes do not take the same time; that
	// of noise is below 4.5.
	timingBar = 10.0
)

// A guesser tries secrets against a comparer and times the answers.
type guesser struct {
	rng       *rand.Rand
	compare   func(secret string) bool
	far, near []string // guesses that share nothing with a key, and all but their end
}

// newGuesser makes guesses at the key that are new in each round, so that where
// they lie in memory, and what they hash to, is chance.
func newGuesser(rng *rand.Rand, key string, compare func(string) bool) *guesser {
	g := &guesser{rng: rng, compare: compare}
	const chars = "abcdefghijklmnopqrstuvwxyz0123456789"
	random := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte(chars[rng.IntN(len(chars))])
		}
		return b.String()
	}
	const end = 4
	for range 16 * timingBatch {
		// Both are as long as the key and are made in the same way.
		g.far = append(g.far, "~"+random(len(key)-1))
		g.near = append(g.near, key[:len(key)-end]+random(end))
	}
	return g
}

// sample is how long one batch of guesses takes.
func (g *guesser) sample(guesses []string) float64 {
	from := g.rng.IntN(len(guesses) - timingBatch)
	hits := 0
	began := time.Now()
	for _, guess := range guesses[from : from+timingBatch] {
		if g.compare(guess) {
			hits++
		}
	}
	took := time.Since(began)
	if hits > 0 {
		panic("a guess was right")
	}
	return float64(took)
}

// t is Welch's statistic of near against far: how surely the better guesses take
// longer. Samples are taken in turns, in an order that is chance, and what was
// interrupted is left out by the same bound for both.
func (g *guesser) t() float64 {
	var near, far []float64
	for len(near) < timingSamples || len(far) < timingSamples {
		if g.rng.IntN(2) == 0 {
			near = append(near, g.sample(g.near))
		} else {
			far = append(far, g.sample(g.far))
		}
	}
	all := slices.Sorted(slices.Values(slices.Concat(near, far)))
	bound := all[len(all)*3/4]
	tooLong := func(v float64) bool { return v > bound }
	return welch(slices.DeleteFunc(near, tooLong), slices.DeleteFunc(far, tooLong))
}

// welch is the t of two samples whose spreads may differ.
func welch(a, b []float64) float64 {
	moments := func(v []float64) (mean, err float64) {
		for _, x := range v {
			mean += x / float64(len(v))
		}
		for _, x := range v {
			err += (x - mean) * (x - mean) / float64(len(v)-1)
		}
		return mean, err / float64(len(v))
	}
	if len(a) < 2 || len(b) < 2 {
		return math.Copysign(math.Inf(1), float64(len(b)-len(a))) // one class is all beyond the bound
	}
	meanA, errA := moments(a)
	meanB, errB := moments(b)
	return (meanA - meanB) / math.Sqrt(errA+errB)
}

// leaks reports whether guesses that are nearer take longer, or less long, in every
// round. It also returns the statistics.
func leaks(rng *rand.Rand, key string, compare func(string) bool) (bool, []float64) {
	var ts []float64
	for range timingRounds {
		ts = append(ts, newGuesser(rng, key, compare).t())
	}
	slower := slices.Min(ts) > timingBar
	faster := slices.Max(ts) < -timingBar
	return slower || faster, ts
}

// comparesByteByByte is how keys are not to be compared: it stops at the first
// difference.
func comparesByteByByte(keys []string) func(string) bool {
	return func(secret string) bool {
		return slices.ContainsFunc(keys, func(key string) bool {
			if len(key) != len(secret) {
				return false
			}
			for i := range len(key) {
				if key[i] != secret[i] {
					return false
				}
			}
			return true
		})
	}
}

// TestKeysDoNotLeakByTime: how long it takes to refuse a key does not tell how much
// of it is right (R35). The same measurement finds that out of a comparison that
// stops at the first difference, with a margin; a machine on which it does not is
// tried again and then a failure, because it would prove nothing.
func TestKeysDoNotLeakByTime(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for seconds")
	}
	const key = "ak-8f14e45fceea167a5a36dedd4bea2543c9f0f895fb98ab91"
	ring, err := NewKeyring([]Key{{Name: "ci", Secret: key}})
	if err != nil {
		t.Fatal(err)
	}
	ours := func(secret string) bool { return ring.find(secret) != nil }
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	const tries = 5
	for try := range tries {
		found, planted := leaks(rng, key, comparesByteByByte([]string{key}))
		if !found || slices.Min(planted) < 2*timingBar {
			t.Logf("try %d: the planted leak is not clear: t %s", try, rounded(planted))
			continue
		}
		leaky, own := leaks(rng, key, ours)
		t.Logf("t of the planted leak %s, of ours %s; the bar is %v", rounded(planted), rounded(own), timingBar)
		if !leaky {
			return
		}
	}
	t.Errorf("in %d tries no measurement that finds the planted leak found none in ours", tries)
}

// TestWelch: the statistic is the textbook's, and a leak of either sign is one.
func TestWelch(t *testing.T) {
	t.Parallel()
	a, b := []float64{3, 4, 5, 6}, []float64{1, 2, 3, 4, 5}
	if got := welch(a, b); math.Abs(got-1.5667) > 1e-3 {
		t.Errorf("got %v", got)
	}
	if got := welch(b, a); math.Abs(got+1.5667) > 1e-3 {
		t.Errorf("got %v the other way round", got)
	}
	if got := welch(nil, a); got != math.Inf(1) {
		t.Errorf("a class that is all too slow: %v", got)
	}
}

func rounded(ts []float64) string {
	var words []string
	for _, t := range ts {
		words = append(words, fmt.Sprintf("%.1f", t))
	}
	return strings.Join(words, ", ")
}
