package config

import (
	"net/url"
	"time"
)

// State says what is remembered: responses, which later ones go on from, and
// conversations.
type State struct {
	// Store is where: auto, none, memory, redis://… or postgres://…. In memory,
	// which is what auto means, it is bounded, of this process only, and gone when it
	// ends. With none, requests that need memory are refused.
	Store StoreURL `yaml:"store" default:"auto" reload:"no"`
	// Events is where the events of responses are kept; store is with them.
	Events StoreURL `yaml:"events" default:"store" reload:"no"`
	// Retention is how long a response is kept, like 30d or 12h.
	Retention time.Duration `yaml:"retention" default:"30d" reload:"no"`
}

// A StoreURL names a store. It may hold a password, which is not shown.
type StoreURL string

// The stores that are not servers.
const (
	StoreAuto   StoreURL = "auto"
	StoreNone   StoreURL = "none"
	StoreMemory StoreURL = "memory"
	// EventsInStore keeps events where responses are.
	EventsInStore StoreURL = "store"
)

// String returns the URL with a placeholder for its password.
func (s StoreURL) String() string {
	u, err := url.Parse(string(s))
	if err != nil {
		return redacted
	}
	return u.Redacted()
}

// GoString returns the same, for %#v.
func (s StoreURL) GoString() string { return s.String() }

// MarshalText returns the same, for encoders.
func (s StoreURL) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal returns the URL itself.
func (s StoreURL) Reveal() string { return string(s) }

// Scheme is the kind of store: the URL's scheme, or the word itself.
func (s StoreURL) Scheme() string {
	u, err := url.Parse(string(s))
	switch {
	case err != nil:
		return ""
	case u.Scheme == "":
		return string(s)
	case u.Host == "":
		return ""
	}
	return u.Scheme
}

func (s *State) check(p *problems) {
	switch s.Store.Scheme() {
	case "", "auto", "none", "memory":
		if s.Store != "" && s.Store.Scheme() == "" {
			p.addf("state.store", "is not a store; use auto, none or memory")
		}
	case "redis", "rediss", "postgres", "postgresql":
		p.addf("state.store", "%s is not in this build; use auto, none or memory", s.Store.Scheme())
	default:
		p.addf("state.store", "%q is not a store; use auto, none or memory", s.Store)
	}
	switch s.Events {
	case "", EventsInStore:
	default:
		p.addf("state.events", "another place than the store is not in this build; use store, or remove it")
	}
	if s.Retention < 0 {
		p.addf("state.retention", "%s is shorter than nothing; leave it out for the default", s.Retention)
	} else if s.Retention > 0 && s.Retention < time.Minute {
		p.addf("state.retention", "%s is shorter than a minute; a conversation could not go on", s.Retention)
	}
}
