// Package standard builds a gateway from a configuration. It is the only place
// that names concrete drivers and stores, so a program that builds its gateway
// itself, with package antiphon, links only what it uses.
//
// [New] asks each upstream what it speaks and offers, within a time limit, and
// serves those that do not answer too. [Discover] finds upstreams for somebody who
// has not named any. [Examine] asks what the models can do.
package standard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/store/memstore"
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
	if err == nil {
		return g, nil
	}
	if o.Store != nil {
		err = errors.Join(err, o.Store.Close())
	}
	return nil, errors.Join(err, closeAll(o))
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
	proxies, err := proxiesOf(c)
	if err != nil {
		return nil, err
	}
	drivers, err := newDrivers(c, report, opts, sealer) // from here on there is something to close
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
