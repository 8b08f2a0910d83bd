package netguard_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/netguard"
)

// names are what the tricks' hosts resolve to.
var names = map[string]string{
	"localhost":                "127.0.0.1",
	"www.localhost":            "127.0.0.1",
	"localhost6":               "::1",
	"loopback.example":         "127.0.0.1",
	"private.example":          "10.1.2.3",
	"aaaa-only.example":        "::1",
	"metadata.google.internal": "169.254.169.254",
	"azure.example":            "168.63.129.16",
	"mapped.example":           "::ffff:192.168.0.1",
	"nat64.example":            "64:ff9b::7f00:1",
	"public.example":           "93.184.215.14",
}

func lookup(_ context.Context, host string) ([]netip.Addr, error) {
	ip, ok := names[host]
	if !ok {
		return nil, errors.New("no such host")
	}
	return []netip.Addr{netip.MustParseAddr(ip)}, nil
}

// errReached stands for a connection: the guard let it through, and the test does
// not want it made.
var errReached = errors.New("reached")

// TestTricks tries every way we know to name an address of the inside. All are
// refused, for the reason that is theirs; those that an operator may want are let
// through by an exception for that address, and by no other (R43).
func TestTricks(t *testing.T) {
	t.Parallel()
	const never = "" // nothing lets it through: there is a usual way to write it
	tests := []struct {
		name, url string
		why       error
		allow     string
	}{
		{"loopback", "http://127.0.0.1/", netguard.ErrAddress, "127.0.0.1"},
		{"loopback, another", "http://127.8.9.10/", netguard.ErrAddress, "127.0.0.0/8"},
		{"loopback by name", "http://localhost/", netguard.ErrAddress, "localhost"},
		{"loopback by name with a dot", "http://localhost./", netguard.ErrAddress, "localhost"},
		{"loopback by name in capitals", "http://LOCALHOST/", netguard.ErrAddress, "localhost"},
		{"loopback below localhost", "http://www.localhost/", netguard.ErrAddress, "www.localhost"},
		{"loopback by a public name", "http://loopback.example/", netguard.ErrAddress, "127.0.0.1"},
		{"loopback IPv6", "http://[::1]/", netguard.ErrAddress, "::1"},
		{"loopback IPv6 by name", "http://localhost6/", netguard.ErrAddress, "::1"},
		{"loopback IPv6 only", "http://aaaa-only.example/", netguard.ErrAddress, "::1"},
		{"loopback IPv6 in full", "http://[0:0:0:0:0:0:0:1]/", netguard.ErrAddress, "::1"},
		{"unspecified", "http://0.0.0.0/", netguard.ErrAddress, "0.0.0.0"},
		{"unspecified IPv6", "http://[::]/", netguard.ErrAddress, "::"},
		{"this network", "http://0.1.2.3/", netguard.ErrAddress, "0.0.0.0/8"},
		{"decimal", "http://2130706433/", netguard.ErrNotation, never},
		{"decimal with a dot", "http://2130706433./", netguard.ErrNotation, never},
		{"octal", "http://0177.0.0.1/", netguard.ErrNotation, never},
		{"octal in one", "http://017700000001/", netguard.ErrNotation, never},
		{"hexadecimal", "http://0x7f000001/", netguard.ErrNotation, never},
		{"hexadecimal by parts", "http://0x7f.0x0.0x0.0x1/", netguard.ErrNotation, never},
		{"hexadecimal capital", "http://0X7F.1/", netguard.ErrNotation, never},
		{"two parts", "http://127.1/", netguard.ErrNotation, never},
		{"three parts", "http://127.0.1/", netguard.ErrNotation, never},
		{"mixed", "http://0x7f.0.01.1/", netguard.ErrNotation, never},
		{"leading zeros", "http://127.000.000.001/", netguard.ErrNotation, never},
		{"overflow", "http://4294967297/", netguard.ErrNotation, never},
		{"full-width digits", "http://１２７.０.０.１/", netguard.ErrNotation, never},
		{"circled digits", "http://①②⑦.⓪.⓪.①/", netguard.ErrNotation, never},
		{"circled letters", "http://ⓛocalhost/", netguard.ErrNotation, never},
		{"ideographic full stop", "http://127。0。0。1/", netguard.ErrNotation, never},
		{"percent in the host", "http://127.0.0.1%2f@public.example/", netguard.ErrCredentials, never},
		{"user name", "http://public.example@127.0.0.1/", netguard.ErrCredentials, never},
		{"user name and password", "http://public.example:80@127.0.0.1/", netguard.ErrCredentials, never},
		{"empty user name", "http://@127.0.0.1/", netguard.ErrCredentials, never},
		{"private 10", "http://10.0.0.1/", netguard.ErrAddress, "10.0.0.0/8"},
		{"private 172", "http://172.31.255.255/", netguard.ErrAddress, "172.16.0.0/12"},
		{"private 192", "http://192.168.1.1/", netguard.ErrAddress, "192.168.1.1"},
		{"private by a public name", "http://private.example/", netguard.ErrAddress, "private.example"},
		{"carrier's", "http://100.64.0.1/", netguard.ErrAddress, "100.64.0.0/10"},
		{"benchmark", "http://198.18.0.1/", netguard.ErrAddress, "198.18.0.0/15"},
		{"documentation", "http://192.0.2.1/", netguard.ErrAddress, "192.0.2.0/24"},
		{"multicast", "http://224.0.0.1/", netguard.ErrAddress, "224.0.0.0/4"},
		{"broadcast", "http://255.255.255.255/", netguard.ErrAddress, "255.255.255.255"},
		{"link-local", "http://169.254.1.1/", netguard.ErrAddress, "169.254.0.0/16"},
		{"metadata", "http://169.254.169.254/latest/meta-data/", netguard.ErrAddress, "169.254.169.254"},
		{"metadata by name", "http://metadata.google.internal/", netguard.ErrAddress, "169.254.169.254"},
		{"metadata of Azure", "http://168.63.129.16/", netguard.ErrAddress, "168.63.129.16"},
		{"metadata of Azure by name", "http://azure.example/", netguard.ErrAddress, "168.63.129.16"},
		{"metadata of Alibaba", "http://100.100.100.200/", netguard.ErrAddress, "100.100.100.200"},
		{"metadata IPv6", "http://[fd00:ec2::254]/", netguard.ErrAddress, "fd00:ec2::254"},
		{"unique local", "http://[fc00::1]/", netguard.ErrAddress, "fc00::/7"},
		{"link-local IPv6", "http://[fe80::1]/", netguard.ErrAddress, "fe80::1"},
		{"link-local IPv6 with a zone", "http://[fe80::1%25eth0]/", netguard.ErrAddress, never},
		{"site-local IPv6", "http://[fec0::1]/", netguard.ErrAddress, "fec0::/10"},
		{"multicast IPv6", "http://[ff02::1]/", netguard.ErrAddress, "ff02::1"},
		{"IPv4-mapped", "http://[::ffff:127.0.0.1]/", netguard.ErrAddress, "127.0.0.1"},
		{"IPv4-mapped in hexadecimal", "http://[::ffff:7f00:1]/", netguard.ErrAddress, "127.0.0.1"},
		{"IPv4-mapped by name", "http://mapped.example/", netguard.ErrAddress, "192.168.0.1"},
		{"IPv4-compatible", "http://[::127.0.0.1]/", netguard.ErrAddress, "::127.0.0.1"},
		{"IPv4-translated", "http://[::ffff:0:127.0.0.1]/", netguard.ErrAddress, "::ffff:0:127.0.0.1"},
		{"6to4", "http://[2002:7f00:1::]/", netguard.ErrAddress, "2002:7f00:1::"},
		{"6to4 of a private one", "http://[2002:a00:1::1]/", netguard.ErrAddress, "10.0.0.1"},
		{"NAT64", "http://[64:ff9b::127.0.0.1]/", netguard.ErrAddress, "64:ff9b::127.0.0.1"},
		{"NAT64 by name", "http://nat64.example/", netguard.ErrAddress, "127.0.0.1"},
		{"NAT64, local", "http://[64:ff9b:1::7f00:1]/", netguard.ErrAddress, "64:ff9b:1::/48"},
		{"Teredo", "http://[2001:0:53aa:64c::1]/", netguard.ErrAddress, "2001::/32"},
		{"documentation IPv6", "http://[2001:db8::1]/", netguard.ErrAddress, "2001:db8::/32"},
		{"another port", "http://public.example:22/", netguard.ErrPort, "public.example:22"},
		{"another port of an address", "http://93.184.215.14:6379/", netguard.ErrPort, "93.184.215.14:6379"},
		{"port 0", "http://public.example:0/", netguard.ErrPort, never},
		{"another scheme", "ftp://public.example/", netguard.ErrScheme, never},
		{"a file", "file:///etc/passwd", netguard.ErrScheme, never},
		{"gopher", "gopher://127.0.0.1:6379/_", netguard.ErrScheme, never},
		{"no host", "http:127.0.0.1", netguard.ErrNotation, never},
		{"an empty host", "http:///etc/passwd", netguard.ErrNotation, never},
		{"an empty label", "http://public..example/", netguard.ErrNotation, never},
	}
	if len(tests) < 40 {
		t.Fatalf("only %d tricks", len(tests))
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, allow := range [][]string{nil, {"10.99.99.99", "other.example", "other.example:22"}} {
				if err := reach(t, tt.url, allow); !errors.Is(err, tt.why) {
					t.Errorf("with %q allowed: got %v, want %v", allow, err, tt.why)
				}
			}
			if tt.allow == never {
				// Neither the address behind it nor everything lets it through.
				all := []string{"0.0.0.0/0", "::/0", "localhost", "public.example"}
				if err := reach(t, tt.url, all); errors.Is(err, errReached) {
					t.Errorf("with everything allowed: it was reached")
				}
				return
			}
			if err := reach(t, tt.url, []string{tt.allow}); !errors.Is(err, errReached) {
				t.Errorf("with %s allowed: %v", tt.allow, err)
			}
		})
	}
}

