// Package storetest holds the suites that every store passes. They are the only
// place where the meaning of the contracts in package store is written down as
// code.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
)

const (
	owner = "team-a"
	id    = "resp_1"
)

// errGone is a cause that tests cancel with.
var errGone = errors.New("the reader is gone")

// RunLog checks the contract of [store.Log]. open returns an empty log.
func RunLog(t *testing.T, open func(t *testing.T) store.Log) {
	for name, test := range map[string]func(*testing.T, store.Log){
		"ReadsWhatWasAppended":  readsWhatWasAppended,
		"EndsAfterTerminal":     endsAfterTerminal,
		"FollowsWhileItGrows":   followsWhileItGrows,
		"KeepsItsOwnCopy":       keepsItsOwnCopy,
		"RefusesGaps":           refusesGaps,
		"RefusesOldWriters":     refusesOldWriters,
		"HidesForeignResponses": hidesForeignResponses,
		"SurvivesHostileAfter":  survivesHostileAfter,
		"EndsWithItsContext":    endsWithItsContext,
		"ForgetsOnDrop":         forgetsOnDrop,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// entry returns an entry with recognisable data.
func entry(seq int64, typ responses.EventType) store.Entry {
	return store.Entry{Seq: seq, Type: typ, Data: fmt.Appendf(nil, `{"sequence_number":%d}`, seq)}
}

// entries returns n entries from first on, the last one terminal if end is true.
func entries(first int64, n int, end bool) []store.Entry {
	var out []store.Entry
	for i := range int64(n) {
		out = append(out, entry(first+i, responses.EventTextDelta))
	}
	if end {
		out[n-1].Type = responses.EventCompleted
	}
	return out
}

func mustAppend(t *testing.T, log store.Log, list []store.Entry) {
	t.Helper()
	if _, err := log.Append(t.Context(), owner, id, 0, list[0].Seq, list); err != nil {
		t.Fatalf("append from %d: %v", list[0].Seq, err)
	}
}

// read collects copies of what Follow yields.
func read(ctx context.Context, log store.Log, owner string, after int64) (got []store.Entry, err error) {
	for batch, err := range log.Follow(ctx, owner, id, after) {
		if err != nil {
			return got, err
		}
		for _, e := range batch {
			e.Data = append([]byte(nil), e.Data...)
			got = append(got, e)
		}
	}
	return got, nil
}

func readsWhatWasAppended(t *testing.T, log store.Log) {
	want := entries(0, 5, true)
	mustAppend(t, log, want[:2])
	mustAppend(t, log, want[2:])
	got, err := read(t.Context(), log, owner, -1)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func endsAfterTerminal(t *testing.T, log store.Log) {
	mustAppend(t, log, entries(0, 1, true))
	if got, err := read(t.Context(), log, owner, -1); err != nil || len(got) != 1 {
		t.Errorf("got %d entries and %v, want 1 and no error", len(got), err)
	}
	if _, err := log.Append(t.Context(), owner, id, 0, 1, entries(1, 1, false)); !errors.Is(err, store.ErrGap) {
		t.Errorf("append after the terminal entry: %v, want ErrGap", err)
	}
}

func followsWhileItGrows(t *testing.T, log store.Log) {
	const n = 1000
	mustAppend(t, log, entries(0, 1, false))
	written := make(chan error, 1)
	go func() {
		for seq := int64(1); seq < n; seq++ {
			if _, err := log.Append(t.Context(), owner, id, 0, seq, entries(seq, 1, seq == n-1)); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	got, err := read(t.Context(), log, owner, -1)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	for i, e := range got {
		if e.Seq != int64(i) {
			t.Fatalf("entry %d is numbered %d", i, e.Seq)
		}
	}
	if len(got) != n {
		t.Errorf("got %d entries, want %d", len(got), n)
	}
}

func keepsItsOwnCopy(t *testing.T, log store.Log) {
	list := entries(0, 2, true)
	mustAppend(t, log, list)
	want := string(list[0].Data)
	clear(list[0].Data)
	got, err := read(t.Context(), log, owner, -1)
	if err != nil || string(got[0].Data) != want {
		t.Errorf("got %q and %v, want %q", got[0].Data, err, want)
	}
}

func refusesGaps(t *testing.T, log store.Log) {
	if _, err := log.Append(t.Context(), owner, id, 0, 3, entries(3, 1, false)); err == nil {
		t.Error("a log that begins at 3 was accepted")
	}
	mustAppend(t, log, entries(0, 2, false))
	for name, first := range map[string]int64{"a gap": 3, "a repetition": 1, "a restart": 0} {
		if _, err := log.Append(t.Context(), owner, id, 0, first, entries(first, 1, false)); !errors.Is(err, store.ErrGap) {
			t.Errorf("%s: %v, want ErrGap", name, err)
		}
	}
	mismatched := entries(2, 2, false)
	mismatched[1].Seq = 7
	if _, err := log.Append(t.Context(), owner, id, 0, 2, mismatched); !errors.Is(err, store.ErrGap) {
		t.Errorf("a gap within a batch: %v, want ErrGap", err)
	}
}

func refusesOldWriters(t *testing.T, log store.Log) {
	if _, err := log.Append(t.Context(), owner, id, 2, 0, entries(0, 1, false)); err != nil {
		t.Fatal(err)
	}
	if _, err := log.Append(t.Context(), owner, id, 1, 1, entries(1, 1, false)); !errors.Is(err, store.ErrFenced) {
		t.Errorf("an older writer: %v, want ErrFenced", err)
	}
	if _, err := log.Append(t.Context(), owner, id, 3, 1, entries(1, 1, false)); err != nil {
		t.Errorf("a newer writer: %v", err)
	}
}

func hidesForeignResponses(t *testing.T, log store.Log) {
	mustAppend(t, log, entries(0, 1, true))
	if _, err := read(t.Context(), log, "team-b", -1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a foreign response: %v, want ErrNotFound", err)
	}
	_, foreign := log.Append(t.Context(), "team-b", id, 0, 1, entries(1, 1, false))
	_, missing := log.Append(t.Context(), owner, "resp_2", 0, 1, entries(1, 1, false))
	if !errors.Is(foreign, store.ErrNotFound) || !errors.Is(missing, store.ErrNotFound) {
		t.Errorf("append to a foreign log: %v, to a missing one: %v, want ErrNotFound for both", foreign, missing)
	}
}

func survivesHostileAfter(t *testing.T, log store.Log) {
	mustAppend(t, log, entries(0, 3, true))
	for _, after := range []int64{math.MinInt64, -2, 99, math.MaxInt64} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errGone)
		got, err := read(ctx, log, owner, after)
		if err == nil || len(got) > 0 {
			t.Errorf("after %d: got %d entries and %v, want an error", after, len(got), err)
		}
	}
}

func endsWithItsContext(t *testing.T, log store.Log) {
	mustAppend(t, log, entries(0, 1, false))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var last error
	for batch, err := range log.Follow(ctx, owner, id, -1) {
		if last = err; len(batch) > 0 {
			cancel(errGone)
		}
	}
	if !errors.Is(last, errGone) {
		t.Errorf("got %v, want the context's cause", last)
	}
}

func forgetsOnDrop(t *testing.T, log store.Log) {
	mustAppend(t, log, entries(0, 1, true))
	for range 2 { // dropping what is not there is fine
		if err := log.Drop(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := read(t.Context(), log, owner, -1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after drop: %v, want ErrNotFound", err)
	}
}
