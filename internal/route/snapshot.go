package route

import (
	"cmp"
	"slices"
)

// TargetState is what a router knows of a target at a moment.
type TargetState struct {
	Upstream, Model string // the model as the upstream names it
	// Up is false while the target is left alone.
	Up        bool
	InFlight  int
	Ejections int64 // since the process began
}

// Targets returns the state of every target that the router has used, in the order
// of their names.
func (r *Router) Targets() []TargetState {
	states := make([]TargetState, 0, len(r.states))
	for k, s := range r.states {
		s.mu.Lock()
		states = append(states, TargetState{
			Upstream: k.upstream, Model: k.model, Up: !s.now().Before(s.until), InFlight: s.inFlight, Ejections: s.ejections,
		})
		s.mu.Unlock()
	}
	slices.SortFunc(states, func(a, b TargetState) int {
		return cmp.Or(cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Model, b.Model))
	})
	return states
}
