package route

import (
	"cmp"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"slices"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
)

// A Target is a model of an upstream.
type Target struct {
	// Upstream is the upstream's name.
	Upstream string
	// Model is the upstream's name for it. Empty means the name that the client
	// used; a * in it stands for what the * of the model's pattern matched.
	Model string
	// Weight is this target's share among those of the same priority. Zero means
	// 1, negative means none unless there is no other.
	Weight int
	// Priority orders targets: those with a higher number are used when none
	// with a lower one can be. Zero means 1.
	Priority int
	// Concurrent bounds the turns at once, RequestsPerMinute how fast they may
	// begin. Zero means no bound.
	Concurrent, RequestsPerMinute int
}

// An Upstream is how the router treats one. The zero value suits most.
type Upstream struct {
	// NoRelay has requests for models of the upstream run, never relayed. Those of
	// APIs that the gateway cannot run are relayed all the same.
	NoRelay bool
	// Sanitize keeps from clients what only this upstream has: members and kinds
	// that nobody published, its words for its failures, and trouble with its
	// account. Its answers are then not relayed, but for those of APIs that the
	// gateway cannot run; whoever relays these cleans them.
	Sanitize bool
	// KeepsState says that the upstream remembers responses and conversations, in
	// place of the gateway. Requests to it are always relayed.
	KeepsState bool
}

// A Model is what a name that clients use stands for.
type Model struct {
	// Targets are where its turns go. There must be one.
	Targets []Target
	// Defaults are request members that are set where the client is silent,
	// Override those that win over the client, Drop those that are removed.
	Defaults, Override map[string]jsontext.Value
	Drop               []string
	// ContextWindow is told to clients that list models; 0 means what the
	// upstream says.
	ContextWindow int64
}

// To returns the model that is one target's, under the same name if model is "".
func To(upstream, model string) Model {
	return Model{Targets: []Target{{Upstream: upstream, Model: model}}}
}

// shapes reports whether the model changes requests.
func (m *Model) shapes() bool { return len(m.Defaults)+len(m.Override)+len(m.Drop) > 0 }

// shape returns the request with the model's settings in it. It goes by way of
// JSON, because that is what the settings speak of, and so what a client could
// have sent is checked as if it had.
func (m *Model) shape(r *responses.Request) (*responses.Request, error) {
	raw := r.Raw
	if raw == nil {
		var err error
		if raw, err = json.Marshal(r); err != nil {
			return nil, err
		}
	}
	present := map[string]bool{}
	for name, v := range responses.Members(raw) {
		present[name] = v.Kind() != 'n'
	}
	var set []responses.Member
	for name, v := range m.Defaults {
		if !present[name] {
			set = append(set, responses.Member{Name: name, Value: v})
		}
	}
	for _, name := range m.Drop {
		set = append(set, responses.Member{Name: name})
	}
	for name, v := range m.Override {
		set = slices.DeleteFunc(set, func(s responses.Member) bool { return s.Name == name })
		set = append(set, responses.Member{Name: name, Value: v})
	}
	slices.SortFunc(set, func(a, b responses.Member) int { return cmp.Compare(a.Name, b.Name) })
	body, err := responses.SetMembers(raw, set...)
	if err != nil {
		return nil, err
	}
	shaped, err := responses.DecodeRequest(body, nil)
	if err != nil {
		return nil, responses.Errorf(responses.CodeServer, "The gateway's settings for this model do not fit the request.").WithCause(err)
	}
	return shaped, nil
}

// names finds models by the names that clients use, as quickly for many as for a
// few.
type names struct {
	exact    map[string]*pool
	prefixes map[string]*pool // of patterns, by what stands before the star
	lengths  []int            // that prefixes have, the longest first
}

func (n *names) add(name string, p *pool) error {
	prefix, star := strings.CutSuffix(name, "*")
	if strings.Contains(prefix, "*") {
		return fmt.Errorf("model %q: a * may stand at the end only", name)
	}
	if !star {
		n.exact[name] = p
		return nil
	}
	n.prefixes[prefix] = p
	longer := func(a, b int) int { return cmp.Compare(b, a) }
	if at, ok := slices.BinarySearchFunc(n.lengths, len(prefix), longer); !ok {
		n.lengths = slices.Insert(n.lengths, at, len(prefix))
	}
	return nil
}

// find returns the pool of a name and what the star of its pattern matched.
func (n *names) find(name string) (p *pool, star string) {
	if p := n.exact[name]; p != nil {
		return p, name
	}
	for _, l := range n.lengths {
		if l > len(name) {
			continue
		}
		if p := n.prefixes[name[:l]]; p != nil {
			return p, name[l:]
		}
	}
	return nil, ""
}

// modelFor is the upstream's name for what the client calls name.
func (t *Target) modelFor(name, star string) string {
	if t.Model == "" {
		return name
	}
	return strings.Replace(t.Model, "*", star, 1)
}

// takesAnyName reports whether the client has a say in what the upstream's name is.
func (t *Target) takesAnyName() bool { return t.Model == "" || strings.Contains(t.Model, "*") }
