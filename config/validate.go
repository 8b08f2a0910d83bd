package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Validate returns an [*Error] with everything that is wrong with c, or nil.
func (c *Config) Validate() error { return c.problems().err("") }

func (c *Config) problems() problems {
	var p problems
	checkListen(&p, cmp.Or(c.Listen, DefaultListen), len(c.Auth.Keys) > 0)
	c.Admin.check(&p, c.Listen)
	switch c.Mode {
	case "", ModeTransparent, ModeStrict:
	default:
		p.addf("mode", "%q is not a mode; use transparent or strict", c.Mode)
	}
	c.Auth.check(&p)
	c.CORS.check(&p)
	checkProxies(&p, c.TrustedProxies)
	c.checkUpstreams(&p)
	c.checkRules(&p)
	c.OutputMode.check(&p)
	c.State.check(&p)
	c.Traces.check(&p)
	c.Timeouts.check(&p)
	c.Tools.check(&p)
	for i, key := range c.SealKeys {
		at := fmt.Sprintf("seal_keys[%d]", i)
		if _, err := SealKey(key); err != nil {
			p.addf(at, "%v", err)
		} else if slices.Index(c.SealKeys, key) < i {
			p.addf(at, "is there twice; remove one")
		}
	}
	return p
}

// checkUpstreams checks the upstreams and the models, which refer to them.
func (c *Config) checkUpstreams(p *problems) {
	if len(c.Upstreams) == 0 {
		p.addf("upstreams", "there is none; add one, such as local: {url: \"http://127.0.0.1:8000/v1\"}")
	}
	names := slices.Sorted(maps.Keys(c.Upstreams))
	for _, name := range names {
		path := join("upstreams", name)
		if !isName(name) {
			p.addf(path, "is not a name for an upstream; use %s", nameRule)
		}
		c.Upstreams[name].check(p, path, c.Listen)
		c.Upstreams[name].checkState(p, path, c.Mode)
		if c.Upstreams[name].Auth == AuthClient && len(c.Auth.Keys) > 0 {
			p.addf(join(path, "auth"), "client would send on the key that lets clients in here (auth.keys); give the upstream a key of its own, or use auth: none")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		c.Models[name].check(p, join("models", name), name, names)
	}
	c.checkMemory(p)
}

// checkListen refuses an address that other machines can reach: without keys
// whoever reaches the gateway spends the owner's money.
func checkListen(p *problems, addr string, hasKeys bool) {
	host, port, ok := checkAddress(p, "listen", addr, DefaultListen)
	if ok && !hasKeys && !isLoopback(host) {
		p.addf("listen", "%s can be reached from other machines, and without keys whoever reaches it may use it; "+
			"add auth.keys to the configuration file, or listen on %s if only this machine calls",
			addr, net.JoinHostPort("127.0.0.1", port))
	}
}

// checkAddress returns the parts of an address to listen on.
func checkAddress(p *problems, path, addr, example string) (host, port string, ok bool) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		p.addf(path, "%q is not an address; write host:port, such as %s", addr, example)
		return "", "", false
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		_, usual, _ := net.SplitHostPort(example)
		p.addf(path, "%q is not a port; use a number from 0 to 65535, such as %s", port, usual)
		return "", "", false
	}
	return host, port, true
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (t *Timeouts) check(p *problems) {
	for _, f := range []struct {
		key   string
		value time.Duration
	}{{"hold", t.Hold}, {"first_event", t.FirstEvent}, {"idle", t.Idle}, {"total", t.Total}, {"drain", t.Drain}} {
		if f.value < 0 {
			p.addf(join("timeouts", f.key), "%s is shorter than nothing; leave it out for the default", f.value)
		}
	}
}

const nameRule = "at most 64 letters, digits, dots, dashes and underscores"

// isName: names are sent in response headers and written into logs.
func isName(s string) bool {
	return len(s) <= 64 && isWord(strings.ReplaceAll(s, ".", "_"))
}
