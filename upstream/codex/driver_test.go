package codex

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// newDriver returns a driver of a stand-in. It is closed when the test ends.
func newDriver(t *testing.T, how string, opts *Options) *driver {
	t.Helper()
	if opts == nil {
		opts = &Options{}
	}
	opts.Env, opts.TempDir = map[string]string{asAppServer: how}, t.TempDir()
	d, err := New([]string{os.Args[0], "app-server"}, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if left, err := os.ReadDir(opts.TempDir); err != nil || len(left) > 0 {
			t.Errorf("%d homes are left behind (%v)", len(left), err)
		}
	})
	return d.(*driver)
}

func newTurnOf(t *testing.T, text string) *upstream.Turn {
	t.Helper()
	req, err := responses.DecodeRequest([]byte(fmt.Sprintf(`{"model":"gpt-a","input":%q}`, text)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return &upstream.Turn{Request: req, RunID: "resp_019a0000000070018000000000000001"}
}

// ask runs a turn to its end and returns its text.
func ask(t *testing.T, d upstream.Driver, text string) (string, error) {
	t.Helper()
	return askIn(t, t.Context(), d, text)
}

func askIn(t *testing.T, ctx context.Context, d upstream.Driver, text string) (string, error) {
	t.Helper()
	s, err := d.Open(ctx, newTurnOf(t, text))
	if err != nil {
		return "", err
	}
	defer s.Close()
	return read(t, s)
}

func read(t *testing.T, s *upstream.Stream) (text string, err error) {
	t.Helper()
	grammar := responses.NewTurnGrammar()
	for ev, err := range s.Events {
		if err != nil {
			return text, err
		}
		if err := grammar.Check(&ev); err != nil {
			t.Errorf("%s: %v", ev.Type, err)
		}
		if ev.Type == responses.EventTextDelta {
			text += ev.Text
		}
	}
	if !grammar.Ended() {
		t.Error("the turn has no end")
	}
	return text, nil
}

func mustAsk(t *testing.T, d upstream.Driver, text string) string {
	t.Helper()
	said, err := ask(t, d, text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return said
}

// TestTurnsShareAProcess: it is started once, on demand, and runs turns side by
// side.
func TestTurnsShareAProcess(t *testing.T) {
	t.Parallel()
	d := newDriver(t, "", nil)
	if currentOf(d, 0) != nil {
		t.Error("a process was started before it was needed")
	}
	said := make([]string, 20)
	var turns sync.WaitGroup
	for i := range said {
		turns.Go(func() { said[i] = mustAsk(t, d, "hello") })
	}
	turns.Wait()
	if slices.Sort(said); said[0] != said[len(said)-1] || !strings.HasPrefix(said[0], "pid ") {
		t.Errorf("the turns ran in several processes: %q", said)
	}
}

// TestDeathMidway: a process that dies fails its turns, each with one error, and
// the next turn gets another process.
func TestDeathMidway(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"die", "half a line", "noise", "odd"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t, "", nil)
			first := mustAsk(t, d, "hello")
			other, err := d.Open(t.Context(), newTurnOf(t, "stall"))
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			_, err = ask(t, d, how)
			_, otherErr := read(t, other)
			for _, err := range []error{err, otherErr} {
				if e := responses.AsError(err); e == nil || e.Code != responses.CodeUpstream || e.Origin != responses.OriginUpstream || upstream.SafeToRetry(err) {
					t.Errorf("the turn failed with %v", err)
				}
			}
			if next := mustAsk(t, d, "hello"); next == first {
				t.Error("the next turn ran in the dead process")
			}
		})
	}
}

// TestHostileLines: long lines and questions that nobody knows do no harm, and nor
// does noise where it is to be passed over.
func TestHostileLines(t *testing.T) {
	t.Parallel()
	d := newDriver(t, "", &Options{SkipMalformed: true})
	if said := mustAsk(t, d, "long"); len(said) < 10<<20 {
		t.Errorf("a line of 10 MB gave %d bytes", len(said))
	}
	for _, how := range []string{"ask", "noise", "odd"} {
		mustAsk(t, d, how)
	}
}

