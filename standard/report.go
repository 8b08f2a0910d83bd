package standard

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/config"
)

// A Report is what [New] learned of the upstreams.
type Report struct {
	// Upstreams are in the order of their names.
	Upstreams []Upstream
	// Shadowed are models that several upstreams list and no configuration settles.
	Shadowed []Shadowed
}

// Shadowed is a model that two upstreams list.
type Shadowed struct {
	Model  string
	Serves string // the upstream that gets its requests
	Hidden string // the one that does not
}

// targets returns what the names of models stand for: what c says, or else what
// the upstreams list. Nil means that the only upstream gets every name.
func (r *Report) targets(c *config.Config, firstWins bool) (map[string]antiphon.Model, error) {
	targets := map[string]antiphon.Model{}
	if len(c.Models) > 0 {
		for name, m := range c.Models {
			targets[name] = modelOf(m)
		}
		return targets, nil
	}
	if len(c.Upstreams) == 1 {
		return nil, nil
	}
	for _, u := range r.Upstreams {
		for _, m := range u.Models {
			first, taken := targets[m.ID]
			switch {
			case !taken:
				targets[m.ID] = antiphon.ModelAt(u.Name, m.ID)
			case first.Targets[0].Upstream != u.Name: // otherwise listed twice by the same one
				r.Shadowed = append(r.Shadowed, Shadowed{Model: m.ID, Serves: first.Targets[0].Upstream, Hidden: u.Name})
			}
		}
	}
	if len(r.Shadowed) > 0 && !firstWins {
		s := r.Shadowed[0]
		return nil, fmt.Errorf("%s and %s both list the model %q%s: write a configuration file that says under models who serves it",
			s.Serves, s.Hidden, s.Model, andMore(len(r.Shadowed)-1))
	}
	return targets, nil
}

func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}

// A Served model is one that clients can ask for.
type Served struct {
	Name string // as clients call it
	// Upstream is who serves it, and Model its name there.
	Upstream *Upstream
	Model    string
	// Window is its context window in tokens, 0 if not known. UpTo says that it may
	// be less; see [Upstream.UpTo].
	Window int64
	UpTo   bool
}

// Served returns the models that clients can ask for, sorted by name, as far as
// they are known.
func (r *Report) Served(c *config.Config) []Served {
	var list []Served
	for name, m := range c.Models {
		for i := range r.Upstreams {
			if u := &r.Upstreams[i]; u.Name == m.Upstream {
				list = append(list, u.served(name, cmp.Or(m.Model, name)))
			}
		}
	}
	if len(c.Models) == 0 {
		taken := map[string]bool{}
		for i := range r.Upstreams {
			u := &r.Upstreams[i]
			for _, m := range u.Models {
				if !taken[m.ID] {
					taken[m.ID] = true
					list = append(list, u.served(m.ID, m.ID))
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b Served) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func (u *Upstream) served(name, model string) Served {
	s := Served{Name: name, Upstream: u, Model: model, UpTo: u.UpTo[model]}
	for _, m := range u.Models {
		if m.ID == model {
			s.Window = m.ContextWindow
		}
	}
	return s
}

// Models returns the names of the models that clients can ask for, sorted.
func (r *Report) Models(c *config.Config) []string {
	var names []string
	for _, s := range r.Served(c) {
		names = append(names, s.Name)
	}
	return names
}
