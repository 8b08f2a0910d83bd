package netguard

import "net/netip"

// special are the networks that no public server is in, by the registries of
// special-purpose addresses (RFC 6890 and what came after), and the addresses at
// which clouds give credentials to whoever asks from inside.
var special = prefixes(
	"0.0.0.0/8",         // this network
	"10.0.0.0/8",        // private
	"100.64.0.0/10",     // shared by carriers; holds 100.100.100.200, metadata
	"127.0.0.0/8",       // loopback
	"168.63.129.16/32",  // metadata
	"169.254.0.0/16",    // link-local; holds 169.254.169.254, metadata
	"172.16.0.0/12",     // private
	"192.0.0.0/24",      // protocol assignments
	"192.0.2.0/24",      // documentation
	"192.31.196.0/24",   // AS112
	"192.52.193.0/24",   // AMT
	"192.88.99.0/24",    // 6to4 relays
	"192.168.0.0/16",    // private
	"192.175.48.0/24",   // AS112
	"198.18.0.0/15",     // benchmarks
	"198.51.100.0/24",   // documentation
	"203.0.113.0/24",    // documentation
	"224.0.0.0/4",       // multicast
	"240.0.0.0/4",       // reserved, and broadcast
	"2001::/23",         // protocol assignments, with Teredo
	"2001:db8::/32",     // documentation
	"2620:4f:8000::/48", // AS112
	"3fff::/20",         // documentation
)

// public are the IPv6 addresses that are not special as a whole. All others are:
// loopback, local, multicast, and what nobody was given yet.
var public = netip.MustParsePrefix("2000::/3")

// linkLocal are the networks that a name on the allow-list does not open: what
// answers there is the machine's own landlord.
var linkLocal = prefixes("169.254.0.0/16", "fe80::/10", "168.63.129.16/32", "100.100.100.200/32", "fd00:ec2::/32")

func prefixes(list ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(list))
	for i, s := range list {
		out[i] = netip.MustParsePrefix(s)
	}
	return out
}

func within(list []netip.Prefix, ip netip.Addr) bool {
	for _, p := range list {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// isPublic reports whether ip is one that anybody on the internet could reach. ip
// is plain (see [plain]).
func isPublic(ip netip.Addr) bool {
	return ip.IsValid() && ip.Zone() == "" && !within(special, ip) && (ip.Is4() || public.Contains(ip))
}

// The networks whose addresses are IPv4 addresses in disguise, and where in them
// those begin.
var disguises = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12}, // NAT64
	{netip.MustParsePrefix("2002::/16"), 2},     // 6to4
}

// plain returns the address that packets to ip end at: the IPv4 address within an
// IPv6 one, where a translator on the way would take it out.
func plain(ip netip.Addr) netip.Addr {
	ip = ip.Unmap()
	for _, d := range disguises {
		if d.prefix.Contains(ip) {
			b := ip.As16()
			return netip.AddrFrom4([4]byte(b[d.at : d.at+4]))
		}
	}
	return ip
}