// TestFlood: a turn that nobody reads holds a bounded amount, and holds nobody.
func TestFlood(t *testing.T) {
	t.Parallel()
	d := newDriver(t, "", nil)
	s, err := d.Open(t.Context(), newTurnOf(t, "flood"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for full := false; !full; {
		mustAsk(t, d, "hello")
		w := currentOf(d, 0)
		w.mu.Lock()
		for _, box := range w.threads {
			box.mu.Lock()
			full = full || box.err != nil
			box.mu.Unlock()
		}
		w.mu.Unlock()
	}
	if _, err := read(t, s); !errors.Is(err, errSlow) {
		t.Errorf("the turn that was not read ended with %v", err)
	}
}

// currentOf returns the process of a seat, if it is there.
func currentOf(d *driver, seat int) *worker {
	s := d.seats[seat]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

func TestCannotStart(t *testing.T) {
	t.Parallel()
	for how, why := range map[string]string{"broken": "cannot run today", "mute": "did not answer within"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			opts := &Options{}
			if how == "mute" {
				opts.StartTime = 2 * time.Second
			}
			d := newDriver(t, how, opts)
			_, err := ask(t, d, "hello")
			e := responses.AsError(err)
			if e == nil || e.Code != responses.CodeOverloaded || e.RetryAfter < time.Second || !upstream.SafeToRetry(err) {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(err.Error(), why) || strings.Contains(e.Message, why) {
				t.Errorf("the log must say %q, and the client must not read it: %v", why, err)
			}
			if _, again := ask(t, d, "hello"); again == nil || again.Error() != err.Error() {
				t.Errorf("while it waits to try again it says %v", again)
			}
		})
	}
}

// TestBackOffGrows: a process that cannot be started is tried ever less often.
func TestBackOffGrows(t *testing.T) {
	t.Parallel()
	s := &seat{d: newDriver(t, "", nil)}
	last := time.Duration(0)
	for range 12 {
		before := time.Now()
		s.failed(errors.New("no"))
		wait := s.notBefore.Sub(before)
		if wait < last/2 || wait > mostBackOff+time.Second {
			t.Errorf("the wait is %v after %v", wait, last)
		}
		last = wait
	}
	if last < mostBackOff {
		t.Errorf("the last wait is %v", last)
	}
}

// TestQueue: turns wait for a place, as many as may, and as long as they may.
func TestQueue(t *testing.T) {
	t.Parallel()
	d := newDriver(t, "", &Options{Concurrent: 1, Queue: 1, QueueTime: 200 * time.Millisecond})
	mustAsk(t, d, "hello")
	hog, err := d.Open(t.Context(), newTurnOf(t, "stall"))
	if err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() {
		_, err := ask(t, d, "hello")
		waits <- err
	}()
	for d.waiting.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	for what, err := range map[string]error{"full": second(ask(t, d, "hello")), "late": <-waits} {
		if e := responses.AsError(err); e == nil || e.Code != responses.CodeOverloaded || e.RetryAfter == 0 || !upstream.SafeToRetry(err) {
			t.Errorf("%s: got %v", what, err)
		}
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(gone) })
	if _, err := askIn(t, ctx, d, "hello"); !errors.Is(err, gone) {
		t.Errorf("a client that left got %v", err)
	}
	if err := hog.Close(); err != nil {
		t.Error(err)
	}
	mustAsk(t, d, "hello")
}

func second(_ string, err error) error { return err }

// TestReplaced: an old process and a large one finish their turns, while new turns
// go to another.
func TestReplaced(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		how  string
		opts Options
	}{
		"age":    {"", Options{MaxAge: 50 * time.Millisecond, CheckTime: 10 * time.Millisecond}},
		"memory": {"fat", Options{CheckTime: 10 * time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t, test.how, &test.opts)
			s, err := d.Open(t.Context(), newTurnOf(t, "slow"))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			time.Sleep(150 * time.Millisecond)
			next := mustAsk(t, d, "hello")
			slow, err := read(t, s)
			if err != nil {
				t.Errorf("the turn of the old process failed: %v", err)
			}
			if slow == next {
				t.Error("the new turn ran in the old process")
			}
		})
	}
}

// TestEnded: a process that grows without end, and one that does not answer, is
// ended with the turns that it has.
func TestEnded(t *testing.T) {
	t.Parallel()
	for how, why := range map[string]string{"bursting": "bytes of memory", "deaf to checks": "did not answer within"} {
		d := newDriver(t, how, &Options{CheckTime: 10 * time.Millisecond, AnswerTime: 300 * time.Millisecond})
		if _, err := ask(t, d, "stall"); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: the turn ended with %v", how, err)
		}
	}
}

// TestIdle: a process that nobody needs ends, and its home with it.
func TestIdle(t *testing.T) {
	t.Parallel()
	d := newDriver(t, "", &Options{IdleTime: 20 * time.Millisecond, CheckTime: 10 * time.Millisecond})
	first := mustAsk(t, d, "hello")
	home := currentOf(d, 0).home.dir
	if _, err := os.Stat(filepath.Join(home, "config.toml")); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		if _, err := os.Stat(home); errors.Is(err, os.ErrNotExist) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if _, err := os.Stat(home); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the home is still there: %v", err)
	}
	if next := mustAsk(t, d, "hello"); next == first {
		t.Error("the idle process still ran")
	}
}

