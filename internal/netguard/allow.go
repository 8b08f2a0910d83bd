package netguard

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// An entry of the allow-list.
type entry struct {
	name   string // lower case, without a dot at its end; "" if it is a network
	prefix netip.Prefix
	port   uint16 // 0 means those of the schemes
}

// parseEntry reads NAME, ADDRESS or NETWORK, each with :PORT behind it or not.
func parseEntry(s string) (entry, error) {
	if p, err := netip.ParsePrefix(s); err == nil {
		return entry{prefix: p.Masked()}, nil
	}
	if ip, err := netip.ParseAddr(s); err == nil && ip.Zone() == "" {
		return entry{prefix: single(ip)}, nil
	}
	host, port := s, uint16(0)
	if h, p, err := net.SplitHostPort(s); err == nil {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return entry{}, fmt.Errorf("%q has no port from 1 to 65535", s)
		}
		host, port = h, uint16(n)
	}
	if p, err := netip.ParsePrefix(host); err == nil {
		return entry{prefix: p.Masked(), port: port}, nil
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Zone() == "" {
		return entry{prefix: single(ip), port: port}, nil
	}
	name, err := hostName(host)
	if err != nil {
		return entry{}, fmt.Errorf("%q: %w", s, err)
	}
	return entry{name: name, port: port}, nil
}

func single(ip netip.Addr) netip.Prefix {
	ip = ip.Unmap()
	return netip.PrefixFrom(ip, ip.BitLen())
}

// covers reports whether the entry lets a connection through to ip, which host
// resolved to. An entry for a network may name the address as it is written, or
// the one within it.
func (e entry) covers(host string, ip netip.Addr, port uint16) bool {
	if e.port != port && (e.port != 0 || !usualPort(port)) {
		return false
	}
	if e.name != "" {
		return e.name == host && !within(linkLocal, plain(ip))
	}
	return e.prefix.Contains(plain(ip)) || e.prefix.Contains(ip)
}

// usualPort reports whether a port is that of a scheme.
func usualPort(port uint16) bool { return port == 80 || port == 443 }

// hostName returns a host in the one spelling that names are compared in, or why
// nobody should have to guess what it is.
func hostName(host string) (string, error) {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	switch {
	case name == "" || len(name) > 253:
		return "", fmt.Errorf("%w: it is no name of a host", ErrNotation)
	case strings.ContainsFunc(name, func(r rune) bool { return r >= 0x80 }):
		return "", fmt.Errorf("%w: write it in ASCII, as in xn--…", ErrNotation)
	}
	labels := strings.Split(name, ".")
	if slices.ContainsFunc(labels, func(l string) bool { return !isLabel(l) }) {
		return "", fmt.Errorf("%w: it is no name of a host", ErrNotation)
	}
	if isNumber(labels[len(labels)-1]) {
		return "", fmt.Errorf("%w: write an IPv4 address as four decimal numbers", ErrNotation)
	}
	return name, nil
}

func isLabel(l string) bool {
	return l != "" && len(l) <= 63 && !strings.ContainsFunc(l, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	})
}

// isNumber reports whether some resolvers take a label for a part of an IPv4
// address: decimal, octal or hexadecimal.
func isNumber(l string) bool {
	if hex, ok := strings.CutPrefix(l, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(l, "0123456789") == ""
}
