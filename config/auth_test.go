package config_test

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/config"
)

// TestKeyHash: a key that is written out and its hash are the same credential
// (R35).
func TestKeyHash(t *testing.T) {
	t.Parallel()
	const key = "secret-0123456789"
	want := sha256.Sum256([]byte(key))
	for name, k := range map[string]config.Key{
		"key":  {Key: key},
		"hash": {KeySHA256: config.Secret(hex.EncodeToString(want[:]))},
	} {
		if got, err := k.Hash(); err != nil || got != want {
			t.Errorf("%s: got %x, %v; want %x", name, got, err, want)
		}
	}
	if got, err := (config.Key{}).Hash(); err == nil || got != [sha256.Size]byte{} {
		t.Errorf("neither: got %x, %v; want an error", got, err)
	}
}

// TestLimitsOfPrograms: what a file cannot say is refused of a program too.
func TestLimitsOfPrograms(t *testing.T) {
	t.Parallel()
	c := config.Config{
		Auth: config.Auth{Keys: []config.Key{{
			Name: "a", Key: "secret-0123456789",
			Limits: config.KeyLimits{RequestsPerMinute: -1, TokensPerMinute: -2, Concurrent: -3},
		}}},
		Upstreams: map[string]config.Upstream{"u": {URL: "http://127.0.0.1"}},
		Models: map[string]config.Model{"m": {
			Targets: []config.Target{
				{Upstream: "u", Weight: 1},
				{Upstream: "u", Weight: -1, Priority: -1, Limits: config.TargetLimits{Concurrent: -1, RequestsPerMinute: -2}},
			},
			Info: config.ModelInfo{ContextWindow: -1},
		}},
	}
	want := `auth.keys[0].limits.requests_per_minute: -1 is less than nothing; leave it out for no limit
auth.keys[0].limits.tokens_per_minute: -2 is less than nothing; leave it out for no limit
auth.keys[0].limits.concurrent: -3 is less than nothing; leave it out for no limit
models.m.targets[1].weight: -1 is less than nothing; use 0 or more
models.m.targets[1].priority: -1 is less than 1; the lowest number is asked first
models.m.targets[1].limits.concurrent: -1 is less than nothing; leave it out for no limit
models.m.targets[1].limits.requests_per_minute: -2 is less than nothing; leave it out for no limit
models.m.info.context_window: -1 is less than nothing; leave it out`
	err := c.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// TestUpstreamKeys: one key and several are asked for in one way.
func TestUpstreamKeys(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		upstream config.Upstream
		want     []config.Secret
	}{
		"none":    {},
		"one":     {config.Upstream{APIKey: "a"}, []config.Secret{"a"}},
		"several": {config.Upstream{APIKeys: []config.Secret{"a", "b"}}, []config.Secret{"a", "b"}},
	} {
		if diff := cmp.Diff(tt.want, tt.upstream.Keys()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestUpstreamAuthHeader(t *testing.T) {
	t.Parallel()
	for auth, want := range map[config.UpstreamAuth]string{ // empty means that the key is not sent bare
		config.AuthAzure: "api-key", "header X-Key": "X-Key", config.AuthBearer: "", config.AuthClient: "", config.AuthNone: "", "": "",
	} {
		if got, ok := auth.Header(); ok != (want != "") || ok && got != want {
			t.Errorf("%q: got %q, %v; want %q", auth, got, ok, want)
		}
	}
}
