package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Auth says who may call the gateway.
type Auth struct {
	// Keys are the credentials of those who may call. With any, a request without
	// one of them is refused, and listen may be beyond loopback.
	Keys []Key `yaml:"keys"`
}

// A Key is the credential of one caller.
type Key struct {
	// Name is what logs call the key: at most 64 letters, digits, dots, dashes and
	// underscores. No two keys share one.
	Name string `yaml:"name"`
	// Key is the credential that the client sends, of at least 16 characters. There
	// must be this or key_sha256.
	Key Secret `yaml:"key"`
	// KeySHA256 is the SHA-256 of the credential in hexadecimal, for a file that
	// shall not hold it.
	KeySHA256 Secret `yaml:"key_sha256"`
	// Tenant is the owner of what is stored for this key: keys of one tenant see
	// each other's responses. Left out, it is the name.
	Tenant string `yaml:"tenant"`
	// Models are the model names that the key may use, as clients write them. A
	// name may end in "*". Left out, it is every model.
	Models []string `yaml:"models"`
	// Limits bound what the key may use.
	Limits KeyLimits `yaml:"limits"`
	// Capture is true to write the bodies of the key's requests and answers to the
	// log, which then holds what users say: for finding a fault, with their consent,
	// and for no longer than that takes. Each body is cut at 64 KiB, and what looks
	// like a credential is left out. Only antiphon serve --log-level debug writes it.
	Capture bool `yaml:"capture"`
}

// KeyLimits bound the use of a key. Zero means no limit; a file cannot say zero.
type KeyLimits struct {
	// RequestsPerMinute is how many requests may begin in a minute. Left out, there
	// is no limit.
	RequestsPerMinute int `yaml:"requests_per_minute" min:"1"`
	// TokensPerMinute is how many tokens, read and written, a minute may take. Where
	// an upstream does not say, or the client leaves before it does, they are
	// estimated: one for four bytes of the request and for each event of the answer.
	// Left out, there is no limit.
	TokensPerMinute int64 `yaml:"tokens_per_minute" min:"1"`
	// Concurrent is how many requests may run at once. Left out, there is no limit.
	Concurrent int `yaml:"concurrent" min:"1"`
}

// minKeyLength is the shortest credential that is accepted, in bytes: a shorter
// one can be guessed.
const minKeyLength = 16

// Hash returns the SHA-256 of the credential: of Key, or what KeySHA256 says. A
// server that compares hashes need not hold the credentials.
func (k Key) Hash() (hash [sha256.Size]byte, err error) {
	if k.Key != "" {
		return sha256.Sum256([]byte(k.Key)), nil
	}
	n, err := hex.Decode(hash[:], []byte(k.KeySHA256[:min(len(k.KeySHA256), 2*len(hash))]))
	if err != nil || n != len(hash) || len(k.KeySHA256) != 2*len(hash) {
		return [sha256.Size]byte{}, errors.New("is not a SHA-256 in hexadecimal, of 64 digits; make one with: printf %s KEY | sha256sum")
	}
	return hash, nil
}

// fillIn sets what follows from other members.
func (k *Key) fillIn() {
	if k.Tenant == "" {
		k.Tenant = k.Name
	}
	if len(k.Models) == 0 {
		k.Models = everyModel
	}
}

// everyModel is shared by the keys that name no models.
var everyModel = []string{"*"}

func (a Auth) check(p *problems) {
	names := map[string]bool{}
	owners := map[[sha256.Size]byte]string{} // of the credentials seen so far, by hash
	for i, k := range a.Keys {
		path := fmt.Sprintf("auth.keys[%d]", i)
		k.checkNames(p, path)
		if k.Name != "" && names[k.Name] {
			p.addf(join(path, "name"), "%s is there twice; rename one", k.Name)
		}
		names[k.Name] = true
		hash, ok := k.checkCredential(p, path)
		if !ok {
			continue
		}
		if owner, taken := owners[hash]; taken {
			p.addf(path, "is the same credential as that of %s; remove one, or make a new one", owner)
			continue
		}
		owners[hash] = k.Name
	}
}

func (k Key) checkNames(p *problems, path string) {
	switch {
	case k.Name == "":
		p.addf(join(path, "name"), "is missing; write what logs shall call the key")
	case !isName(k.Name):
		p.addf(join(path, "name"), "%q is not a name for a key; use %s", k.Name, nameRule)
	}
	if k.Tenant != "" && !isName(k.Tenant) {
		p.addf(join(path, "tenant"), "%q is not a name for a tenant; use %s", k.Tenant, nameRule)
	}
	for i, m := range k.Models {
		if err := checkPattern(m); err != nil {
			p.addf(fmt.Sprintf("%s[%d]", join(path, "models"), i), "%v", err)
		}
	}
	limits := join(path, "limits")
	checkLimit(p, join(limits, "requests_per_minute"), int64(k.Limits.RequestsPerMinute))
	checkLimit(p, join(limits, "tokens_per_minute"), k.Limits.TokensPerMinute)
	checkLimit(p, join(limits, "concurrent"), int64(k.Limits.Concurrent))
}

// checkCredential returns the credential's hash if it can be used.
func (k Key) checkCredential(p *problems, path string) (hash [sha256.Size]byte, ok bool) {
	switch {
	case k.Key == "" && k.KeySHA256 == "":
		p.addf(join(path, "key"), "is missing; write key, or key_sha256 for a file that shall not hold it")
	case k.Key != "" && k.KeySHA256 != "":
		p.addf(join(path, "key_sha256"), "key is also there; remove one of them")
	case k.Key != "" && len(k.Key) < minKeyLength:
		p.addf(join(path, "key"), "has fewer than %d characters and can be guessed; make one with: openssl rand -hex 24", minKeyLength)
	case k.Key != "" && !isToken(k.Key.Reveal()):
		p.addf(join(path, "key"), "has characters that a client cannot send; use letters, digits and punctuation without spaces")
	default:
		hash, err := k.Hash()
		if err != nil {
			p.addf(join(path, "key_sha256"), "%v", err)
		}
		return hash, err == nil
	}
	return hash, false
}

// isToken: a credential is sent after "Bearer ".
func isToken(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

// checkLimit refuses a limit that a program set below nothing.
func checkLimit(p *problems, path string, limit int64) {
	if limit < 0 {
		p.addf(path, "%d is less than nothing; leave it out for no limit", limit)
	}
}
