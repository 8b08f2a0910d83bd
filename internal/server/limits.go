package server

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/responses"
)

// Limits are how much a key may use. Zero means no limit.
type Limits struct {
	// RequestsPerMinute counts every request with the key. A second's worth of
	// them, at least one, may come at once.
	RequestsPerMinute int64
	// TokensPerMinute counts what responses have used, in and out. What one will
	// use is not known before, so it is charged when it has ended: a key may spend
	// a minute's worth at once and more with the last response, and then gets no
	// other before that is paid back. Where nobody says what it was, it is estimated.
	TokensPerMinute int64
	// Concurrent is how many responses may be made at the same time.
	Concurrent int
}

// A limitStore counts what keys use. It outlives generations. Here it counts for
// one process; one that replicas share fits the same contract, and then decides
// itself what to answer while it cannot be reached.
type limitStore interface {
	// Reserve counts a request of the key, if that is within its limits. A refused
	// request counts for nothing.
	Reserve(ctx context.Context, key *Key, c claim) standing
	// Settle ends a claimRun that was not refused, which used so many tokens.
	Settle(ctx context.Context, key *Key, tokens int64)
}

// A claim is what a request is for.
type claim int

const (
	claimRequest claim = iota // something that ends at once
	claimRun                  // a response, to be settled
)

// A standing is how a key stands after a reservation.
type standing struct {
	refusal          *responses.Error // nil if the request was counted
	requests, tokens room
}

// room is what is left of a limit.
type room struct {
	limit     int64 // a minute; 0 means that there is no limit
	remaining int64 // at once, now
	reset     time.Duration
}

// reserve counts the request of a limited key, and puts into the headers how the
// key stands. The returned function is to be called when the request has ended.
func (x *exchange) reserve(c claim) (settle func(), err error) {
	if x.key == nil || x.key.Limits == (Limits{}) {
		return func() {}, nil
	}
	s := x.s.limits.Reserve(x.r.Context(), x.key, c)
	s.requests.writeTo(x.Header(), "Requests")
	s.tokens.writeTo(x.Header(), "Tokens")
	if s.refusal != nil {
		return nil, s.refusal
	}
	if c != claimRun {
		return func() {}, nil
	}
	return func() { x.s.limits.Settle(context.WithoutCancel(x.r.Context()), x.key, x.tokensUsed()) }, nil
}

// bytesPerToken is how many bytes of a request are taken for a token.
const bytesPerToken = 4

// tokensUsed is what the response has used. If nobody said so, because the upstream
// does not or the client did not wait for it, it is an estimate: a part of the
// request, and one for each event of the answer.
func (x *exchange) tokensUsed() int64 {
	switch {
	case x.end == nil || x.shape.model == "":
		return 0
	case x.end.Usage != nil:
		return x.end.Usage.TotalTokens
	case x.end.Events == 0 && x.end.Cause != engine.CauseCompleted && x.end.Cause != engine.CauseIncomplete:
		return 0 // it was refused
	}
	return x.received/bytesPerToken + x.end.Events
}

// writeTo says what is left in the headers that SDKs know from the API.
func (r room) writeTo(h http.Header, of string) {
	if r.limit == 0 {
		return
	}
	h.Set("X-Ratelimit-Limit-"+of, strconv.FormatInt(r.limit, 10))
	h.Set("X-Ratelimit-Remaining-"+of, strconv.FormatInt(r.remaining, 10))
	h.Set("X-Ratelimit-Reset-"+of, (r.reset + time.Millisecond - 1).Truncate(time.Millisecond).String())
}

// localLimits is the limitStore of one process.
type localLimits struct {
	now func() time.Time

	mu      sync.Mutex
	keys    map[string]*usage // by name; guarded by mu
	sweepAt int               // how many there may be before they are looked through; guarded by mu
}

var _ limitStore = (*localLimits)(nil)

// usage is what a key has used of its limits.
type usage struct {
	requests, tokens bucket
	running          int
}

func newLocalLimits(now func() time.Time) *localLimits {
	return &localLimits{now: now, keys: map[string]*usage{}, sweepAt: minSweep}
}

// Reserve implements [limitStore].
func (l *localLimits) Reserve(_ context.Context, key *Key, c claim) standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.of(key)
	refusal := u.refuse(&key.Limits, c)
	if refusal == nil {
		u.requests.add(1)
		if c == claimRun {
			u.running++
		}
	}
	return standing{refusal, u.requests.room(), u.tokens.room()}
}

