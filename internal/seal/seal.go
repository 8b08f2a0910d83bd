// Package seal makes sealed envelopes: opaque text that a client carries for the
// gateway and cannot read, change, or use where it does not belong. The gateway
// hands one out as encrypted_content and gets it back on a later turn, perhaps on
// another replica, without having stored anything.
//
// An envelope is bound to a purpose and a tenant: it opens only for both. It
// names the key it was made with, so that keys can be rotated: the first key
// seals, every key opens. It says nothing about when it was made; an envelope is
// good for as long as its key is kept.
package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// KeySize is the size of a key in bytes.
const KeySize = 32

// MaxEnvelope is the longest envelope that is opened: what clients accept as
// encrypted_content.
const MaxEnvelope = 20 << 20

// Errors of [Sealer.Open].
var (
	// ErrForeign: the text is no envelope of ours.
	ErrForeign = errors.New("seal: not an envelope of this gateway")
	// ErrUnknownKey: it was sealed with a key that this gateway does not have.
	ErrUnknownKey = errors.New("seal: sealed with a key that is not configured")
	// ErrBroken: it was changed, or belongs to another purpose or tenant. The
	// three cannot be told apart.
	ErrBroken = errors.New("seal: envelope does not open")
)

// prefix marks our envelopes and their version.
const prefix = "antiphon1."

// idSize is how many bytes name a key.
const idSize = 8

// A Sealer seals and opens envelopes. It is safe for concurrent use.
type Sealer struct {
	keys []key // the first one seals
}

type key struct {
	id   [idSize]byte
	aead cipher.AEAD
}

// New returns a sealer with the given keys of [KeySize] bytes, the current one
// first. Without keys it makes one up: envelopes then do not survive the sealer.
func New(keys ...[]byte) (*Sealer, error) {
	if len(keys) == 0 {
		random := make([]byte, KeySize)
		rand.Read(random) // never fails: crypto/rand aborts the program instead
		keys = [][]byte{random}
	}
	s := new(Sealer)
	for i, secret := range keys {
		if len(secret) != KeySize {
			return nil, fmt.Errorf("seal: key %d has %d bytes, not %d", i, len(secret), KeySize)
		}
		k, err := newKey(secret)
		if err != nil {
			return nil, fmt.Errorf("seal: key %d: %w", i, err)
		}
		if s.find(k.id[:]) != nil {
			return nil, fmt.Errorf("seal: key %d is there twice", i)
		}
		s.keys = append(s.keys, k)
	}
	return s, nil
}

// newKey derives the cipher's key and the key's name from the secret, so that
// the name reveals nothing about it.
func newKey(secret []byte) (key, error) {
	var k key
	name, err := hkdf.Key(sha256.New, secret, nil, "antiphon seal key id", idSize)
	if err != nil {
		return k, err
	}
	copy(k.id[:], name)
	derived, err := hkdf.Key(sha256.New, secret, nil, "antiphon seal key", KeySize)
	if err != nil {
		return k, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return k, err
	}
	k.aead, err = cipher.NewGCMWithRandomNonce(block)
	return k, err
}

func (s *Sealer) find(id []byte) *key {
	for i := range s.keys {
		if bytes.Equal(s.keys[i].id[:], id) {
			return &s.keys[i]
		}
	}
	return nil
}

// Seal returns an envelope around plain that opens only for the same purpose and
// tenant.
func (s *Sealer) Seal(purpose, tenant string, plain []byte) string {
	k := &s.keys[0]
	b := make([]byte, 0, idSize+len(plain)+k.aead.Overhead())
	b = append(b, k.id[:]...)
	b = k.aead.Seal(b, nil, plain, binding(purpose, tenant))
	return prefix + base64.RawURLEncoding.EncodeToString(b)
}

// Open returns what is in an envelope. envelope comes from clients and may be
// anything.
func (s *Sealer) Open(purpose, tenant, envelope string) ([]byte, error) {
	text, ok := strings.CutPrefix(envelope, prefix)
	if !ok || len(envelope) > MaxEnvelope {
		return nil, ErrForeign
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < idSize {
		return nil, ErrForeign
	}
	k := s.find(b[:idSize])
	if k == nil {
		return nil, ErrUnknownKey
	}
	plain, err := k.aead.Open(nil, nil, b[idSize:], binding(purpose, tenant))
	if err != nil {
		return nil, ErrBroken
	}
	return plain, nil
}

// binding is the associated data. The length keeps purpose and tenant apart:
// ("a", "bc") is not ("ab", "c").
func binding(purpose, tenant string) []byte {
	return fmt.Appendf(nil, "%d:%s%s", len(purpose), purpose, tenant)
}
