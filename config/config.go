// Package config reads the gateway's configuration file.
//
// [Load] and [Parse] turn YAML into a [Config]: strictly, so that a key that is
// misspelt is an error and not a setting that silently does nothing, with ${NAME}
// replaced from the environment, ${file:/path} from a file, and with defaults
// filled in. What is wrong is reported all at once, each problem with its place and
// a way out ([Error]).
//
// The package describes a gateway and builds none; package standard does that.
// The meaning of a key does not change between versions: what a build
// lacks, such as a protocol, is refused with "not in this build", never ignored.
package config

import "time"

// DefaultListen is where the gateway listens if nothing else is said: this
// machine only.
const DefaultListen = "127.0.0.1:4100"

// A Config describes a gateway. Start from [Default], or get one from [Load] or
// [Parse]. It is a plain value: whoever has it may change it.
//
// The tags of this struct and of those below it are the file's grammar: yaml is
// the key, default what is filled in where a file is silent, min the smallest
// number, and reload:"no" marks what only a restart changes. docs/config.md and
// schema.json are made from them and from the comments, which therefore speak to
// whoever writes a file.
type Config struct {
	// Listen is the address to serve on, host:port. Beyond loopback there must be
	// keys under auth.
	Listen string `yaml:"listen" default:"127.0.0.1:4100" reload:"no"`
	// Admin is a second address, for those who look after the gateway; see
	// operating.md.
	Admin Admin `yaml:"admin"`
	// Mode is what the gateway does with what it does not know.
	Mode Mode `yaml:"mode" default:"transparent"`
	// Auth says who may call. Without keys everybody may who reaches the address.
	Auth Auth `yaml:"auth"`
	// CORS says which pages may use the API from a browser.
	CORS CORS `yaml:"cors"`
	// TrustedProxies are the networks whose X-Forwarded-For is believed, for the
	// client's address in the access log: like 10.0.0.0/8, or a single address.
	TrustedProxies []string `yaml:"trusted_proxies"`
	// Upstreams are the model providers by name: at most 64 letters, digits, dots,
	// dashes and underscores. There must be one.
	Upstreams map[string]Upstream `yaml:"upstreams"`
	// Models are the names that clients use, and who serves them. A name may end
	// in "*" and stands for all that begin so; the longest match wins, and "*" takes
	// the rest. Instead of a mapping there may be the name of an upstream, which gets
	// the model under the same name. Without any, clients can ask for every model
	// that the upstreams list.
	Models map[string]Model `yaml:"models"`
	// Rules send requests to another model than the one that they name, such as
	// those for a chat's title to a cheap one. The first that matches decides; there
	// are at most 100. Answers say the model that the client named, and a key needs to
	// be allowed that one only.
	Rules []Rule `yaml:"rules"`
	// OutputMode is how responses say that tools are to be called, to clients that
	// do not choose with the header x-proxy-output-mode.
	OutputMode OutputMode `yaml:"output_mode" default:"openai-json"`
	// State says what is remembered, and where.
	State State `yaml:"state"`
	// Traces says where traces of requests go. Left out, there are none.
	Traces Traces `yaml:"traces"`
	// Timeouts bound the life of a response. They are written like 90s, 5m or 1h.
	Timeouts Timeouts `yaml:"timeouts"`
	// Tools are what the gateway itself may run: MCP servers and HTTP endpoints.
	Tools Tools `yaml:"tools"`
	// SealKeys seal what clients carry for the gateway (encrypted_content): the
	// current key first, then older ones that still open. Each is 32 bytes in
	// base64, as from openssl rand -base64 32. Without any a key is made up at start,
	// and what was sealed before a restart does not open after it.
	SealKeys []Secret `yaml:"seal_keys"`
}

// Mode is what the gateway does with what it does not know.
type Mode string

// The modes.
const (
	ModeTransparent Mode = "transparent" // it is passed on
	ModeStrict      Mode = "strict"      // paths that are not known are 404; what is not in the published API is stripped, of requests and of answers, and all upstreams are sanitized
)

// Timeouts bound the life of a response. Zero means the default; a file cannot
// say zero.
type Timeouts struct {
	// Hold is how long a stream's headers wait for an upstream to accept.
	Hold time.Duration `yaml:"hold" default:"10s" reload:"no"`
	// FirstEvent is the time until an upstream's first event.
	FirstEvent time.Duration `yaml:"first_event" default:"120s"`
	// Idle is the time between two events of an upstream.
	Idle time.Duration `yaml:"idle" default:"300s"`
	// Total is the time that a response may take.
	Total time.Duration `yaml:"total" default:"1h" reload:"no"`
	// Drain is the time that streams have to finish when the gateway stops.
	Drain time.Duration `yaml:"drain" default:"60s" reload:"no"`
}
