package config

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

// State says what is remembered: responses, which later ones go on from, and
// conversations.
type State struct {
	// Store is where: auto, none, memory, redis://… or postgres://…. In memory,
	// which is what auto means, it is bounded, of this process only, and gone when it
	// ends. With none, requests that need memory are refused. Several PostgreSQL
	// databases, separated by spaces, share the work.
	Store StoreURL `yaml:"store" default:"auto" reload:"no"`
	// Events is where the events of responses are kept; store is with them.
	Events StoreURL `yaml:"events" default:"store" reload:"no"`
	// Retention is how long a response is kept, like 30d or 12h.
	Retention time.Duration `yaml:"retention" default:"30d" reload:"no"`
}

// A StoreURL names a store: by a word, or by the URL of a server. Several servers
// that share the work, which PostgreSQL can, are separated by spaces. It may hold
// passwords, which are not shown.
type StoreURL string

// The stores that are not servers.
const (
	StoreAuto   StoreURL = "auto"
	StoreNone   StoreURL = "none"
	StoreMemory StoreURL = "memory"
	// EventsInStore keeps events where responses are.
	EventsInStore StoreURL = "store"
)

// String returns it with a placeholder for each password.
func (s StoreURL) String() string {
	parts := strings.Fields(string(s))
	for i, part := range parts {
		u, err := url.Parse(part)
		if err != nil {
			parts[i] = redacted
			continue
		}
		parts[i] = u.Redacted()
	}
	return strings.Join(parts, " ")
}

// GoString returns the same, for %#v.
func (s StoreURL) GoString() string { return s.String() }

// MarshalText returns the same, for encoders.
func (s StoreURL) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// URLs returns the servers' URLs, with their passwords.
func (s StoreURL) URLs() []string { return strings.Fields(string(s)) }

// Engine is the kind of store: one of the words above, postgres or redis, "" for
// what is none.
func (s StoreURL) Engine() string {
	engines := map[string]bool{}
	for _, part := range s.URLs() {
		engines[engineOf(part)] = true
	}
	if len(engines) != 1 {
		return ""
	}
	return slices.Collect(maps.Keys(engines))[0]
}

func engineOf(s string) string {
	switch s := StoreURL(s); s {
	case StoreAuto, StoreNone, StoreMemory:
		return string(s)
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" && u.RawQuery == "" {
		return ""
	}
	switch u.Scheme {
	case "postgres", "postgresql":
		return "postgres"
	case "redis", "rediss":
		return "redis"
	}
	return ""
}

func (s *State) check(p *problems) {
	switch engine := s.Store.Engine(); {
	case s.Store == "":
	case engine == "":
		p.addf("state.store", "%q is not a store; use auto, none, memory, postgres://user:password@host/database or redis://user:password@host:6379/0", s.Store)
	case engine != "postgres" && len(s.Store.URLs()) > 1:
		p.addf("state.store", "only PostgreSQL can be several; write one of them")
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
