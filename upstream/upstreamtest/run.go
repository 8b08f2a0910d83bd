package upstreamtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// A Harness makes drivers for [Run] and knows how their upstream speaks.
type Harness struct {
	// New returns a driver for the endpoint. It uses the endpoint's client.
	New func(e upstream.Endpoint) upstream.Driver
	// Stream is the body of a streamed answer that ends well; Text is the text
	// in it.
	Stream, Text string
	// Endless returns piece n, from 0, of a streamed answer that never ends. At
	// the latest the second piece makes the driver yield an event.
	Endless func(n int) string
	// Lacks names the checks that do not apply to this driver, each with the
	// reason, or cases of them, as in "status/redirect". They are skipped by that
	// reason.
	Lacks map[string]string
}

// patience is how long a driver may take to notice that its turn is over.
const patience = time.Second

// credential is the key that drivers must send.
const credential = "sk-suite"

// check is one rule of the contract.
type check struct {
	name string
	run  func(t *testing.T, h *Harness)
}

var checks = []check{
	{"answer", checkAnswer},
	{"answer in single bytes", checkSingleBytes},
	{"connection cut", checkCut},
	{"connection cut before headers", checkCutFirst},
	{"unreachable", checkUnreachable},
	{"reader stops", checkBreak},
	{"cancel before headers", checkCancelFirst},
	{"cancel while streaming", checkCancelMidway},
	{"close while reading", checkCloseWhileReading},
	{"close unread", checkCloseUnread},
	{"close driver", checkCloseDriver},
	{"turns are independent", checkIndependent},
	{"status", checkStatus},
	{"content type", checkContentType},
	{"line too long", checkLongLine},
	{"silence before the first event", checkGuardFirstEvent},
	{"silence between events", checkGuardIdle},
	{"nothing left behind", checkNothingLeft},
}

// Run holds a driver to the contract of [upstream.Driver] over HTTP. Each rule
// is a subtest; the harness may declare by name that it lacks one.
func Run(t *testing.T, h Harness) {
	for name := range h.Lacks {
		name, of, isCase := strings.Cut(name, "/")
		i := slices.IndexFunc(checks, func(c check) bool { return c.name == name })
		if i < 0 || isCase && !slices.Contains(checks[i].cases(), of) {
			t.Errorf("the harness lacks %q, which is no check", name+"/"+of)
		}
	}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h.skip(t, c.name)
			c.run(t, &h)
		})
	}
}

// skip skips what the harness lacks.
func (h *Harness) skip(t *testing.T, name string) {
	t.Helper()
	if reason, ok := h.Lacks[name]; ok {
		t.Skipf("declared by the harness: %s", reason)
	}
}

// cases returns the names of the cases of a check that can be lacked one by one.
func (c check) cases() (names []string) {
	switch c.name {
	case "answer":
		return []string{requestID}
	case "status":
		for _, tt := range statuses {
			names = append(names, tt.name)
		}
	case "content type":
		for _, tt := range otherTypes(&Harness{}) {
			names = append(names, tt.name)
		}
	}
	return names
}

// bench is a driver under test and the upstream that it speaks to.
type bench struct {
	driver upstream.Driver
	fake   *fakeupstream.Server
}

// newBench starts an upstream that gives the same reply to every request, and a
// driver for it. Both end with the test.
func newBench(t *testing.T, h *Harness, reply fakeupstream.Reply) *bench {
	t.Helper()
	fake := fakeupstream.NewServer(func(*fakeupstream.Exchange) fakeupstream.Reply { return reply })
	web := httptest.NewServer(fake)
	client := upstream.NewClient()
	base, err := url.Parse(web.URL + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	e := upstream.Endpoint{Base: base, Client: client, Auth: upstream.BearerAuth(credential)}
	b := &bench{h.New(e), fake}
	t.Cleanup(func() {
		if err := b.driver.Close(); err != nil {
			t.Errorf("close driver: %v", err)
		}
		fake.Close()
		client.CloseIdleConnections()
		web.Close()
	})
	return b
}

// open opens a turn that the upstream accepts. The stream ends with the test.
func (b *bench) open(t *testing.T, ctx context.Context) *upstream.Stream {
	t.Helper()
	s, err := b.driver.Open(ctx, newTurn())
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { closeStream(t, s) })
	return s
}

// fail opens a turn, reads it to its failure, wherever that is, and closes it.
func (b *bench) fail(t *testing.T) error {
	t.Helper()
	s, err := b.driver.Open(t.Context(), newTurn())
	if err != nil {
		return err
	}
	defer closeStream(t, s)
	r, err := readTurn(s)
	if err != nil {
		t.Fatal(err)
	}
	if r.err == nil {
		t.Fatalf("the turn ended %q, want an error", r.end.Status)
	}
	return r.err
}

// exchange returns the first exchange that the upstream had.
func (b *bench) exchange(t *testing.T) *fakeupstream.Exchange {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	x, err := b.fake.Await(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func closeStream(t *testing.T, s *upstream.Stream) {
	if err := s.Close(); err != nil {
		t.Errorf("close stream: %v", err)
	}
}

func newTurn() *upstream.Turn {
	req, err := responses.DecodeRequest([]byte(`{"model":"m","input":"Say hello.","stream":true}`), nil)
	if err != nil {
		panic(err) // it is a constant
	}
	return &upstream.Turn{Request: req, Owner: "suite", RunID: runID, Header: http.Header{}}
}

// reading is what came of reading a stream to its end.
type reading struct {
	text string
	end  *responses.TurnEnd
	err  error
}

// readTurn reads a stream to its end. Its error is a breach of the contract.
func readTurn(s *upstream.Stream) (r reading, err error) {
	grammar := responses.NewTurnGrammar()
	for ev, failure := range s.Events {
		switch {
		case r.err != nil || r.end != nil:
			return r, fmt.Errorf("%s (error %v) after the end of the turn", ev.Type, failure)
		case failure != nil:
			r.err = failure
			continue
		}
		if err := grammar.Check(&ev); err != nil {
			return r, fmt.Errorf("%s: %w", ev.Type, err)
		}
		r.end = ev.End
		if ev.Type == responses.EventTextDelta {
			r.text += ev.Text
		}
	}
	if r.err == nil && r.end == nil {
		return r, errors.New("the stream just stopped, without an end or an error")
	}
	return r, nil
}

// endless is a reply that streams until its reader leaves.
func (h *Harness) endless() fakeupstream.Reply {
	return fakeupstream.Reply{ContentType: "text/event-stream", Stream: func(w *fakeupstream.Writer) error {
		for n := 0; ; n++ {
			if _, err := w.Write([]byte(h.Endless(n))); err != nil {
				return err
			}
		}
	}}
}

// stalled is a reply that begins to stream and then says nothing more.
func (h *Harness) stalled() fakeupstream.Reply {
	begin := h.Endless(0) + h.Endless(1)
	reply := fakeupstream.SSE(begin)
	reply.Fault = fakeupstream.Fault{Kind: fakeupstream.Stall, After: len(begin)}
	return reply
}

// whole is the reply that ends well.
func (h *Harness) whole() fakeupstream.Reply { return fakeupstream.SSE(h.Stream) }

// soon runs f and fails the test if it takes longer than a driver may.
func soon(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	awaitClosed(t, what, done)
}

func awaitClosed(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		t.Fatalf("%s takes longer than %v", what, patience)
	}
}