func TestAppServerRefuses(t *testing.T) {
	t.Parallel()
	d := newDriver(t, "", nil)
	_, err := ask(t, d, "turned away")
	if e := responses.AsError(err); e == nil || e.Code != responses.CodeInvalidRequest || !strings.Contains(e.Message, "not like this") || !upstream.SafeToRetry(err) {
		t.Errorf("got %v", err)
	}
	mustAsk(t, d, "hello")
}

// TestCancelledAndClosed: a turn that is given up ends at once, wherever it is.
func TestCancelledAndClosed(t *testing.T) {
	t.Parallel()
	d := newDriver(t, "", nil)
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	s, err := d.Open(ctx, newTurnOf(t, "stall"))
	if err != nil {
		t.Fatal(err)
	}
	cancel(gone)
	if _, err := read(t, s); !errors.Is(err, gone) {
		t.Errorf("the turn ended with %v", err)
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	open, err := d.Open(t.Context(), newTurnOf(t, "stall"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	closed := make(chan error)
	go func() { closed <- d.Close() }()
	if _, err := read(t, open); !errors.Is(err, upstream.ErrClosed) {
		t.Errorf("the turn of a closed driver ended with %v", err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, err := ask(t, d, "hello"); !errors.Is(err, upstream.ErrClosed) {
		t.Errorf("a closed driver answers %v", err)
	}
}

// TestSeats: each credential has a process of its own, which gets nothing but it.
func TestSeats(t *testing.T) {
	t.Parallel()
	login := t.TempDir()
	if err := os.WriteFile(filepath.Join(login, authFile), []byte(`{"tokens":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, "", &Options{Logins: []string{login}, APIKeys: []string{"sk-1"}})
	a, err := d.Open(t.Context(), newTurnOf(t, "stall"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := d.Open(t.Context(), newTurnOf(t, "stall"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for i, want := range []string{`{"tokens":{}}`, `{"OPENAI_API_KEY":"sk-1","auth_mode":"apikey"}`} {
		got, err := os.ReadFile(filepath.Join(currentOf(d, i).home.dir, authFile))
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 && string(got) != want || i == 1 && !strings.Contains(string(got), `"sk-1"`) {
			t.Errorf("seat %d has %s", i, got)
		}
	}
	if target, err := os.Readlink(filepath.Join(currentOf(d, 0).home.dir, authFile)); err != nil || target != filepath.Join(login, authFile) {
		t.Errorf("the login is not shared but copied: %q, %v", target, err)
	}

	missing := newDriver(t, "", &Options{Logins: []string{t.TempDir()}})
	if _, err := ask(t, missing, "hello"); err == nil || !strings.Contains(err.Error(), "codex login") {
		t.Errorf("without a login: %v", err)
	}
}

// TestEnvironment: a process sees what it needs and what it is given.
func TestEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-secret")
	t.Setenv("LANG", "xx")
	env := environment("/the/home", map[string]string{"OWN": "1", "PATH": "/bin"})
	for _, want := range []string{"CODEX_HOME=/the/home", "HOME=/the/home", "OWN=1", "PATH=/bin", "LANG=xx"} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s in %q", want, env)
		}
	}
	if slices.ContainsFunc(env, func(v string) bool { return strings.Contains(v, "secret") }) {
		t.Errorf("a secret is in %q", env)
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	d := newDriver(t, "", nil)
	models, err := d.Models(t.Context())
	if err != nil || len(models) != 1 || models[0].ID != "gpt-a" || models[0].ContextWindow != 1000 {
		t.Errorf("got %+v and %v", models, err)
	}
	file := string(d.catalog.file)
	if strings.Contains(file, "tool_mode") || !strings.Contains(file, `"default_verbosity":null`) || !strings.Contains(file, "gpt-hidden") {
		t.Errorf("the catalog is %s", file)
	}
	if currentOf(d, 0) != nil {
		t.Error("listing models started an app-server")
	}
}

func TestVerbosityOfUnknownModels(t *testing.T) {
	t.Parallel()
	d := newDriver(t, "", nil)
	for model, lost := range map[string]int{"gpt-a": 0, "other": 1} {
		turn := newTurnOf(t, "hello")
		turn.Request.Model, turn.Request.Text = model, &responses.TextConfig{Verbosity: "high"}
		s, err := d.Open(t.Context(), turn)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Losses) != lost {
			t.Errorf("%s: the losses are %v", model, s.Losses)
		}
		s.Close()
	}
}

func TestNewRefusesOtherCommands(t *testing.T) {
	t.Parallel()
	for _, command := range [][]string{nil, {"codex"}, {"app-server"}, {"codex", "exec"}} {
		if d, err := New(command, nil); err == nil {
			d.Close()
			t.Errorf("%q is accepted", command)
		}
	}
}
