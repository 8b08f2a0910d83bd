package route

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// Health says when a target is left alone and for how long. The zero value means
// the defaults.
type Health struct {
	// Consecutive failures eject a target. Zero means 5.
	Consecutive int
	// ErrorRate ejects it too, from 20 requests in Window on. Zero means 0.5.
	ErrorRate float64
	// Window is over what time the rate is taken. Zero means 30 s.
	Window time.Duration
	// Eject is how long the first ejection lasts; each that follows without a
	// recovery is twice as long, up to MaxEject. Zero means 5 s and 60 s.
	Eject, MaxEject time.Duration
}

func (h Health) withDefaults() Health {
	if h.Consecutive == 0 {
		h.Consecutive = 5
	}
	if h.ErrorRate == 0 {
		h.ErrorRate = 0.5
	}
	if h.Window == 0 {
		h.Window = 30 * time.Second
	}
	if h.Eject == 0 {
		h.Eject = 5 * time.Second
	}
	if h.MaxEject == 0 {
		h.MaxEject = time.Minute
	}
	return h
}

// enoughRequests is how many make an error rate worth looking at.
const enoughRequests = 20

// target is a target of one router with its state.
type target struct {
	Target
	settings Upstream
	driver   upstream.Driver
	*state
}

// state is what is known of a target. It outlives the router: one that takes
// over from another goes on with it.
type state struct {
	health  Health
	now     func() time.Time
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]

	mu        sync.Mutex
	inFlight  int
	ejected   int       // how often in a row
	ejections int64     // how often in all
	broken    int       // answers in a row that broke off after they had begun
	until     time.Time // the target asked to be left alone, or was ejected, until then
	nextTurn  time.Time // when the pace of RequestsPerMinute allows the next turn
}

func newState(name string, h Health, now func() time.Time) *state {
	s := &state{health: h, now: now}
	s.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name:     name,
		Interval: h.Window,
		Timeout:  h.Eject,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return int(c.ConsecutiveFailures) >= h.Consecutive ||
				c.Requests >= enoughRequests && float64(c.TotalFailures) >= h.ErrorRate*float64(c.Requests)
		},
		OnStateChange: s.changed,
		IsExcluded:    func(err error) bool { return errors.Is(err, errNoVerdict) },
	})
	return s
}

// changed keeps count of ejections. A target that fails its probe is left alone
// for twice as long as before.
func (t *state) changed(_ string, _, to gobreaker.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch to {
	case gobreaker.StateOpen:
		t.eject()
	case gobreaker.StateClosed:
		t.ejected = 0
	}
}

// eject leaves the target alone. It is under mu.
func (t *state) eject() {
	pause := min(t.health.Eject<<min(t.ejected, 16), t.health.MaxEject)
	t.ejected++
	t.ejections++
	t.until = later(t.until, t.now().Add(pause))
}

// usable reports whether the target may get a turn now. It does not promise that
// begin will succeed: others may be faster.
func (t *target) usable() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	return !now.Before(t.until) && t.hasRoom(now)
}

// hasRoom is under mu.
func (t *target) hasRoom(now time.Time) bool {
	return (t.Concurrent <= 0 || t.inFlight < t.Concurrent) && (t.RequestsPerMinute <= 0 || !now.Before(t.nextTurn))
}

// load is how many turns the target has.
func (t *state) load() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.inFlight
}

// errBusy: the target has no room for a turn.
var errBusy = errors.New("route: the target has no room")

// errNoVerdict is the outcome of a turn that says nothing about the target.
var errNoVerdict = errors.New("route: not the target's doing")

// begin takes a place for a turn. The verdict must be given once, with the first
// event or the failure before it; end gives the place back. A target that is to
// be left alone is refused unless desperate is true.
func (t *target) begin(desperate bool) (verdict func(error), end func(), err error) {
	verdict, err = t.breaker.Allow()
	if err != nil {
		if !desperate {
			return nil, nil, err
		}
		verdict = func(error) {}
	}
	t.mu.Lock()
	now := t.now()
	if !t.hasRoom(now) {
		t.mu.Unlock()
		verdict(errNoVerdict)
		return nil, nil, errBusy
	}
	t.inFlight++
	if t.RequestsPerMinute > 0 {
		t.nextTurn = later(t.nextTurn, now).Add(time.Minute / time.Duration(t.RequestsPerMinute))
	}
	t.mu.Unlock()
	return verdict, sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.inFlight--
	}), nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// blame judges a failure: whether it is the target's, so that another one may do
// better, and whether it counts against the target's health.
func (t *state) blame(err error) (another bool, verdict error) {
	e := responses.AsError(err)
	switch {
	case e.Code == responses.CodeUnsupported:
		return true, errNoVerdict // another target's protocol may have a place for it
	case e.Origin != responses.OriginUpstream && e.Code != responses.CodeServer:
		return false, errNoVerdict
	}
	switch e.Code {
	case responses.CodeRateLimit, responses.CodeQuota:
		t.pause(e.RetryAfter)
		return true, errNoVerdict
	case responses.CodeUpstream, responses.CodeOverloaded, responses.CodeTimeout, responses.CodeModelNotFound, responses.CodeServer:
		t.pause(e.RetryAfter)
		return true, err
	}
	return false, errNoVerdict // the request itself is at fault
}

// blame judges as the state does, but for names of models that clients make up:
// that the upstream has no such model is no failure of it.
func (t *target) blame(err error) (another bool, verdict error) {
	another, verdict = t.state.blame(err)
	if responses.AsError(err).Code == responses.CodeModelNotFound && t.takesAnyName() {
		verdict = errNoVerdict
	}
	return another, verdict
}

// public is a failure of the target as clients may read it.
func (t *target) public(err error) error {
	if t.settings.Sanitize {
		return upstream.Public(err)
	}
	return err
}

// pause leaves the target alone for as long as it asked.
func (t *state) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = later(t.until, t.now().Add(min(d, t.health.MaxEject)))
}

// ended notes how an answer ended that had begun. The breaker has counted it as a
// success, because it cannot wait for the end; a target whose answers keep
// breaking off is ejected all the same.
func (t *state) ended(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.broken = 0
		return
	}
	if t.broken++; t.broken >= t.health.Consecutive {
		t.broken = 0
		t.eject()
	}
}

// draw is the place of the target in the order for a key: the smaller, the
// earlier. Over many keys each target is first in proportion to its weight
// (weighted rendezvous hashing).
func (t *target) draw(hash uint64) float64 {
	u := (float64(hash>>11) + 1) / (1 << 53) // in (0, 1]
	if t.Weight < 0 {
		return math.Inf(1)
	}
	return -math.Log(u) / float64(t.Weight)
}
