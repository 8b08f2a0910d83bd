// Package codex is the driver for the Codex app-server: models that are reached
// with a Codex login, through the program that owns it.
//
// The app-server is an agent that we need one thing of, a model call. Its own
// prompt, tools and habits are switched off (home.go, catalog.go), so that what
// arrives at the model is the client's instructions, input and tools. A turn is a
// thread of its own that is given the whole history, and is deleted when the model
// has answered once: the client runs its tools and comes back with the results, to
// whichever process (turn.go). encode.go lists what Codex has no place for;
// decode.go makes events of what it says. Both are pure.
//
// One process serves one credential and many turns at once. It is started when it
// is needed, and replaced when it is old, large or silent (seat.go, worker.go).
package codex

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// Options configures [New]. The zero value is usable.
type Options struct {
	// Logins are the directories of Codex logins, such as ~/.codex; APIKeys are keys
	// of the provider. Each gets a process of its own, and they share the turns.
	// Without any there is one process without a credential, for a provider that
	// the command names and that needs none.
	Logins, APIKeys []string
	// Env is given to the processes beside the few variables of our own
	// environment that they need.
	Env map[string]string
	// Degrade reports what Codex has no place for as a loss, instead of refusing
	// the request.
	Degrade bool
	// SkipMalformed passes over lines of a process that are no message. Otherwise
	// one ends the process, with all its turns.
	SkipMalformed bool

	// Concurrent is how many turns one process runs at a time. Zero means 50.
	Concurrent int
	// Queue is how many turns may wait for their place. Zero means 200, negative
	// none.
	Queue int
	// QueueTime is how long one may wait. Zero means 30 s.
	QueueTime time.Duration

	// MaxAge and MaxMemory are when a process is replaced: its turns end there,
	// new ones go to another. Zero means an hour, and 512 MiB.
	MaxAge    time.Duration
	MaxMemory int64
	// IdleTime is when a process without turns is ended. Zero means 10 minutes.
	IdleTime time.Duration
	// CheckTime is how often a process is looked at, and AnswerTime how long it may
	// take to answer then. Zero means 10 s each.
	CheckTime, AnswerTime time.Duration
	// StartTime is how long a process may take to start. Zero means 20 s.
	StartTime time.Duration

	// TempDir is where the processes have their homes. Empty means the system's
	// directory for such things.
	TempDir string
	// Logger is told of processes. Nil means nobody is.
	Logger *slog.Logger
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	orElse(&d.Concurrent, 50)
	if d.Queue == 0 {
		d.Queue = 200
	}
	orElse(&d.QueueTime, 30*time.Second)
	orElse(&d.MaxAge, time.Hour)
	orElse(&d.MaxMemory, 512<<20)
	orElse(&d.IdleTime, 10*time.Minute)
	orElse(&d.CheckTime, 10*time.Second)
	orElse(&d.AnswerTime, 10*time.Second)
	orElse(&d.StartTime, 20*time.Second)
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	return d
}

func orElse[T int | int64 | time.Duration](v *T, or T) {
	if *v <= 0 {
		*v = or
	}
}

// New returns a driver that starts the command, which contains the word
// app-server, when it is needed. Nil options mean the defaults. The driver is an
// [upstream.ModelLister].
func New(command []string, opts *Options) (upstream.Driver, error) {
	if _, ok := cutCommand(command); !ok {
		return nil, errors.New(`the command must be that of the Codex app-server, such as "codex", "app-server"`)
	}
	d := &driver{command: slices.Clone(command), opts: opts.withDefaults()}
	d.closing, d.close = context.WithCancelCause(context.Background())
	var credentials []credential
	for _, dir := range d.opts.Logins {
		credentials = append(credentials, credential{login: dir})
	}
	for _, key := range d.opts.APIKeys {
		credentials = append(credentials, credential{key: key})
	}
	if credentials == nil {
		credentials = []credential{{}}
	}
	for _, c := range credentials {
		d.seats = append(d.seats, &seat{d: d, credential: c})
	}
	d.places = make(chan struct{}, len(d.seats)*d.opts.Concurrent)
	return d, nil
}

type driver struct {
	command []string
	opts    Options
	seats   []*seat
	places  chan struct{} // one for each turn that runs
	waiting atomic.Int64  // turns that wait for a place

	closing context.Context // ends when the driver is closed
	close   context.CancelCauseFunc
	workers sync.WaitGroup // processes, and threads that are being deleted

	mu     sync.Mutex // guards closed
	closed bool       // nothing more is started

	reading sync.Mutex // guards catalog, also while it is read
	catalog *catalog
}

var (
	_ upstream.Driver      = (*driver)(nil)
	_ upstream.ModelLister = (*driver)(nil)
)

// Open implements [upstream.Driver]. It returns with the first event: until then
// the provider may still refuse.
func (d *driver) Open(ctx context.Context, t *upstream.Turn) (*upstream.Stream, error) {
	enc, err := encode(t, &d.opts)
	if err != nil {
		return nil, err
	}
	if d.closing.Err() != nil {
		return nil, upstream.ErrClosed
	}
	run := newTurn(d, ctx, t, enc)
	if err := run.open(); err != nil {
		run.release()
		return nil, err
	}
	return &upstream.Stream{Losses: run.losses, Events: run.events, Close: run.shut}, nil
}

// acquire takes a place for a turn, waiting for one if it must.
func (d *driver) acquire(ctx context.Context) error {
	select {
	case d.places <- struct{}{}:
		return nil
	default:
	}
	defer d.waiting.Add(-1)
	if d.waiting.Add(1) > int64(d.opts.Queue) {
		return busy("Too many requests wait for Codex; try again shortly.")
	}
	patience := time.NewTimer(d.opts.QueueTime)
	defer patience.Stop()
	select {
	case d.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-patience.C:
		return busy("Codex is busy with other requests; try again shortly.")
	}
}

// retryAfter is what clients of a busy upstream are told.
const retryAfter = 2 * time.Second

// busy is the failure of a turn that found no place.
func busy(message string) error {
	e := responses.UpstreamErrorf(responses.CodeOverloaded, "%s", message).WithCause(upstream.Unsent(errors.New("no place")))
	e.RetryAfter = retryAfter
	return e
}

// seat returns the one with the fewest turns.
func (d *driver) seat() *seat {
	return slices.MinFunc(d.seats, func(a, b *seat) int { return int(a.turns.Load() - b.turns.Load()) })
}

// bareCatalog returns the catalog, which is read once.
func (d *driver) bareCatalog(ctx context.Context) (*catalog, error) {
	d.reading.Lock()
	defer d.reading.Unlock()
	if d.catalog == nil {
		c, err := readCatalog(ctx, d.command, &d.opts)
		if err != nil {
			return nil, err
		}
		d.catalog = c
	}
	return d.catalog, nil
}

// Models implements [upstream.ModelLister]: those that the program knows. A login
// may be good for fewer.
func (d *driver) Models(ctx context.Context) ([]upstream.Model, error) {
	c, err := d.bareCatalog(ctx)
	if err != nil {
		return nil, responses.UpstreamErrorf(responses.CodeUpstream, "Codex could not be started.").WithCause(err)
	}
	return slices.Clone(c.models), nil
}

// spawn runs f in the background, unless the driver is closed. It reports whether
// it does.
func (d *driver) spawn(f func()) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.workers.Go(f)
	}
	return !d.closed
}

// Close implements [upstream.Driver]. It returns when the last process has ended.
func (d *driver) Close() error {
	d.close(upstream.ErrClosed)
	d.mu.Lock()
	d.closed = true
	d.mu.Unlock()
	d.workers.Wait()
	return nil
}
