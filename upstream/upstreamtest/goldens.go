package upstreamtest

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

var (
	update    = flag.Bool("update", false, "rewrite the expected sections of golden files")
	everyByte = flag.Bool("every-byte", false, "break the answers of golden files at every byte, however long they are")
)

// runID is the id of every response in this suite.
const runID = responses.PrefixResponse + "019a0000000070018000000000000001"

// Goldens runs every golden in dir ([Load]) against drivers that newDriver
// makes for the given endpoint. For each file it checks the request that the
// upstream receives, the events, that the grammar accepts them, and that
//
//   - the events are the same however the body is cut into reads,
//   - [upstream.Guard] changes nothing,
//   - a body that ends or breaks before the upstream said that it was done gives
//     the events so far and exactly one error, last; after that point it gives
//     the normal end.
func Goldens(t *testing.T, dir string, newDriver func(e upstream.Endpoint) upstream.Driver) {
	goldens, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range goldens {
		t.Run(g.Name, func(t *testing.T) {
			t.Parallel()
			r := &replayer{golden: g, newDriver: newDriver}
			r.run(t)
		})
	}
}

// replayer replays one golden.
type replayer struct {
	golden    *Golden
	request   *responses.Request
	newDriver func(e upstream.Endpoint) upstream.Driver
}

