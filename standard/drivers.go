package standard

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/internal/seal"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/chat"
	"github.com/antiphon-dev/antiphon/upstream/native"
)

// newDrivers returns the driver of each upstream, for the protocol that the
// survey found.
func newDrivers(c *config.Config, r *Report, opts *Options, sealer upstream.Sealer) (map[string]upstream.Driver, error) {
	drivers := make(map[string]upstream.Driver, len(r.Upstreams))
	for _, u := range r.Upstreams {
		settings := c.Upstreams[u.Name]
		settings.Protocol = u.Protocol
		if settings.State == config.KeptByUpstream && u.Protocol != config.ProtocolResponses {
			return nil, errors.Join(fmt.Errorf("upstream %s: state: upstream needs an upstream that speaks the Responses API, and this one was taken for %s (%s); write protocol: responses if it does",
				u.Name, u.Protocol, u.Why), closeAll(&antiphon.Options{Drivers: drivers}))
		}
		d, err := newDriver(u.Name, settings, opts, sealer)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("upstream %s: %w", u.Name, err), closeAll(&antiphon.Options{Drivers: drivers}))
		}
		drivers[u.Name] = d
		if u.Engine != "" {
			drivers[u.Name] = withWindows(drivers[u.Name], u.Models)
		}
	}
	return drivers, nil
}

// processKey seals where no key is configured. It is made once, so that a reload
// does not break what was sealed before it.
var processKey = sync.OnceValue(func() []byte {
	key := make([]byte, seal.KeySize)
	rand.Read(key) // never fails: crypto/rand aborts the program instead
	return key
})

// newSealer returns what seals encrypted_content.
func newSealer(c *config.Config) (upstream.Sealer, error) {
	if len(c.SealKeys) == 0 {
		return seal.New(processKey())
	}
	var keys [][]byte
	for _, s := range c.SealKeys {
		key, err := config.SealKey(s)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return seal.New(keys...)
}

// newDriver is the switch from a protocol's name to its driver. A protocol
// without compaction of its own gets ours.
func newDriver(name string, u config.Upstream, opts *Options, sealer upstream.Sealer) (upstream.Driver, error) {
	if u.Protocol == config.ProtocolCodex {
		d, err := newCodex(u, opts.Logger)
		if err != nil {
			return nil, err
		}
		return upstream.Compacting(d, sealer), nil
	}
	e, err := endpoint(u, opts.Client)
	if err != nil {
		return nil, err
	}
	if u.Trusted {
		e.Trace = opts.Telemetry.inject()
	}
	skip := u.OnMalformed == config.MalformedSkip
	switch u.Protocol {
	case config.ProtocolResponses:
		return native.New(e, &native.Options{SkipMalformed: skip}), nil
	case config.ProtocolChat:
		return upstream.Compacting(chat.New(e, &chat.Options{Name: name, Sealer: sealer, SkipMalformed: skip}), sealer), nil
	}
	return nil, fmt.Errorf("there is no driver for the protocol %q", u.Protocol)
}

// endpoint says how to reach an upstream.
func endpoint(u config.Upstream, client *http.Client) (upstream.Endpoint, error) {
	base, err := u.Base()
	if err != nil {
		return upstream.Endpoint{}, err
	}
	e := upstream.Endpoint{Base: base, Header: http.Header{}, Client: client}
	for name, value := range u.Headers {
		e.Header.Set(name, value.Reveal())
	}
	var keys []string
	for _, k := range u.Keys() {
		keys = append(keys, k.Reveal())
	}
	header, bare := u.Auth.Header()
	switch {
	case u.Auth == config.AuthClient:
		e.Auth = upstream.ClientAuth()
	case u.Auth == config.AuthNone:
	case bare:
		e.Auth = upstream.HeaderAuth(header, keys...)
		e.Accounts = accounts(u, keys, func(key string) upstream.Auth { return upstream.HeaderAuth(header, key) })
	default:
		e.Auth = upstream.BearerAuth(keys...)
		e.Accounts = accounts(u, keys, func(key string) upstream.Auth { return upstream.BearerAuth(key) })
	}
	return e, nil
}

// accounts are the keys one by one, if it matters which is used.
func accounts(u config.Upstream, keys []string, auth func(key string) upstream.Auth) (list []upstream.Account) {
	if u.State != config.KeptByUpstream || len(keys) < 2 {
		return nil
	}
	for _, key := range keys {
		list = append(list, upstream.NewAccount(key, auth(key)))
	}
	return list
}
