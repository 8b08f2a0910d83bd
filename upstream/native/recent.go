package native

import (
	"container/list"
	"sync"
)

// recent is a map that forgets the keys that were not used for the longest time.
// It is safe for concurrent use.
type recent[K comparable, V any] struct {
	max int

	mu      sync.Mutex // guards what follows
	entries map[K]*list.Element
	order   list.List // of entry[K, V], the latest first
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

func newRecent[K comparable, V any](max int) *recent[K, V] {
	return &recent[K, V]{max: max, entries: map[K]*list.Element{}}
}

// get returns the value of key and false if it is not there.
func (r *recent[K, V]) get(key K) (value V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.entries[key]
	if !ok {
		return value, false
	}
	r.order.MoveToFront(e)
	return e.Value.(entry[K, V]).value, true
}

// put sets the value of key.
func (r *recent[K, V]) put(key K, value V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.entries[key]; ok {
		r.order.Remove(e)
	}
	r.entries[key] = r.order.PushFront(entry[K, V]{key, value})
	if r.order.Len() > r.max {
		oldest := r.order.Remove(r.order.Back()).(entry[K, V])
		delete(r.entries, oldest.key)
	}
}
