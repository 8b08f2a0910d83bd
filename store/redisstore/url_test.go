package redisstore_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/antiphon-dev/antiphon/internal/redistest"
	"github.com/antiphon-dev/antiphon/store"
	"github.com/antiphon-dev/antiphon/store/redisstore"
)

// TestURLMistakes: what is wrong with a URL is said before anything is dialled, and
// without the password in it (R41).
func TestURLMistakes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ url, want string }{
		{"redis://u:s3cret@h:1 2/", "not a URL"},
		{"redis://u:s3cret@h:x/", "not a URL"},
		{"http://u:s3cret@h/", "scheme"},
		{"redis://u:s3cret@h/one", "database number"},
		{"redis://u:s3cret@h/1/2", "path"},
		{"redis://u:s3cret@h/?timeout=1s", `no parameter "timeout"`},
		{"redis://u:s3cret@h/?prefix={x}", "braces"},
		{"redis://u:s3cret@h/?cluster=perhaps", "neither true nor false"},
		{"redis://u:s3cret@h/?write_timeout=soon", "write timeout"},
		{"redis://u:s3cret@h/?a=%zz", "malformed"},
		{"redis://u:s3cret@127.0.0.1:1/", "redis at [127.0.0.1:1]"},
	} {
		t.Run(tt.url, func(t *testing.T) {
			t.Parallel()
			_, err := redisstore.Open(t.Context(), tt.url, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v, want it to say %q and no secret", err, tt.want)
			}
		})
	}
}

// TestCredentials: user and password are those of the URL, and a user who may do
// no more than it takes is enough (R41).
func TestCredentials(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", "other", "--user", "gateway", "on", ">pass", "~mine:*", "+@read", "+@write", "+@scripting", "+@connection")
	s := open(t, "redis://gateway:pass@"+server.Addr+"/?prefix=mine:", nil)
	defer s.Close()
	r := record(1, nil)
	create(t, s, r)
	create(t, s, record(1, r))
	if _, err := s.Chain(t.Context(), owner, r.ID, caps); err != nil {
		t.Error(err)
	}
	for _, url := range []string{"redis://" + server.Addr, "redis://gateway:wrong@" + server.Addr, "redis://gateway:pass@" + server.Addr + "/?prefix=yours:"} {
		_, err := redisstore.Open(t.Context(), url, &redisstore.Options{Logger: slog.New(slog.DiscardHandler)})
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", url, err)
		}
	}
}

// TestTLS: rediss:// speaks TLS, and believes only a certificate that it can check,
// unless it is told to (R41).
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certificate(t, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	l.Close()
	redistest.Start(t, "--tls-port", port, "--tls-cert-file", filepath.Join(dir, "cert.pem"), "--tls-key-file", filepath.Join(dir, "key.pem"), "--tls-auth-clients", "no")
	_, err = redisstore.Open(t.Context(), "rediss://"+addr+"?dial_timeout=30s", nil)
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v, want it to mistrust the certificate", err)
	}
	s := open(t, "rediss://"+addr+"?skip_verify=true&dial_timeout=30s", nil)
	defer s.Close()
	create(t, s, record(1, nil))
}

func certificate(t *testing.T, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		name, kind string
		data       []byte
	}{{certFile, "CERTIFICATE", cert}, {keyFile, "PRIVATE KEY", der}} {
		if err := os.WriteFile(f.name, pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.data}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSentinel: a Sentinel is asked where the master is (R41).
func TestSentinel(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	host, port, _ := net.SplitHostPort(server.Addr)
	sentinel := redistest.StartSentinel(t, "sentinel monitor mine "+host+" "+port+" 1")
	s := open(t, "redis://"+sentinel.Addr+"/2?master_set=mine", nil)
	defer s.Close()
	create(t, s, record(1, nil))
	if info := server.Do("INFO keyspace"); !strings.Contains(info, "db2:keys=") {
		t.Errorf("the master has nothing in database 2: %s", info)
	}
	if _, err := redisstore.Open(t.Context(), "redis://"+sentinel.Addr+"?master_set=yours", nil); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a master that there is none of: %v", err)
	}
}
