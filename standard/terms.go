package standard

import (
	"fmt"
	"net/netip"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/config"
)

// What follows says in the gateway's terms what the configuration says in a user's.

// modelOf is a model of the configuration as the gateway takes it.
func modelOf(m config.Model) antiphon.Model {
	out := antiphon.Model{Defaults: m.Defaults, Override: m.Override, Drop: m.Drop, ContextWindow: m.Info.ContextWindow}
	for _, t := range m.Pool() {
		weight := t.Weight
		if weight == 0 {
			weight = -1 // in a file 0 means none; there it means the default
		}
		out.Targets = append(out.Targets, antiphon.Target{
			Upstream: t.Upstream, Model: t.Model, Weight: weight, Priority: t.Priority,
			Concurrent: t.Limits.Concurrent, RequestsPerMinute: t.Limits.RequestsPerMinute,
		})
	}
	return out
}

// upstreamsOf is how the gateway is to treat the upstreams.
func upstreamsOf(c *config.Config) map[string]antiphon.Upstream {
	upstreams := map[string]antiphon.Upstream{}
	for name, u := range c.Upstreams {
		upstreams[name] = antiphon.Upstream{NoRelay: !u.Relays(), Sanitize: u.Sanitize, KeepsState: u.State == config.KeptByUpstream}
	}
	return upstreams
}

// rulesOf are the rules of the configuration as the gateway takes them.
func rulesOf(c *config.Config) []antiphon.Rule {
	var rules []antiphon.Rule
	for _, r := range c.Rules {
		rules = append(rules, antiphon.Rule{LastUser: r.Match.LastUser, MaxChars: r.Match.MaxChars, Model: r.Model})
	}
	return rules
}

// keysOf are the keys of the configuration as the gateway takes them.
func keysOf(c *config.Config) ([]antiphon.Key, error) {
	var keys []antiphon.Key
	for _, k := range c.Auth.Keys {
		hash, err := k.Hash()
		if err != nil {
			return nil, fmt.Errorf("auth.keys: %s: %w", k.Name, err)
		}
		keys = append(keys, antiphon.Key{
			Name: k.Name, SHA256: hash, Tenant: k.Tenant, Capture: k.Capture, Models: k.Models,
			Limits: antiphon.KeyLimits{
				RequestsPerMinute: int64(k.Limits.RequestsPerMinute), TokensPerMinute: k.Limits.TokensPerMinute, Concurrent: k.Limits.Concurrent,
			},
		})
	}
	return keys, nil
}

// proxiesOf are the trusted proxies of the configuration as the gateway takes them.
func proxiesOf(c *config.Config) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for _, s := range c.TrustedProxies {
		network, err := config.Proxy(s)
		if err != nil {
			return nil, fmt.Errorf("trusted_proxies: %w", err)
		}
		networks = append(networks, network)
	}
	return networks, nil
}
