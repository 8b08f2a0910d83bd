package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/standard"
)

// watchTime is how often the configuration file is looked at. Looking is what works
// on every file system, also where a file is replaced by a link.
const watchTime = 500 * time.Millisecond

const (
	// settleTime is how old a file must be for its time and size to tell whether it
	// has changed: time stands still for up to two seconds on some file systems.
	// A younger one is read.
	settleTime = 5 * time.Second
	// rereadTime is how often it is read whatever they tell, for file systems whose
	// clock is wrong.
	rereadTime = 30 * time.Second
)

// reloadProbeTime bounds how long upstreams are asked at a reload: what a file
// takes away, such as a key, must not wait for one that hangs.
const reloadProbeTime = time.Second

// A reloader keeps a running gateway to its configuration file.
type reloader struct {
	p         *program
	flags     *serveFlags
	path      string
	gateway   *antiphon.Gateway
	telemetry *standard.Telemetry
	logger    *slog.Logger
	seen      sight // the file as it was last read; belongs to run

	mu      sync.Mutex // held while a configuration takes over from another
	current *config.Config
	report  *standard.Report // what is known of its upstreams
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

// A sight is what was seen of a file.
type sight struct {
	info os.FileInfo
	sum  [sha256.Size]byte
	at   time.Time
}

// settled reports whether a file that looks like info now is what was seen, so that
// it need not be read: one with many keys is large.
func (s *sight) settled(info os.FileInfo, now time.Time) bool {
	return s.info != nil && os.SameFile(info, s.info) && info.Size() == s.info.Size() && info.ModTime().Equal(s.info.ModTime()) &&
		s.at.Sub(info.ModTime()) > settleTime && now.Sub(s.at) < rereadTime
}

// changed reports whether the file is another than the last time. One that
// cannot be read is being replaced, or gone; either way there is nothing to load.
func (r *reloader) changed() bool {
	now := time.Now()
	info, err := os.Stat(r.path)
	if err != nil || r.seen.settled(info, now) {
		return false
	}
	data, err := os.ReadFile(r.path)
	if err != nil {
		return false
	}
	before := r.seen.sum
	r.seen = sight{info: info, sum: sha256.Sum256(data), at: now}
	return r.seen.sum != before
}

// reload takes the file over as it is now and returns what came of it. It may be
// called several times at once.
func (r *reloader) reload(ctx context.Context) antiphon.Reload {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed, err := r.load(ctx)
	r.telemetry.Reloaded(err == nil)
	if err != nil {
		r.logger.Error("the configuration was not reloaded; the old one stays", "file", r.path, "error", err)
		return antiphon.Reload{Problems: problemsOf(err)}
	}
	r.logger.Info("the configuration was reloaded", "file", r.path, "changed", strings.Join(changed, ", "))
	return antiphon.Reload{Changed: changed}
}

// load is under mu.
func (r *reloader) load(ctx context.Context) (changed []string, err error) {
	s, err := r.p.settings(ctx, r.flags)
	if err != nil {
		return nil, err
	}
	changes := config.Changes(r.current, s.config)
	if err := config.NeedsRestart(r.path, changes); err != nil {
		return nil, err
	}
	report := r.report
	err = standard.Reload(ctx, r.gateway, s.config, &standard.Options{
		Report:    func(found *standard.Report) { report = found },
		Known:     r.report,
		ProbeTime: reloadProbeTime,
		Telemetry: r.telemetry,
		Logger:    r.logger,
	})
	if err != nil {
		return nil, err
	}
	r.current, r.report = s.config, report
	for _, c := range changes {
		changed = append(changed, c.Path)
	}
	return changed, nil
}

// problemsOf is an error in the form in which the admin address tells it.
func problemsOf(err error) []antiphon.Problem {
	invalid, ok := errors.AsType[*config.Error](err)
	if !ok {
		return []antiphon.Problem{{Message: err.Error()}}
	}
	var list []antiphon.Problem
	for _, p := range invalid.Problems {
		list = append(list, antiphon.Problem{Path: p.Path, Line: p.Line, Column: p.Column, Message: p.Text})
	}
	return list
}
