package netguard_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/internal/netguard"
)

// TestRebinding has a real name server that gives a public address first and that
// of this machine afterwards, for each question anew. No answer that it gives
// leads inside (R43).
func TestRebinding(t *testing.T) {
	t.Parallel()
	var reached atomic.Bool
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { reached.Store(true) }))
	defer inside.Close()
	_, port, err := net.SplitHostPort(inside.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dns := newNameServer(t, netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("127.0.0.1"))
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", dns.addr)
	}}
	g, err := netguard.New(&netguard.Options{
		// The port is allowed everywhere but here, and the first answer as well: what
		// is left to refuse is the address that the second answer brings.
		Allow:       []string{"203.0.113.0/24", "203.0.113.0/24:" + port},
		ConnectTime: 200 * time.Millisecond,
		Lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return resolver.LookupNetIP(ctx, "ip4", host)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	client := g.Client(nil)
	defer client.CloseIdleConnections()
	var refused int
	for range 6 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://rebind.example:"+port+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
			t.Fatal("it answered")
		}
		if errors.Is(err, netguard.ErrAddress) {
			refused++
		}
	}
	if reached.Load() {
		t.Error("the server inside was reached")
	}
	if dns.asked.Load() < 6 || refused != 3 {
		t.Errorf("asked %d times, refused %d times, want 3 refusals: every second answer", dns.asked.Load(), refused)
	}
}

// TestSocketChecksAgain: whatever was resolved, the socket looks at where it goes.
func TestSocketChecksAgain(t *testing.T) {
	t.Parallel()
	g, err := netguard.New(&netguard.Options{Allow: []string{"wiki.example:8443"}})
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]error{
		"127.0.0.1:80":          netguard.ErrAddress,
		"[::1]:443":             netguard.ErrAddress,
		"93.184.215.14:443":     nil,
		"93.184.215.14:22":      netguard.ErrPort,
		"garbage":               netguard.ErrAddress,
		"[::ffff:10.0.0.1]:443": netguard.ErrAddress,
	} {
		if err := netguard.CheckSocket(g, "other.example", address); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", address, err, want)
		}
	}
	if err := netguard.CheckSocket(g, "wiki.example", "10.0.0.1:8443"); err != nil {
		t.Errorf("a name that is allowed: %v", err)
	}
	if err := netguard.CheckSocket(g, "wiki.example", "169.254.169.254:8443"); !errors.Is(err, netguard.ErrAddress) {
		t.Errorf("a name that is allowed, at the metadata address: %v", err)
	}
}

// TestOneBadAddress: a name with a public and a private address is refused whole.
func TestOneBadAddress(t *testing.T) {
	t.Parallel()
	g, err := netguard.New(&netguard.Options{Lookup: func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("93.184.215.14"), netip.MustParseAddr("10.0.0.1")}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.DialContext(t.Context(), "tcp", "both.example:443"); !errors.Is(err, netguard.ErrAddress) {
		t.Errorf("got %v", err)
	}
}

// TestCaps bounds the size and the time of an answer.
func TestCaps(t *testing.T) {
	t.Parallel()
	quit := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/exact":
			io.WriteString(w, strings.Repeat("x", 1000))
		case "/endless":
			for {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		default:
			<-quit
		}
	}))
	defer srv.Close()
	defer close(quit)
	g, err := netguard.New(&netguard.Options{Allow: []string{srv.Listener.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	client := g.Client(&netguard.ClientOptions{MaxBytes: 1000, HeaderTime: 50 * time.Millisecond})
	defer client.CloseIdleConnections()
	get := func(path string) (string, error) {
		resp, err := client.Get(srv.URL + path)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		return string(b), err
	}
	if body, err := get("/exact"); err != nil || len(body) != 1000 {
		t.Errorf("a body of the limit: %d bytes, %v", len(body), err)
	}
	if body, err := get("/endless"); !errors.Is(err, netguard.ErrTooLarge) || len(body) != 1000 {
		t.Errorf("an endless body: %d bytes, %v", len(body), err)
	}
	if _, err := get("/silent"); err == nil {
		t.Error("a server that says nothing answered")
	}
}

// nameServer answers each question with the next of its addresses.
type nameServer struct {
	addr  string
	asked atomic.Int64
}

func newNameServer(t *testing.T, answers ...netip.Addr) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{addr: conn.LocalAddr().String()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			i := s.asked.Add(1) - 1
			if reply := answer(buf[:n], answers[int(i)%len(answers)]); reply != nil {
				_, _ = conn.WriteTo(reply, from)
			}
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	return s
}

// answer makes a reply of a question: the same header and question, and one
// address that may not be kept (RFC 1035).
func answer(query []byte, ip netip.Addr) []byte {
	if len(query) < 12 {
		return nil
	}
	end := 12
	for end < len(query) && query[end] != 0 {
		end += int(query[end]) + 1
	}
	end += 5 // the root, the type and the class
	if end > len(query) {
		return nil
	}
	b := append([]byte(nil), query[:end]...)
	binary.BigEndian.PutUint16(b[2:], 0x8180) // an answer, with recursion
	binary.BigEndian.PutUint16(b[6:], 1)      // one answer
	binary.BigEndian.PutUint32(b[8:], 0)      // nothing else
	b = append(b, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
	return append(b, ip.AsSlice()...)
}
