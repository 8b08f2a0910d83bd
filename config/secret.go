package config

import (
	"encoding/base64"
	"errors"
	"strings"
)

// A Secret is text that must not be shown. Formatting and logging it give a
// placeholder; [Secret.Reveal] gives the text.
type Secret string

const redacted = "[redacted]"

// String returns a placeholder, or nothing if there is no secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString returns the placeholder too, for %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText returns the placeholder too, for encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// sealKeySize is the size of a seal key in bytes.
const sealKeySize = 32

// SealKey returns the bytes of a seal key.
func SealKey(s Secret) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(s.Reveal()))
	if err != nil || len(key) != sealKeySize {
		return nil, errors.New("is not 32 bytes in base64; make one with: openssl rand -base64 32")
	}
	return key, nil
}
