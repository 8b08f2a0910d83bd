package memstore_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/store/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	storetest.RunLog(t, func(*testing.T) store.Log { return memstore.NewWindow(nil) })
}

func TestConformanceTinyWindow(t *testing.T) {
	t.Parallel()
	// Every entry is larger than the window, so the writer waits for each. The
	// cases that append before they read need a few entries of room.
	storetest.RunLog(t, func(*testing.T) store.Log { return memstore.NewWindow(&memstore.WindowOptions{Bytes: 200}) })
}

func appendBytes(ctx context.Context, w *memstore.Window, seq int64, n int) error {
	_, err := w.Append(ctx, "o", "r", 0, seq, []store.Entry{{Seq: seq, Type: responses.EventTextDelta, Data: make([]byte, n)}})
	return err
}

func TestFullWindowBlocksTheWriter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := memstore.NewWindow(&memstore.WindowOptions{Bytes: 1000})
		written := 0
		done := make(chan error)
		go func() {
			for seq := range int64(10) {
				if err := appendBytes(t.Context(), w, seq, 300); err != nil {
					done <- err
					return
				}
				written++
			}
			done <- nil
		}()
		synctest.Wait()
		if written != 3 {
			t.Fatalf("%d entries of 300 bytes fit into 1000 bytes, want 3", written)
		}
		seen := 0
		for batch, err := range w.Follow(t.Context(), "o", "r", -1) {
			if err != nil {
				t.Fatal(err)
			}
			seen += len(batch)
			synctest.Wait()
			if ahead := written - seen; ahead*300 > 1000 {
				t.Fatalf("the writer is %d entries ahead of the reader", ahead)
			}
			if seen == 10 {
				break
			}
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

func TestWriterThatWaitsEndsWithItsContext(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	w := memstore.NewWindow(&memstore.WindowOptions{Bytes: 10})
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := appendBytes(ctx, w, 0, 100); err != nil {
		t.Fatalf("an entry larger than the empty window: %v", err)
	}
	cancel(gone)
	if err := appendBytes(ctx, w, 1, 1); !errors.Is(err, gone) {
		t.Errorf("got %v, want the context's cause", err)
	}
}

func TestStalledReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := memstore.NewWindow(&memstore.WindowOptions{Bytes: 10, Stall: 7 * time.Second})
		if err := appendBytes(t.Context(), w, 0, 100); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := appendBytes(t.Context(), w, 1, 1); !errors.Is(err, store.ErrStalled) {
			t.Errorf("got %v, want ErrStalled", err)
		}
		if took := time.Since(began); took != 7*time.Second {
			t.Errorf("it took %v, want 7s", took)
		}
	})
}

func TestLastWordsNeverWait(t *testing.T) {
	t.Parallel()
	w := memstore.NewWindow(&memstore.WindowOptions{Bytes: 10})
	if err := appendBytes(t.Context(), w, 0, 100); err != nil {
		t.Fatal(err)
	}
	last := []store.Entry{
		{Seq: 1, Type: responses.EventError, Data: bytes.Repeat([]byte("x"), 50)},
		{Seq: 2, Type: responses.EventFailed, Data: bytes.Repeat([]byte("x"), 50)},
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Append(ctx, "o", "r", 0, 1, last); err != nil {
		t.Errorf("last words into a full window: %v", err)
	}
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := memstore.NewWindow(&memstore.WindowOptions{Heartbeat: 15 * time.Second})
		if err := appendBytes(t.Context(), w, 0, 1); err != nil {
			t.Fatal(err)
		}
		start, beats := time.Now(), 0
		for batch, err := range w.Follow(t.Context(), "o", "r", -1) {
			if err != nil {
				t.Fatal(err)
			}
			if len(batch) == 0 {
				beats++
			}
			if beats == 3 {
				break
			}
		}
		if got := time.Since(start); got != 45*time.Second {
			t.Errorf("three heartbeats took %v, want 45s", got)
		}
	})
}

func TestSecondReaderGetsPurged(t *testing.T) {
	t.Parallel()
	w := memstore.NewWindow(nil)
	if err := appendBytes(t.Context(), w, 0, 1); err != nil {
		t.Fatal(err)
	}
	for range w.Follow(t.Context(), "o", "r", -1) {
		break
	}
	for _, err := range w.Follow(t.Context(), "o", "r", -1) {
		if !errors.Is(err, store.ErrPurged) {
			t.Errorf("got %v, want ErrPurged", err)
		}
	}
}

// BenchmarkAppendFollow is one event through the window: it must not allocate.
func BenchmarkAppendFollow(b *testing.B) {
	w := memstore.NewWindow(nil)
	data := bytes.Repeat([]byte("x"), 250)
	ctx := b.Context()
	entry := make([]store.Entry, 1)
	entry[0] = store.Entry{Type: responses.EventCreated, Data: data}
	if _, err := w.Append(ctx, "o", "r", 0, 0, entry); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	go func() {
		for i := range b.N {
			entry[0] = store.Entry{Seq: int64(i + 1), Type: responses.EventTextDelta, Data: data}
			if _, err := w.Append(ctx, "o", "r", 0, int64(i+1), entry); err != nil {
				b.Error(err)
				return
			}
		}
	}()
	seen := 0
	for batch, err := range w.Follow(ctx, "o", "r", -1) {
		if err != nil {
			b.Fatal(err)
		}
		if seen += len(batch); seen > b.N {
			break
		}
	}
}