// Settle implements [limitStore].
func (l *localLimits) Settle(_ context.Context, key *Key, tokens int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.of(key)
	u.running--
	u.tokens.add(float64(max(tokens, 0))) // an upstream may say anything
}

// of returns the usage of the key as it is now.
func (l *localLimits) of(key *Key) *usage {
	now := l.now()
	u := l.keys[key.Name]
	if u == nil {
		if len(l.keys) >= l.sweepAt {
			l.sweep(now)
		}
		u = new(usage)
		l.keys[key.Name] = u
	}
	u.requests.limit(now, key.Limits.RequestsPerMinute, max(key.Limits.RequestsPerMinute/60, 1))
	u.tokens.limit(now, key.Limits.TokensPerMinute, key.Limits.TokensPerMinute)
	return u
}

// minSweep is how few keys are not worth looking through.
const minSweep = 1024

// sweep forgets keys that are as good as new. Names come from configurations
// only; without this those of old ones would stay for ever.
func (l *localLimits) sweep(now time.Time) {
	for name, u := range l.keys {
		u.requests.leak(now)
		u.tokens.leak(now)
		if u.running == 0 && u.requests.level == 0 && u.tokens.level == 0 {
			delete(l.keys, name)
		}
	}
	l.sweepAt = max(minSweep, 2*len(l.keys))
}

// refuse says which limit does not let a request pass, and for how long.
func (u *usage) refuse(limits *Limits, c claim) *responses.Error {
	requests, tokens := u.requests.wait(), time.Duration(0)
	if c == claimRun {
		tokens = u.tokens.wait()
	}
	switch {
	case tokens > requests:
		return tooMuch("tokens_per_minute", tokens, "This key has used the %d tokens that it has a minute; wait.", limits.TokensPerMinute)
	case requests > 0:
		return tooMuch("requests_per_minute", requests, "This key may send %d requests a minute; slow down.", limits.RequestsPerMinute)
	case c == claimRun && limits.Concurrent > 0 && u.running >= limits.Concurrent:
		// When one of them ends is anybody's guess.
		return tooMuch("concurrent", time.Second, "This key may make %d responses at the same time; wait for one to end.", int64(limits.Concurrent))
	}
	return nil
}

// limitReached is a limit, as the configuration calls it, that a key has reached.
type limitReached string

func (l limitReached) Error() string { return string(l) }

func tooMuch(name limitReached, wait time.Duration, format string, limit int64) *responses.Error {
	e := responses.InvalidParam(responses.CodeRateLimit, "", format, limit).WithCause(name)
	e.RetryAfter = wait
	return e
}

// A bucket holds what was used of a limit, and leaks at the rate of the limit.
type bucket struct {
	level     float64
	at        time.Time // when the level was that
	perMinute int64     // 0 means that there is no limit, and the bucket stays empty
	size      int64
}

// crumb is less than anything that counts, and more than what floating point
// loses.
const crumb = 1e-6

// maxDebt bounds how long a bucket takes to be paid back: an upstream that names
// an absurd number does not lock a key out for ever.
const maxDebt = time.Hour

// limit sets the limit, which may have changed, and lets leak what has leaked.
func (b *bucket) limit(now time.Time, perMinute, size int64) {
	b.perMinute, b.size = perMinute, size
	b.leak(now)
}

func (b *bucket) leak(now time.Time) {
	if elapsed := now.Sub(b.at); elapsed > 0 {
		b.level = max(0, b.level-elapsed.Minutes()*float64(b.perMinute))
		b.at = now
	}
	if b.perMinute == 0 {
		b.level = 0
	}
}

// add uses n, also where there is no room for it.
func (b *bucket) add(n float64) {
	if b.perMinute > 0 {
		b.level = min(b.level+n, float64(b.size)+maxDebt.Minutes()*float64(b.perMinute))
	}
}

// wait is how long it takes until there is room for one.
func (b *bucket) wait() time.Duration {
	missing := b.level + 1 - float64(b.size)
	if b.perMinute == 0 || missing < crumb {
		return 0
	}
	return b.time(missing)
}

// time is how long it takes until n has leaked.
func (b *bucket) time(n float64) time.Duration {
	return time.Duration(math.Ceil(n / float64(b.perMinute) * float64(time.Minute)))
}

func (b *bucket) room() room {
	if b.perMinute == 0 {
		return room{}
	}
	left := math.Floor(float64(b.size) - b.level + crumb)
	return room{limit: b.perMinute, remaining: int64(max(left, 0)), reset: b.time(b.level)}
}
