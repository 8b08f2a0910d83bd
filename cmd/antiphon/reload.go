package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/standard"
)

// watchTime is how often the configuration file is looked at. Reading it is what
// works on every file system, also where a file is replaced by a link.
const watchTime = time.Second

// A reloader keeps a running gateway to its configuration file.
type reloader struct {
	p       *program
	flags   *serveFlags
	path    string
	first   *config.Config // what the gateway was started with
	gateway *antiphon.Gateway
	logger  *slog.Logger
	seen    [sha256.Size]byte // the file as it was last looked at
}

// run reloads on SIGHUP and when the file has changed, until ctx ends. A file
// that is not valid changes nothing: the log says why.
func (r *reloader) run(ctx context.Context) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	tick := time.NewTicker(watchTime)
	defer tick.Stop()
	r.changed()
	for {
		select {
		case <-hangup:
			r.changed() // what is there now is what is being read
			r.reload(ctx)
		case <-tick.C:
			if r.changed() {
				r.reload(ctx)
			}
		case <-ctx.Done():
			return
		}
	}
}

// changed reports whether the file is another than the last time. One that
// cannot be read is being replaced, or gone; either way there is nothing to load.
func (r *reloader) changed() bool {
	data, err := os.ReadFile(r.path)
	if err != nil {
		return false
	}
	sum := sha256.Sum256(data)
	changed := sum != r.seen
	r.seen = sum
	return changed
}

func (r *reloader) reload(ctx context.Context) {
	if err := r.load(ctx); err != nil {
		r.logger.Error("the configuration was not reloaded; the old one stays", "file", r.path, "error", err)
		return
	}
	r.logger.Info("the configuration was reloaded", "file", r.path)
}

func (r *reloader) load(ctx context.Context) error {
	s, err := r.p.settings(ctx, r.flags)
	if err != nil {
		return err
	}
	if err := needsRestart(r.first, s.config); err != nil {
		return err
	}
	return standard.Reload(ctx, r.gateway, s.config, &standard.Options{Logger: r.logger})
}

// needsRestart refuses a change of what cannot change while the gateway runs.
func needsRestart(old, next *config.Config) error {
	var changed []string
	for _, setting := range []struct {
		name      string
		old, next any
	}{
		{"listen", old.Listen, next.Listen},
		{"timeouts.hold", old.Timeouts.Hold, next.Timeouts.Hold},
		{"timeouts.total", old.Timeouts.Total, next.Timeouts.Total},
		{"timeouts.drain", old.Timeouts.Drain, next.Timeouts.Drain},
	} {
		if setting.old != setting.next {
			changed = append(changed, fmt.Sprintf("%s (from %v to %v)", setting.name, setting.old, setting.next))
		}
	}
	if changed == nil {
		return nil
	}
	return fmt.Errorf("this needs a restart: %s; the rest was not taken over either", strings.Join(changed, ", "))
}
