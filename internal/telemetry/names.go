package telemetry

import "sync"

// other stands for values that are not told apart.
const other = "other"

// names bounds the values of a label whose values come from outside: the first so
// many are kept, all later ones are "other".
type names struct {
	max  int
	mu   sync.RWMutex
	seen map[string]bool // guarded by mu
}

func newNames(max int) *names { return &names{max: max, seen: map[string]bool{}} }

// learn returns the label for a value that has proven itself.
func (n *names) learn(value string) string {
	if value == "" || n.knows(value) {
		return value
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.seen) >= n.max {
		return other
	}
	n.seen[value] = true
	return value
}

// label returns the label for a value that may be anything.
func (n *names) label(value string) string {
	if value == "" || n.knows(value) {
		return value
	}
	return other
}

func (n *names) knows(value string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.seen[value]
}
