// Package config reads the gateway's configuration file.
//
// [Load] and [Parse] turn YAML into a [Config]: strictly, so that a key that is
// misspelt is an error and not a setting that silently does nothing, with ${NAME}
// replaced from the environment, and with defaults filled in. What is wrong is
// reported all at once, each problem with its place and a way out ([Error]).
//
// The package describes a gateway and builds none; package standard does that.
// The meaning of a key does not change between versions: a key whose feature a
// build lacks is refused with "not in this build", never ignored.
package config

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
	"time"
)

// DefaultListen is where the gateway listens if nothing else is said: this
// machine only.
const DefaultListen = "127.0.0.1:4100"

// A Config describes a gateway. Start from [Default], or get one from [Load] or
// [Parse]. It is a plain value: whoever has it may change it.
type Config struct {
	// Listen is the address to serve on, host:port. It must be a loopback
	// address, because this build cannot check who calls. Empty means
	// [DefaultListen].
	Listen string `yaml:"listen"`
	// Mode is what the gateway does with what it does not know. Empty means
	// [ModeTransparent].
	Mode Mode `yaml:"mode"`
	// Upstreams are the model providers by name. There must be one.
	Upstreams map[string]Upstream `yaml:"upstreams"`
	// Models maps the names that clients use to upstreams. Empty means every
	// model that the upstreams list.
	Models map[string]Model `yaml:"models"`
	// Timeouts bound the life of a response.
	Timeouts Timeouts `yaml:"timeouts"`
	// SealKeys seal what clients carry for the gateway (encrypted_content): the
	// current key first, then older ones that still open. Each is 32 bytes in
	// base64; see [SealKey]. Without any a key is made up at start, and what was
	// sealed before a restart does not open after it.
	SealKeys []Secret `yaml:"seal_keys"`
}

// Mode is what the gateway does with request members that it does not know.
type Mode string

// ModeTransparent passes on what the gateway does not know.
const ModeTransparent Mode = "transparent"

// An Upstream is a model provider.
type Upstream struct {
	// Protocol is what it speaks. Empty means that it is asked at start.
	Protocol Protocol `yaml:"protocol"`
	// URL is the address below which the protocol's paths are, such as
	// http://127.0.0.1:8000/v1. One that is only a host gets /v1; see
	// [Upstream.Base].
	URL string `yaml:"url"`
	// APIKey is the credential for the upstream.
	APIKey Secret `yaml:"api_key"`
	// Auth is how requests to the upstream are authenticated. Empty means
	// [AuthBearer] if there is an APIKey and [AuthNone] if there is none.
	Auth Auth `yaml:"auth"`
	// Headers are sent with every request to the upstream.
	Headers map[string]Secret `yaml:"headers"`
}

// Protocol names what an upstream speaks.
type Protocol string

// The protocols of this build.
const (
	ProtocolResponses Protocol = "responses" // the Responses API itself
	ProtocolChat      Protocol = "chat"      // Chat Completions
)

// Auth says which credential an upstream gets.
type Auth string

// The ways to authenticate of this build.
const (
	AuthBearer Auth = "bearer" // the upstream's APIKey as a bearer token
	AuthClient Auth = "client" // the Authorization header of the client's request
	AuthNone   Auth = "none"   // nothing
)

// A Model is what a client's model name stands for. In a file it may be written
// as the upstream's name alone.
type Model struct {
	// Upstream is a key of Config.Upstreams.
	Upstream string `yaml:"upstream"`
	// Model is the upstream's name for it. Empty means the same name.
	Model string `yaml:"model"`
}

// setShort takes the short form.
func (m *Model) setShort(upstream string) { m.Upstream = upstream }

// Timeouts bound the life of a response. Zero means the default; a file cannot
// say zero.
type Timeouts struct {
	Hold       time.Duration `yaml:"hold"`        // before a stream's headers are sent although no upstream has accepted
	FirstEvent time.Duration `yaml:"first_event"` // until an upstream's first event
	Idle       time.Duration `yaml:"idle"`        // between two events of an upstream
	Total      time.Duration `yaml:"total"`       // of a response
	Drain      time.Duration `yaml:"drain"`       // for streams to finish when the gateway stops
}

// Default returns the configuration of an empty file: everything but upstreams.
func Default() *Config {
	return &Config{
		Listen: DefaultListen,
		Mode:   ModeTransparent,
		Timeouts: Timeouts{
			Hold:       10 * time.Second,
			FirstEvent: 120 * time.Second,
			Idle:       300 * time.Second,
			Total:      time.Hour,
			Drain:      60 * time.Second,
		},
	}
}

// Base returns the upstream's URL in the form that drivers want: absolute,
// without a slash at the end, with /v1 if it was only a host.
func (u Upstream) Base() (*url.URL, error) {
	base, err := parseURL(u.URL)
	if err != nil {
		return nil, err
	}
	if base.Path == "" || base.Path == "/" {
		return base.JoinPath("v1"), nil
	}
	base.Path, base.RawPath = trimSlash(base.Path), trimSlash(base.RawPath)
	return base, nil
}

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
