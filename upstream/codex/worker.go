package codex

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/antiphon-dev/antiphon/internal/stdiorpc"
	"github.com/antiphon-dev/antiphon/responses"
)

const (
	// far is how many times the memory at which it is replaced a process may have
	// before it is ended with its turns: something makes it collect without end.
	far = 4
)

// A worker is one app-server process.
type worker struct {
	d       *driver
	conn    *stdiorpc.Conn
	catalog *catalog
	home    *home
	born    time.Time
	unused  chan struct{} // closed when it is retired and its last turn has ended

	mu      sync.Mutex // guards what follows
	threads map[string]*mailbox
	turns   int
	worked  bool // a turn has begun to be answered
	retired bool // takes no more turns
	gone    error
	since   time.Time // when its last turn ended
}

// startWorker starts a process and introduces us to it.
func startWorker(d *driver, c credential) (_ *worker, err error) {
	ctx, cancel := context.WithTimeoutCause(d.closing, d.opts.StartTime, fmt.Errorf("it did not answer within %v", d.opts.StartTime))
	defer cancel()
	bare, err := d.bareCatalog(ctx)
	if err != nil {
		return nil, err
	}
	removeAbandoned(d.opts.TempDir, d.opts.Logger)
	home, err := makeHome(d.opts.TempDir, c, bare.file)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	w := &worker{d: d, catalog: bare, home: home, born: now, since: now, unused: make(chan struct{}), threads: map[string]*mailbox{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, home.remove())
		}
	}()
	w.conn, err = stdiorpc.Start(
		stdiorpc.Command{Args: d.command, Env: environment(home.dir, d.opts.Env), Dir: workDir(home.dir)},
		&stdiorpc.Options{Notify: w.notified, Handle: w.asked, SkipMalformed: d.opts.SkipMalformed},
	)
	if err != nil {
		return nil, err
	}
	if err := w.introduce(ctx); err != nil {
		w.conn.Close()
		return nil, err
	}
	d.opts.Logger.Info("the Codex app-server has started", "home", home.dir, "took", time.Since(now))
	return w, nil
}

func (w *worker) introduce(ctx context.Context) error {
	var hello initialize
	hello.ClientInfo.Name, hello.ClientInfo.Title, hello.ClientInfo.Version = "antiphon", "Antiphon", "1"
	hello.Capabilities.ExperimentalAPI = true
	if err := w.conn.Call(ctx, methodInitialize, &hello, nil); err != nil {
		return err
	}
	return w.conn.Notify(ctx, methodInitialized, nil)
}

// notified hands a notification to the turn whose thread it is about.
func (w *worker) notified(method string, params jsontext.Value) {
	if !heeded[method] {
		return
	}
	n := new(note)
	if err := json.Unmarshal(params, n); err != nil {
		if !w.d.opts.SkipMalformed {
			w.conn.Kill(fmt.Errorf("the notification %s cannot be read: %w", method, err))
		}
		return
	}
	w.mu.Lock()
	w.worked = true
	box := w.threads[n.ThreadID]
	w.mu.Unlock()
	if box != nil {
		box.put(letter{method, n, len(params)})
	}
}

// asked refuses what the process wants of us, but for calls of tools: those are
// the client's to run, and the turn ends instead of an answer.
func (w *worker) asked(r *stdiorpc.Request) {
	if r.Method != requestToolCall {
		r.Refuse(stdiorpc.CodeMethodNotFound, "This client cannot do that.")
	}
}

// enter takes one more turn, unless the process is on its way out.
func (w *worker) enter() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.retired || w.gone != nil {
		return false
	}
	select {
	case <-w.conn.Done():
		return false
	default:
	}
	w.turns++
	return true
}

// leave gives a turn back.
func (w *worker) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turns--
	w.since = time.Now()
	if w.retired && w.turns == 0 {
		close(w.unused)
	}
}

// subscribe returns where the notifications about a thread go from now on.
func (w *worker) subscribe(thread string) *mailbox {
	box := newMailbox()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone != nil {
		box.fail(w.gone)
	}
	w.threads[thread] = box
	return box
}

func (w *worker) unsubscribe(thread string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.threads, thread)
}

// watch looks after the process until it has ended, by itself or because it is not
// needed any more, and cleans up behind it.
func (w *worker) watch() {
	tick := time.NewTicker(w.d.opts.CheckTime)
	defer tick.Stop()
	for watching := true; watching; {
		select {
		case <-tick.C:
			w.check()
		case <-w.unused:
			watching = false
		case <-w.conn.Done():
			watching = false
		case <-w.d.closing.Done():
			watching = false
		}
	}
	w.end()
}

// end ends the process and every turn that it still has.
func (w *worker) end() {
	closing := context.Cause(w.d.closing)
	died := w.conn.Err() // nil unless it ended by itself
	w.conn.Close()
	reason := closing
	if closing == nil {
		reason = lostProcess(died)
	}
	w.mu.Lock()
	w.gone = reason
	for _, box := range w.threads {
		box.fail(reason)
	}
	turns := w.turns
	w.mu.Unlock()
	if err := w.home.remove(); err != nil {
		w.d.opts.Logger.Warn("the home of a Codex app-server could not be removed", "home", w.home.dir, "error", err)
	}
	if died != nil && closing == nil {
		w.d.opts.Logger.Error("the Codex app-server has died", "error", died, "turns", turns, "age", time.Since(w.born))
	}
}

// lostProcess is the failure of a turn whose process has ended.
func lostProcess(cause error) error {
	return responses.UpstreamErrorf(responses.CodeUpstream, "The Codex process ended in the middle of the answer.").WithCause(cause)
}

// check replaces a process that is old, large or idle, and ends one that does not
// answer.
func (w *worker) check() {
	patience := w.d.opts.AnswerTime
	ctx, cancel := context.WithTimeoutCause(w.d.closing, patience, fmt.Errorf("it did not answer within %v", patience))
	defer cancel()
	var said diagnostics
	err := w.conn.Call(ctx, methodDiagnostics, struct{}{}, &said)
	var refused *stdiorpc.Error
	if err != nil && !errors.As(err, &refused) { // a version without diagnostics is still alive
		w.conn.Kill(err)
		return
	}
	opts := &w.d.opts
	if memory := said.Process.ResidentMemoryBytes; memory > far*opts.MaxMemory {
		w.conn.Kill(fmt.Errorf("it has %d bytes of memory", memory))
		return
	}
	why := ""
	switch {
	case time.Since(w.born) > opts.MaxAge:
		why = "age"
	case said.Process.ResidentMemoryBytes > opts.MaxMemory:
		why = "memory"
	case w.idle() > opts.IdleTime:
		why = "idle"
	}
	if why != "" {
		w.retire(why, said.Process.ResidentMemoryBytes)
	}
}

// idle is how long the process has had no turn.
func (w *worker) idle() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.turns > 0 {
		return 0
	}
	return time.Since(w.since)
}

// retire lets the process finish its turns and then end.
func (w *worker) retire(why string, memory int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.retired {
		return
	}
	w.retired = true
	w.d.opts.Logger.Info("the Codex app-server is replaced", "why", why, "memory", memory, "age", time.Since(w.born), "turns", w.turns)
	if w.turns == 0 {
		close(w.unused)
	}
}

// useless reports whether the process has died without having done anything.
func (w *worker) useless() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.retired && !w.worked
}