func (r *replayer) run(t *testing.T) {
	var err error
	if r.request, err = responses.DecodeRequest(r.golden.Request, nil); err != nil {
		t.Fatalf("the golden's request: %v", err)
	}
	got, err := r.replay(delivery{})
	if err != nil {
		t.Fatal(err)
	}
	if r.golden.Refused != nil {
		r.checkRefused(t, got)
		return
	}
	if *update {
		if err := r.golden.update(got); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Run("exchange", func(t *testing.T) { r.checkExchange(t, got) })
	t.Run("guard", func(t *testing.T) { r.checkGuard(t, got) })
	t.Run("reads", func(t *testing.T) { r.checkReads(t, got) })
	t.Run("cuts", func(t *testing.T) { r.checkCuts(t, got) })
}

// outcome is what came of one replay.
type outcome struct {
	lines  []string
	losses []responses.Loss
	sent   []byte
	err    error // what the turn failed with; nil if it ended
	// requests is how many the upstream received.
	requests int
}

// ended reports whether the turn had its normal end.
func (o *outcome) ended() bool { return o.err == nil }

// items are the lines without the last, which says how the turn went out.
func (o *outcome) items() []string { return o.lines[:len(o.lines)-1] }

// replay runs the golden's turn. Its error is a breach of the contract.
func (r *replayer) replay(d delivery) (*outcome, error) {
	tr := &transport{golden: r.golden, delivery: d}
	driver := r.newDriver(tr.endpoint())
	o, err := r.turn(driver, &Lines{Given: [][]byte{r.golden.Body, r.golden.Request}})
	if err == nil {
		err = driver.Close()
	}
	if err == nil && tr.open != 0 {
		err = fmt.Errorf("the answer's body was not closed")
	}
	if err != nil {
		return nil, err
	}
	o.sent, o.requests = tr.sent, tr.requests
	return o, nil
}

// turn opens the golden's turn and reads it to its end.
func (r *replayer) turn(driver upstream.Driver, lines *Lines) (*outcome, error) {
	stream, err := driver.Open(context.Background(), &upstream.Turn{Request: r.request, Owner: "golden", RunID: runID})
	o := &outcome{err: err}
	if err != nil {
		line, err := lines.Error(err)
		o.lines = append(o.lines, line)
		return o, err
	}
	defer stream.Close()
	o.losses = stream.Losses
	err = o.collect(stream, lines)
	return o, errors.Join(err, stream.Close())
}

// collect reads the stream to its end and holds it to the contract.
func (o *outcome) collect(stream *upstream.Stream, lines *Lines) error {
	grammar := responses.NewTurnGrammar()
	for ev, failure := range stream.Events {
		if grammar.Ended() || o.err != nil {
			return fmt.Errorf("after the end of the turn came %s (error %v)", ev.Type, failure)
		}
		var line string
		var err error
		if o.err = failure; failure != nil {
			line, err = lines.Error(failure)
		} else {
			line, err = lines.Event(ev)
			err = errors.Join(err, grammar.Check(&ev))
		}
		if err != nil {
			return fmt.Errorf("event %d (%s): %w", len(o.lines), ev.Type, err)
		}
		o.lines = append(o.lines, line)
	}
	if !grammar.Ended() && o.err == nil {
		return fmt.Errorf("after %d events the turn just stopped, without an end or an error", len(o.lines))
	}
	return nil
}

func (r *replayer) checkRefused(t *testing.T, got *outcome) {
	if got.ended() {
		t.Fatalf("the turn was not refused; its events are:\n%s", strings.Join(got.lines, "\n"))
	}
	e := responses.AsError(got.err)
	if diff := cmp.Diff(*r.golden.Refused, Refusal{Code: e.Code, Param: e.Param}); diff != "" {
		t.Errorf("refusal (-want +got):\n%s(%v)", diff, got.err)
	}
	if got.requests != 0 {
		t.Errorf("the upstream received %d requests before the refusal", got.requests)
	}
}

func (r *replayer) checkExchange(t *testing.T, got *outcome) {
	if got.requests != 1 {
		t.Errorf("the upstream received %d requests, want 1", got.requests)
	}
	if diff := diffJSON(r.golden.UpstreamRequest, got.sent); diff != "" {
		t.Errorf("what the upstream received (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(r.golden.Events, got.lines); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(r.golden.Losses, got.losses); diff != "" && len(r.golden.Losses)+len(got.losses) > 0 {
		t.Errorf("losses (-want +got):\n%s", diff)
	}
}

// diffJSON compares two documents by their values.
func diffJSON(want, got []byte) string {
	var w, g any
	if err := json.Unmarshal(want, &w); err != nil {
		return fmt.Sprintf("want is not JSON: %v", err)
	}
	if err := json.Unmarshal(got, &g); err != nil {
		return fmt.Sprintf("got is not JSON: %v\n%s", err, got)
	}
	return cmp.Diff(w, g)
}

func (r *replayer) checkGuard(t *testing.T, want *outcome) {
	guarded := *r
	guarded.newDriver = func(e upstream.Endpoint) upstream.Driver {
		return upstream.Guard(r.newDriver(e), upstream.Limits{})
	}
	r.same(t, want, delivery{}, &guarded)
}

// checkReads delivers the body in small pieces, and in two that meet at each of
// the offsets.
func (r *replayer) checkReads(t *testing.T, want *outcome) {
	for _, step := range []int{1, 2, 3, 7, 61} {
		r.same(t, want, delivery{step: step}, r)
	}
	for at := range r.offsets() {
		if r.same(t, want, delivery{split: max(at, 1)}, r); t.Failed() {
			return
		}
	}
}

// offsets yields, in order, where the body is broken: at every byte, unless it
// is long and the flag does not ask for that. Then it is every byte around blank
// lines, which end the frames of a stream, and some in between.
func (r *replayer) offsets() iter.Seq[int] {
	const (
		short = 256
		near  = 2
		step  = 61
	)
	body := r.golden.Body
	return func(yield func(int) bool) {
		for at := range body {
			around := body[max(at-near, 0):min(at+near, len(body))]
			if len(body) > short && !*everyByte && at%step != 0 && !bytes.Contains(around, []byte("\n\n")) {
				continue
			}
			if !yield(at) {
				return
			}
		}
	}
}

// same replays by way of by and reports a difference to want.
func (r *replayer) same(t *testing.T, want *outcome, d delivery, by *replayer) {
	got, err := by.replay(d)
	if err != nil {
		t.Errorf("delivered as %+v: %v", d, err)
		return
	}
	if !slices.Equal(want.lines, got.lines) {
		t.Errorf("delivered as %+v, the events differ (-whole +split):\n%s", d, cmp.Diff(want.lines, got.lines))
	}
}

// checkCuts ends the body at each of the offsets, once as if it were complete and once
// as a connection breaks. The first place where a clean end makes a normal end
// is where the upstream had said that it was done.
func (r *replayer) checkCuts(t *testing.T, whole *outcome) {
	said := false // the upstream had said that it was done
	for at := range r.offsets() {
		clean := r.cut(t, whole, at, nil)
		broken := r.cut(t, whole, at, io.ErrUnexpectedEOF)
		if clean == nil || broken == nil || t.Failed() {
			return
		}
		if said && !clean.ended() {
			t.Errorf("cut after %d bytes: a failure, although it was a normal end before: %v", at, clean.err)
		}
		said = clean.ended()
		switch {
		case broken.ended() && !said:
			t.Errorf("broken after %d bytes: a normal end, although the upstream had not said that it was done", at)
		case !broken.ended() && said && r.golden.Streamed:
			// A whole answer has its own length, so there a break is one.
			t.Errorf("broken after %d bytes: a failure, although the upstream had said that it was done: %v", at, broken.err)
		}
	}
	if said && !whole.ended() {
		t.Errorf("a prefix of the body is a normal end, the whole body is a failure: %v", whole.err)
	}
}

// cut replays with a body that ends after at bytes, and checks that what came
// before the end is how the whole turn begins.
func (r *replayer) cut(t *testing.T, whole *outcome, at int, end error) *outcome {
	d := delivery{end: at, err: end}
	if at == 0 {
		d.end = -1
	}
	got, err := r.replay(d)
	if err != nil {
		t.Errorf("cut after %d bytes (%v): %v", at, end, err)
		return nil
	}
	items, all := got.items(), whole.items()
	switch {
	case len(items) > len(all) || !slices.Equal(items, all[:len(items)]):
		t.Errorf("cut after %d bytes (%v), the events before the end differ (-whole +cut):\n%s", at, end, cmp.Diff(all, items))
	case got.ended() && len(items) != len(all):
		t.Errorf("cut after %d bytes (%v): a normal end with %d of %d events", at, end, len(items), len(all))
	}
	return got
}
