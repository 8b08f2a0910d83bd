// Package standard builds a gateway from a configuration. It is the only place
// that names concrete drivers and stores, so a program that builds its gateway
// itself, with package antiphon, links only what it uses.
//
// [New] asks each upstream what it speaks and offers, within a time limit, and
// serves those that do not answer too. [Discover] finds upstreams for somebody who
// has not named any. [Examine] asks what the models can do.
package standard

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/internal/seal"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/upstream"
	"github.com/antiphon-dev/antiphon/upstream/chat"
	"github.com/antiphon-dev/antiphon/upstream/native"
)

// Options configures [New]. The zero value is usable.
type Options struct {
	// Report is told what was learned of the upstreams, before New returns. It is
	// not called if the configuration is not valid.
	Report func(*Report)
	// Discovered says that nobody chose the upstreams: a model that two of them
	// list then goes to the first by name, and is reported, instead of being an
	// error.
	Discovered bool
	// Known is what was learned of the upstreams before. One that does not answer
	// now, and whose configuration has not changed, is taken for what it was.
	Known *Report
	// ProbeTime bounds the time that New asks upstreams. Zero means 2 s.
	ProbeTime time.Duration
	// Client sends requests to upstreams. Nil means the one of package upstream.
	Client *http.Client
	// Telemetry observes the gateway, if Observer is nil.
	Telemetry *Telemetry
	// Observer and Logger are as in antiphon.Options.
	Observer antiphon.Observer
	Logger   *slog.Logger
}

// New returns the gateway that c describes. Upstreams that do not answer are no
// error: they are reported, and served as the configuration says. The caller
// closes the gateway. An error is a [*config.Error] if c is not valid.
func New(ctx context.Context, c *config.Config, opts *Options) (*antiphon.Gateway, error) {
	if opts == nil {
		opts = &Options{}
	}
	o, err := assemble(ctx, c, opts)
	if err != nil {
		return nil, err
	}
	if o.Store, err = newStore(ctx, c, o.Logger); err != nil {
		return nil, errors.Join(fmt.Errorf("state.store: %w", err), closeAll(o))
	}
	g, err := opts.Telemetry.watch(o)
	if err != nil && o.Store != nil {
		err = errors.Join(err, o.Store.Close())
	}
	return g, err
}

// Reload makes c what new requests to g get; see [antiphon.Gateway.Reload]. If c
// is not valid, or ctx ends, nothing changes.
func Reload(ctx context.Context, g *antiphon.Gateway, c *config.Config, opts *Options) error {
	o, err := assemble(ctx, c, opts)
	if err != nil {
		return err
	}
	if ctx.Err() != nil { // what was not learned in time would look like it is not there
		return errors.Join(context.Cause(ctx), closeAll(o))
	}
	if err := g.Reload(o); err != nil {
		return errors.Join(err, closeAll(o))
	}
	return nil
}

// closeAll closes what no gateway took over.
func closeAll(o *antiphon.Options) error {
	err := closeTools(o.Tools)
	for _, d := range o.Drivers {
		err = errors.Join(err, d.Close())
	}
	return err
}

