package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// UpstreamState says who remembers the responses of an upstream. Empty means
// [KeptByGateway].
type UpstreamState string

// Who may remember.
const (
	KeptByGateway  UpstreamState = "gateway"  // the gateway, as state says
	KeptByUpstream UpstreamState = "upstream" // the upstream itself: requests always pass to it as they are, and what refers to its ids goes there and nowhere else
)

func (u Upstream) checkState(p *problems, path string, mode Mode) {
	at := join(path, "state")
	switch u.State {
	case "", KeptByGateway:
		return
	case KeptByUpstream:
	default:
		p.addf(at, "%q is not known; use gateway or upstream", u.State)
		return
	}
	switch {
	case u.Protocol != "" && u.Protocol != ProtocolResponses:
		p.addf(at, "upstream needs protocol: responses; %s has no memory", u.Protocol)
	case !u.Relays():
		p.addf(join(path, "relay"), "false excludes state: upstream, whose requests are always relayed; remove one of them")
	case u.Sanitize:
		p.addf(join(path, "sanitize"), "true excludes state: upstream, whose answers pass as they are; remove one of them")
	case mode == ModeStrict:
		p.addf(at, "upstream passes requests and answers as they are, which mode: strict does not; remove one of them")
	}
}

// keptByUpstream reports how many targets of a model are at upstreams that
// remember.
func (c *Config) keptByUpstream(m Model) (n int) {
	for _, t := range m.Pool() {
		if c.Upstreams[t.Upstream].State == KeptByUpstream {
			n++
		}
	}
	return n
}

// checkMemory refuses models that are neither relayed nor run, but sometimes.
func (c *Config) checkMemory(p *problems) {
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		m, path := c.Models[name], join("models", name)
		switch n := c.keptByUpstream(m); {
		case n == 0:
		case n < len(m.Pool()):
			p.addf(path, "some of its upstreams have state: upstream and some do not; what one remembers the others cannot go on from")
		case len(m.Defaults)+len(m.Override)+len(m.Drop) > 0:
			p.addf(path, "its upstreams have state: upstream, so that requests pass as they are; remove defaults, override and drop")
		}
	}
	for i, r := range c.Rules {
		if m, ok := c.modelFor(r.Model); ok && c.keptByUpstream(m) > 0 {
			p.addf(fmt.Sprintf("rules[%d].model", i), "its upstreams have state: upstream, and what a rule sends on is remembered by the gateway; name another model")
		}
	}
}

// modelFor returns the model that a client's name stands for.
func (c *Config) modelFor(name string) (best Model, ok bool) {
	if m, ok := c.Models[name]; ok {
		return m, true
	}
	longest := -1
	for pattern, m := range c.Models {
		prefix, star := strings.CutSuffix(pattern, "*")
		if star && strings.HasPrefix(name, prefix) && len(prefix) > longest {
			best, longest = m, len(prefix)
		}
	}
	return best, longest >= 0
}
