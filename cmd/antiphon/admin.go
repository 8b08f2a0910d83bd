package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/config"
)

// serveAdmin serves the admin address until stop is called, which is after the
// last response has ended: until then it says that the gateway is not ready.
func serveAdmin(ctx context.Context, c *config.Admin, r *reloader) (stop func(), address string, err error) {
	l, err := listen(c.Listen, "admin.listen in the configuration file")
	if err != nil {
		return nil, "", err
	}
	opts := &antiphon.AdminOptions{
		Key: c.Key.Reveal(),
		// The process ends a reload, a client that leaves does not.
		Reload: func(context.Context) antiphon.Reload { return r.reload(ctx) },
		Mount:  map[string]http.Handler{"GET /metrics": r.telemetry.Handler()},
	}
	if c.PProf {
		mountProfiles(opts.Mount)
	}
	srv := &http.Server{
		Handler:           r.gateway.Admin(opts),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(r.logger.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	return func() {
		_ = srv.Close() // only reports that the listener was closed
		<-ended
	}, l.Addr().String(), nil
}

// mountProfiles adds Go's profiles.
func mountProfiles(mount map[string]http.Handler) {
	for pattern, h := range map[string]http.HandlerFunc{
		"GET /debug/pprof/": pprof.Index, "GET /debug/pprof/cmdline": pprof.Cmdline, "GET /debug/pprof/profile": pprof.Profile,
		"GET /debug/pprof/symbol": pprof.Symbol, "GET /debug/pprof/trace": pprof.Trace,
	} {
		mount[pattern] = h
	}
}