// assemble makes what c describes, asking the upstreams.
func assemble(ctx context.Context, c *config.Config, opts *Options) (*antiphon.Options, error) {
	if opts == nil {
		opts = &Options{}
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := surveyor{client: opts.Client, time: opts.ProbeTime}
	report := &Report{Upstreams: s.survey(ctx, c)}
	report.remember(opts.Known)
	models, err := report.targets(c, opts.Discovered)
	if opts.Report != nil {
		opts.Report(report)
	}
	if err != nil {
		return nil, err
	}
	keys, err := keysOf(c)
	if err != nil {
		return nil, err
	}
	sealer, err := newSealer(c)
	if err != nil {
		return nil, err
	}
	drivers, err := newDrivers(c, report, opts, sealer)
	if err != nil {
		return nil, err
	}
	proxies, err := proxiesOf(c)
	if err != nil {
		return nil, err
	}
	tools, err := newTools(c, opts.Logger)
	if err != nil {
		return nil, errors.Join(err, closeAll(&antiphon.Options{Drivers: drivers}))
	}
	return &antiphon.Options{
		Tools:          tools,
		ToolLimits:     toolLimitsOf(c),
		Mode:           antiphon.Mode(c.Mode),
		Drivers:        drivers,
		Upstreams:      upstreamsOf(c),
		Models:         models,
		Rules:          rulesOf(c),
		OutputMode:     antiphon.OutputMode(c.OutputMode),
		Keys:           keys,
		Origins:        c.CORS.Origins,
		TrustedProxies: proxies,
		Log:            memstore.NewWindow(nil),
		State:          antiphon.State{Retention: c.State.Retention},
		Timeouts:       antiphon.Timeouts(c.Timeouts),
		Observer:       opts.Telemetry.observer(opts.Observer),
		Logger:         opts.Logger,
	}, nil
}

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

// modelOf is a model of the configuration as the gateway takes it.
func modelOf(m config.Model) antiphon.Model {
	out := antiphon.Model{Defaults: m.Defaults, Override: m.Override, Drop: m.Drop, ContextWindow: m.Info.ContextWindow}
	for _, t := range m.Pool() {
		weight := t.Weight
		if weight == 0 {
			weight = -1 // in a file 0 means none; there it means the default
		}
		out.Targets = append(out.Targets, antiphon.Target{
			Upstream: t.Upstream, Model: t.Model, Weight: weight, Priority: t.Priority,
			Concurrent: t.Limits.Concurrent, RequestsPerMinute: t.Limits.RequestsPerMinute,
		})
	}
	return out
}

// upstreamsOf is how the gateway is to treat the upstreams.
func upstreamsOf(c *config.Config) map[string]antiphon.Upstream {
	upstreams := map[string]antiphon.Upstream{}
	for name, u := range c.Upstreams {
		upstreams[name] = antiphon.Upstream{NoRelay: !u.Relays(), Sanitize: u.Sanitize, KeepsState: u.State == config.KeptByUpstream}
	}
	return upstreams
}

// rulesOf are the rules of the configuration as the gateway takes them.
func rulesOf(c *config.Config) []antiphon.Rule {
	var rules []antiphon.Rule
	for _, r := range c.Rules {
		rules = append(rules, antiphon.Rule{LastUser: r.Match.LastUser, MaxChars: r.Match.MaxChars, Model: r.Model})
	}
	return rules
}

// keysOf are the keys of the configuration as the gateway takes them.
func keysOf(c *config.Config) ([]antiphon.Key, error) {
	var keys []antiphon.Key
	for _, k := range c.Auth.Keys {
		hash, err := k.Hash()
		if err != nil {
			return nil, fmt.Errorf("auth.keys: %s: %w", k.Name, err)
		}
		keys = append(keys, antiphon.Key{
			Name: k.Name, SHA256: hash, Tenant: k.Tenant, Models: k.Models,
			Limits: antiphon.KeyLimits{
				RequestsPerMinute: int64(k.Limits.RequestsPerMinute), TokensPerMinute: k.Limits.TokensPerMinute, Concurrent: k.Limits.Concurrent,
			},
		})
	}
	return keys, nil
}

// proxiesOf are the trusted proxies of the configuration as the gateway takes them.
func proxiesOf(c *config.Config) ([]netip.Prefix, error) {
	var networks []netip.Prefix
	for _, s := range c.TrustedProxies {
		network, err := config.Proxy(s)
		if err != nil {
			return nil, fmt.Errorf("trusted_proxies: %w", err)
		}
		networks = append(networks, network)
	}
	return networks, nil
}

// A Report is what [New] learned of the upstreams.
type Report struct {
	// Upstreams are in the order of their names.
	Upstreams []Upstream
	// Shadowed are models that several upstreams list and no configuration settles.
	Shadowed []Shadowed
}

// Shadowed is a model that two upstreams list.
type Shadowed struct {
	Model  string
	Serves string // the upstream that gets its requests
	Hidden string // the one that does not
}

// targets returns what the names of models stand for: what c says, or else what
// the upstreams list. Nil means that the only upstream gets every name.
func (r *Report) targets(c *config.Config, firstWins bool) (map[string]antiphon.Model, error) {
	targets := map[string]antiphon.Model{}
	if len(c.Models) > 0 {
		for name, m := range c.Models {
			targets[name] = modelOf(m)
		}
		return targets, nil
	}
	if len(c.Upstreams) == 1 {
		return nil, nil
	}
	for _, u := range r.Upstreams {
		for _, m := range u.Models {
			first, taken := targets[m.ID]
			switch {
			case !taken:
				targets[m.ID] = antiphon.ModelAt(u.Name, m.ID)
			case first.Targets[0].Upstream != u.Name: // otherwise listed twice by the same one
				r.Shadowed = append(r.Shadowed, Shadowed{Model: m.ID, Serves: first.Targets[0].Upstream, Hidden: u.Name})
			}
		}
	}
	if len(r.Shadowed) > 0 && !firstWins {
		s := r.Shadowed[0]
		return nil, fmt.Errorf("%s and %s both list the model %q%s: write a configuration file that says under models who serves it",
			s.Serves, s.Hidden, s.Model, andMore(len(r.Shadowed)-1))
	}
	return targets, nil
}

func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", n)
}

// A Served model is one that clients can ask for.
type Served struct {
	Name string // as clients call it
	// Upstream is who serves it, and Model its name there.
	Upstream *Upstream
	Model    string
	// Window is its context window in tokens, 0 if not known. UpTo says that it may
	// be less; see [Upstream.UpTo].
	Window int64
	UpTo   bool
}

// Served returns the models that clients can ask for, sorted by name, as far as
// they are known.
func (r *Report) Served(c *config.Config) []Served {
	var list []Served
	for name, m := range c.Models {
		for i := range r.Upstreams {
			if u := &r.Upstreams[i]; u.Name == m.Upstream {
				list = append(list, u.served(name, cmp.Or(m.Model, name)))
			}
		}
	}
	if len(c.Models) == 0 {
		taken := map[string]bool{}
		for i := range r.Upstreams {
			u := &r.Upstreams[i]
			for _, m := range u.Models {
				if !taken[m.ID] {
					taken[m.ID] = true
					list = append(list, u.served(m.ID, m.ID))
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b Served) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func (u *Upstream) served(name, model string) Served {
	s := Served{Name: name, Upstream: u, Model: model, UpTo: u.UpTo[model]}
	for _, m := range u.Models {
		if m.ID == model {
			s.Window = m.ContextWindow
		}
	}
	return s
}

// Models returns the names of the models that clients can ask for, sorted.
func (r *Report) Models(c *config.Config) []string {
	var names []string
	for _, s := range r.Served(c) {
		names = append(names, s.Name)
	}
	return names
}
