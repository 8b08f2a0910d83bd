package server

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// maxHops is how many proxies a request may have come through.
const maxHops = 16

// clientAddr is the address that the request came from, for the access log; the
// zero Addr if there is none, as on a Unix socket. Each proxy appends to
// X-Forwarded-For whom it got the request from, so the list is believed from its
// end, and only as far as trusted proxies wrote it: what comes before that is the
// client's own invention.
func clientAddr(r *http.Request, trusted []netip.Prefix) netip.Addr {
	addr, ok := parseAddr(r.RemoteAddr)
	if !ok || !contains(trusted, addr) {
		return addr
	}
	hops := strings.Join(r.Header.Values("X-Forwarded-For"), ",")
	for range maxHops {
		i := strings.LastIndexByte(hops, ',')
		hop, ok := parseAddr(strings.TrimSpace(hops[i+1:]))
		if !ok {
			return addr
		}
		addr = hop
		if i < 0 || !contains(trusted, addr) {
			return addr
		}
		hops = hops[:i]
	}
	return addr
}

// parseAddr reads an address with or without a port, in one form for both kinds
// of sockets.
func parseAddr(s string) (netip.Addr, bool) {
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	return addr.Unmap().WithZone(""), err == nil
}

// hostOf is a request's Host without the port.
func hostOf(hostport string) string {
	if host, _, err := net.SplitHostPort(hostport); err == nil {
		return host
	}
	return hostport
}

func contains(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}