// reach returns why a URL is not reached, or errReached.
func reach(t *testing.T, url string, allow []string) error {
	t.Helper()
	g, err := netguard.New(&netguard.Options{Allow: allow, Lookup: lookup})
	if err != nil {
		t.Fatal(err)
	}
	netguard.StopBeforeConnect(g, errReached)
	client := g.Client(nil)
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return netguard.ErrNotation // no URL at all
	}
	resp, err := client.Do(req)
	if err == nil {
		resp.Body.Close()
		t.Fatalf("%s answered", url)
	}
	return err
}

// TestRedirects: where a server sends us is judged as where a client does (R43).
func TestRedirects(t *testing.T) {
	t.Parallel()
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("X-Secret"); got != "" {
			t.Errorf("the secret of another origin came along: %s", got)
		}
		w.WriteHeader(http.StatusTeapot)
	}))
	defer inner.Close()
	var target string
	outer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target, http.StatusTemporaryRedirect)
	}))
	defer outer.Close()
	outerHost, innerHost := outer.Listener.Addr().String(), inner.Listener.Addr().String()
	get := func(t *testing.T, to string, allow ...string) (*http.Response, error) {
		t.Helper()
		target = to
		g, err := netguard.New(&netguard.Options{Allow: allow})
		if err != nil {
			t.Fatal(err)
		}
		client := g.Client(nil)
		t.Cleanup(client.CloseIdleConnections)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, outer.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Secret", "s3cret")
		resp, err := client.Do(req)
		if resp != nil {
			resp.Body.Close()
		}
		return resp, err
	}
	if _, err := get(t, inner.URL, outerHost); !errors.Is(err, netguard.ErrAddress) {
		t.Errorf("to loopback: %v", err)
	}
	if _, err := get(t, "file:///etc/passwd", outerHost); !errors.Is(err, netguard.ErrScheme) {
		t.Errorf("to a file: %v", err)
	}
	if _, err := get(t, outer.URL, outerHost); !errors.Is(err, netguard.ErrRedirects) {
		t.Errorf("to itself: %v", err)
	}
	if resp, err := get(t, inner.URL, outerHost, innerHost); err != nil || resp.StatusCode != http.StatusTeapot {
		t.Errorf("to what is allowed: %v", err)
	}
}
