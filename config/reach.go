package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// CORS says which pages may use the API from a browser.
type CORS struct {
	// Origins are the pages that may, besides those of this machine and of the
	// Obsidian app: scheme, host, and the port if it is not the scheme's own, such as
	// https://chat.example. There is no form that stands for more than one.
	Origins []string `yaml:"origins"`
}

func (c CORS) check(p *problems) {
	for i, origin := range c.Origins {
		at := fmt.Sprintf("cors.origins[%d]", i)
		switch {
		case !isOrigin(origin):
			p.addf(at, "%q is not an origin; write it as browsers send it, like https://chat.example:8443, one for each", origin)
		case slices.Index(c.Origins, origin) < i:
			p.addf(at, "is there twice; remove one")
		}
	}
}

// isOrigin reports whether s is what a browser could send: it compares byte by
// byte, so another spelling would never match.
func isOrigin(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && u.Scheme+"://"+u.Host == s && strings.ToLower(s) == s && !strings.Contains(s, "*")
}

// Proxy returns the network that an entry of trusted_proxies stands for.
func Proxy(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil && addr.Zone() == "" {
		return netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), nil
	}
	network, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is not a network; write it like 10.0.0.0/8 or 192.0.2.1", s)
	}
	if network.Masked() != network {
		return netip.Prefix{}, fmt.Errorf("%s has more digits than its size says; did you mean %s?", s, network.Masked())
	}
	return network, nil
}

func checkProxies(p *problems, proxies []string) {
	for i, s := range proxies {
		at := fmt.Sprintf("trusted_proxies[%d]", i)
		switch network, err := Proxy(s); {
		case err != nil:
			p.addf(at, "%v", err)
		case network.Bits() == 0:
			p.addf(at, "%s is everybody, and then clients say themselves where they are; name the proxies' networks", s)
		case slices.Index(proxies, s) < i:
			p.addf(at, "is there twice; remove one")
		}
	}
}
