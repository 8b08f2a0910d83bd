// Package netguard connects to addresses that somebody else has chosen: a client
// that names a tool server, a server that redirects. It refuses what only the
// machine itself, or its own network, should reach.
//
//	URL ─► CheckURL: scheme, credentials, port, notation of the host
//	 └─► DialContext: resolve once ─► check every address ─► connect to that address
//	                                                          └─► checked again by the socket
//
// A name is resolved once for a connection, and the connection goes to the address
// that was checked: a name server that gives another answer the next time wins
// nothing. The socket checks once more, right before it connects, whatever came
// before. Each redirect is a new URL and goes the same way.
//
// The package knows addresses only, neither tools nor tenants.
package netguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Reasons for a refusal. The errors of this package wrap one of them, name the host
// and the way out, and hold nothing else of the URL.
var (
	// ErrScheme: the URL is not one of http or https.
	ErrScheme = errors.New("only http and https are reached")
	// ErrCredentials: the URL holds a user name or a password.
	ErrCredentials = errors.New("the URL holds a user name or a password")
	// ErrNotation: the host is written in a way that readers understand differently.
	ErrNotation = errors.New("the host is not written in the usual way")
	// ErrPort: the port is not the one of the scheme.
	ErrPort = errors.New("the port is not 80 or 443")
	// ErrAddress: the address is not one of the public internet.
	ErrAddress = errors.New("the address is not public")
)

// Options configures [New]. The zero value is usable.
type Options struct {
	// Allow are the exceptions: names of hosts, IP addresses or networks, each with
	// a port or not (10.0.0.0/8, wiki.internal:8443, [::1]:9000). One without a port
	// is for ports 80 and 443. A name lets through whatever it resolves to, but for
	// link-local addresses, where machines get their credentials: those need an
	// entry by address.
	Allow []string
	// Lookup resolves a name. Nil means the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// ConnectTime bounds the time for one connection. Zero means 10 s.
	ConnectTime time.Duration
}

// A Guard decides which addresses may be reached. It is safe for concurrent use.
type Guard struct {
	allow  []entry
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	time   time.Duration
	dial   func(ctx context.Context, d *net.Dialer, network string, to netip.AddrPort) (net.Conn, error)
}

// New returns a guard. It fails if an exception cannot be read.
func New(opts *Options) (*Guard, error) {
	if opts == nil {
		opts = &Options{}
	}
	g := &Guard{lookup: opts.Lookup, time: opts.ConnectTime, dial: dial}
	for _, s := range opts.Allow {
		e, err := parseEntry(s)
		if err != nil {
			return nil, fmt.Errorf("allowed address %w", err)
		}
		g.allow = append(g.allow, e)
	}
	if g.lookup == nil {
		g.lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if g.time == 0 {
		g.time = 10 * time.Second
	}
	return g, nil
}

// EntryOf returns the exception that lets a guard through to where u points, for
// an address that the operator chose.
func EntryOf(u *url.URL) string { return net.JoinHostPort(u.Hostname(), portOf(u)) }

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// CheckURL says why a URL may not be reached, as far as it can be told without
// resolving its host.
func (g *Guard) CheckURL(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("%w", ErrScheme)
	case u.User != nil:
		return fmt.Errorf("%w", ErrCredentials)
	case u.Opaque != "":
		return fmt.Errorf("%w: the URL has no host", ErrNotation)
	}
	port, err := portNumber(portOf(u))
	if err != nil {
		return err
	}
	host, ip, err := parseHost(u.Hostname())
	if err != nil {
		return err
	}
	if ip.IsValid() {
		return g.checkAddress(host, ip, port)
	}
	return g.checkPort(host, port)
}

// parseHost returns the address that a host is, or its name in the spelling that
// names are compared in.
func parseHost(host string) (name string, ip netip.Addr, err error) {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.String(), ip, nil
	}
	if strings.Contains(host, ":") {
		return "", netip.Addr{}, fmt.Errorf("%w: it is no IPv6 address", ErrNotation)
	}
	name, err = hostName(host)
	return name, netip.Addr{}, err
}

func portNumber(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%w: there is no such port", ErrPort)
	}
	return uint16(n), nil
}

// checkPort refuses unusual ports early, where no exception can apply.
func (g *Guard) checkPort(host string, port uint16) error {
	if usualPort(port) {
		return nil
	}
	for _, e := range g.allow {
		if e.port == port && (e.name == "" || e.name == host) {
			return nil
		}
	}
	return fmt.Errorf("%w: add %s to the addresses that are allowed", ErrPort, net.JoinHostPort(host, strconv.Itoa(int(port))))
}

// checkAddress decides about one address that host is, or resolved to.
func (g *Guard) checkAddress(host string, ip netip.Addr, port uint16) error {
	for _, e := range g.allow {
		if e.covers(host, ip, port) {
			return nil
		}
	}
	at := net.JoinHostPort(host, strconv.Itoa(int(port)))
	if !isPublic(plain(ip)) {
		return fmt.Errorf("%w: add %s to the addresses that are allowed", ErrAddress, at)
	}
	if !usualPort(port) {
		return fmt.Errorf("%w: add %s to the addresses that are allowed", ErrPort, at)
	}
	return nil
}

// DialContext connects to address, host:port, if the host is, or resolves to, only
// what may be reached: one address that may not be is enough to refuse them all,
// because nobody says which one comes first the next time. It is made for
// [http.Transport].
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	hostPart, portPart, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%w: it has no port", ErrNotation)
	}
	port, err := portNumber(portPart)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, g.time)
	defer cancel()
	host, ips, err := g.resolve(ctx, hostPart)
	if err != nil {
		return nil, err
	}
	for _, ip := range ips {
		if err := g.checkAddress(host, ip, port); err != nil {
			return nil, err
		}
	}
	return g.connect(ctx, network, host, ips, port)
}

func (g *Guard) resolve(ctx context.Context, host string) (string, []netip.Addr, error) {
	name, ip, err := parseHost(host)
	if err != nil {
		return "", nil, err
	}
	if ip.IsValid() {
		return name, []netip.Addr{ip}, nil
	}
	ips, err := g.lookup(ctx, name)
	if err != nil {
		return "", nil, err
	}
	if len(ips) == 0 {
		return "", nil, fmt.Errorf("%s has no address", name)
	}
	return name, ips, nil
}

// connect tries the addresses in turn.
func (g *Guard) connect(ctx context.Context, network, host string, ips []netip.Addr, port uint16) (net.Conn, error) {
	d := net.Dialer{ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		return g.checkSocket(host, address)
	}}
	var failed error
	for _, ip := range ips {
		conn, err := g.dial(ctx, &d, network, netip.AddrPortFrom(ip, port))
		if err == nil {
			return conn, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

func dial(ctx context.Context, d *net.Dialer, network string, to netip.AddrPort) (net.Conn, error) {
	return d.DialContext(ctx, network, to.String())
}

// checkSocket checks the address that a socket is about to connect to.
func (g *Guard) checkSocket(host, address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrAddress, err)
	}
	return g.checkAddress(host, at.Addr(), at.Port())
}
