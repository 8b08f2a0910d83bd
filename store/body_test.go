package store_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/store"
)

// TestBody: what is packed comes back, within a limit (R41).
func TestBody(t *testing.T) {
	t.Parallel()
	small := []store.Item{{ID: "a", Data: []byte(`{}`)}, {ID: "", Data: []byte(`{"b":1}`)}}
	large := []store.Item{{ID: "a", Data: bytes.Repeat([]byte(`{"text":"hello"}`), 1000)}}
	for name, items := range map[string][]store.Item{"none": nil, "small": small, "large": large} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := store.PackItems(items)
			got, err := body.Items(1 << 20)
			if diff := cmp.Diff(items, got); err != nil || diff != "" {
				t.Errorf("%v; (-want +got):\n%s", err, diff)
			}
			if items == nil {
				return
			}
			if _, err := body.Items(3); !errors.Is(err, store.ErrTooLong) {
				t.Errorf("beyond the limit: %v", err)
			}
		})
	}
	if n := len(store.PackItems(large)); n > 1000 {
		t.Errorf("16 KB of repetition take %d bytes", n)
	}
}

// TestBodyFind: some items of a body by their ids (R41).
func TestBodyFind(t *testing.T) {
	t.Parallel()
	items := []store.Item{{ID: "a", Data: []byte(`1`)}, {ID: "b", Data: []byte(`2`)}, {ID: "c", Data: []byte(`3`)}}
	got, err := store.PackItems(items).Find([]string{"c", "x", "a"})
	if diff := cmp.Diff([]store.Item{items[0], items[2]}, got); err != nil || diff != "" {
		t.Errorf("%v; (-want +got):\n%s", err, diff)
	}
	if _, err := store.Body("\x02\x00").Find(nil); err == nil {
		t.Error("a broken body is taken")
	}
}

// FuzzBody: no stored bytes, however broken, do harm.
func FuzzBody(f *testing.F) {
	f.Add([]byte(store.PackItems([]store.Item{{ID: "a", Data: []byte(`{}`)}})))
	f.Add([]byte(store.PackItems([]store.Item{{ID: "a", Data: bytes.Repeat([]byte(`{"text":"hello"}`), 1000)}})))
	f.Add([]byte{1, 0, 255, 255, 255, 255, 15})
	f.Add([]byte{2, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		items, err := store.Body(data).Items(1 << 16)
		if err != nil {
			return
		}
		size := 0
		for _, it := range items {
			size += len(it.ID) + len(it.Data)
		}
		if size > 1<<16 {
			t.Errorf("%d bytes came out", size)
		}
	})
}
