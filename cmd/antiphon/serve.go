package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/standard"
)

func (p *program) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the Responses API",
		Long: `Serve the Responses API in front of model servers.

Without --config and --upstream it looks for model servers on this machine
(Ollama, vLLM, llama.cpp, LM Studio) and for OPENAI_API_KEY in the environment.

A configuration file is read again when it changes, on SIGHUP, and on a POST to
/admin/reload if it has an admin address; responses that are running are not
disturbed, and a file that is not valid changes nothing.

ANTIPHON_KEY is the key that clients must send, where no file lists keys.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.serve(cmd.Context(), &f) },
	}
	f.register(cmd)
	return cmd
}

// serve runs the gateway until a signal comes. The first lets open responses
// finish; a second one finds the signals' default behaviour restored, which is to
// end the process at once.
func (p *program) serve(ctx context.Context, f *serveFlags) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer p.raiseHeapFloor()()
	logger, err := p.logger(f.log, f.logLevel)
	if err != nil {
		return err
	}
	s, err := p.settings(ctx, f)
	if err != nil {
		return err
	}
	l, err := listen(s.config.Listen, "--listen")
	if err != nil {
		return err
	}
	defer l.Close()
	var telemetry *standard.Telemetry
	if s.config.Admin.Listen != "" || s.config.Traces.Endpoint != "" {
		if telemetry, err = standard.NewTelemetry(s.config, currentVersion()); err != nil {
			return err
		}
		defer closeTelemetry(telemetry, logger)
	}
	gateway, report, err := build(ctx, s, telemetry, logger)
	if err != nil {
		return err
	}
	r := &reloader{p: p, flags: f, path: s.path, gateway: gateway, telemetry: telemetry, logger: logger, current: s.config, report: report}
	a := announcement{settings: s, report: report, address: l.Addr().String()}
	if s.config.Admin.Listen != "" {
		stopAdmin, address, err := serveAdmin(ctx, &s.config.Admin, r)
		if err != nil {
			return errors.Join(err, gateway.Close())
		}
		defer stopAdmin()
		a.admin = address
	}
	if f.log == logJSON {
		a.log(logger)
	} else {
		a.print(p.stderr)
	}
	if s.path != "" {
		var watching sync.WaitGroup
		watching.Go(func() { r.run(ctx) })
		defer watching.Wait()
	}
	defer context.AfterFunc(ctx, func() {
		stop()
		logger.Info("stopping: open responses may finish, a second signal ends them", "drain", s.config.Timeouts.Drain.String())
	})()
	return errors.Join(gateway.Serve(ctx, l), gateway.Close())
}

// closeTelemetry sends what is left of the traces, if somebody takes it soon.
func closeTelemetry(t *standard.Telemetry, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := t.Close(ctx); err != nil {
		logger.Warn("the last traces were not sent; look at traces.endpoint in the configuration file", "error", err)
	}
}

func build(ctx context.Context, s *settings, telemetry *standard.Telemetry, logger *slog.Logger) (g *antiphon.Gateway, report *standard.Report, err error) {
	g, err = standard.New(ctx, s.config, &standard.Options{
		Telemetry:  telemetry,
		Report:     func(r *standard.Report) { report = r },
		Discovered: s.discovered != nil,
		Logger:     logger,
	})
	return g, report, err
}

// listen listens; setting is what says where.
func listen(addr, setting string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("another program listens on %s already; choose another address with %s", addr, setting)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", addr, err)
	}
	return l, nil
}
