package route

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/antiphon-dev/antiphon/upstream"
)

// pool is the targets of a model.
type pool struct {
	Model
	targets []*target

	entering sync.Mutex // held while a turn with an affinity chooses its target and takes a place
}

// has reports whether every target takes requests of the path as they come.
func (p *pool) has(path string) bool {
	return !slices.ContainsFunc(p.targets, func(t *target) bool {
		r, ok := t.driver.(upstream.Relayer)
		return !ok || !r.Relays(path) || path == upstream.PathResponses && (t.settings.NoRelay || t.settings.Sanitize)
	})
}

// spread is how far the load of a target may exceed its share before requests
// with an affinity to it go to the next one.
const spread = 1.25

// candidate is a target in the order in which a turn tries them.
type candidate struct {
	*target
	// desperate candidates are tried although they are to be left alone.
	desperate bool
	// taken is the place that the turn has at the target already, nil if none.
	taken *place
}

// A place at a target is what begin returned.
type place struct {
	verdict func(error)
	end     func()
	err     error
}

// enter takes a place at the candidate for a turn; see [target.begin].
func (c candidate) enter() (verdict func(error), end func(), err error) {
	if c.taken != nil {
		return c.taken.verdict, c.taken.end, c.taken.err
	}
	return c.begin(c.desperate)
}

// enter returns the order for a turn that is tried at once. One with an affinity
// has its place at the first target before the next turn looks at the load, so that
// two do not both take what is left of a share.
func (p *pool) enter(affinity string) []candidate {
	if affinity == "" {
		return p.order("")
	}
	p.entering.Lock()
	defer p.entering.Unlock()
	out := p.order(affinity)
	verdict, end, err := out[0].begin(out[0].desperate)
	out[0].taken = &place{verdict, end, err}
	return out
}

// order returns the targets in the order in which a turn should try them: by
// priority, among equals by weight, and for turns with an affinity always the
// same one first, as long as it is not overloaded. Targets that are to be left
// alone are not in it, unless there is no other.
func (p *pool) order(affinity string) []candidate {
	key := rand.Uint64()
	if affinity != "" {
		key = hashOf(affinity, 0)
	}
	draws := make(map[*target]float64, len(p.targets))
	sorted := slices.Clone(p.targets)
	for _, t := range sorted {
		draws[t] = t.draw(hashOf(t.Upstream+"\x00"+t.Model, key))
		if affinity != "" && p.overloaded(t) {
			draws[t] = math.Inf(1)
		}
	}
	slices.SortStableFunc(sorted, func(a, b *target) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(draws[a], draws[b]))
	})
	var out []candidate
	for _, t := range sorted {
		if t.usable() {
			out = append(out, candidate{target: t})
		}
	}
	if out == nil {
		for _, t := range sorted {
			out = append(out, candidate{target: t, desperate: true})
		}
	}
	return out
}

// overloaded reports whether one more turn would give t more than its share of
// the load among its equals, and then some.
func (p *pool) overloaded(t *target) bool {
	load, weight := 1, 0
	for _, other := range p.targets {
		if other.Priority == t.Priority {
			load += other.load()
			weight += max(other.Weight, 0)
		}
	}
	share := float64(load) * float64(max(t.Weight, 0)) / float64(max(weight, 1))
	return float64(t.load()+1) > math.Ceil(spread*share)
}

func hashOf(s string, seed uint64) uint64 {
	h := fnv.New64a()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], seed)
	_, _ = h.Write(b[:])
	_, _ = h.Write([]byte(s))
	// FNV leaves the high bits of short inputs alike; mix them.
	x := h.Sum64()
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
