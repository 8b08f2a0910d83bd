package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/standard"
)

// A codexGateway is the gateway that Codex is pointed at.
type codexGateway struct {
	base    string        // such as http://127.0.0.1:4100/v1
	models  []listedModel // as it lists them
	catalog []byte        // the same in Codex's own form; nil if Codex knows better
	notes   []string
	stop    func() error // ends it, if it is ours, and waits for that

	// What is known of our own gateway; nil for another's.
	config *config.Config
	report *standard.Report
}

// listedModel is a model as GET /v1/models shows it.
type listedModel struct {
	ID            string `json:"id"`
	ContextWindow int64  `json:"context_window"`
}

// gatewayFor returns the gateway that serves here already, or a new one. A named
// --upstream always gets a new one: another gateway does not know it.
func (p *program) gatewayFor(ctx context.Context, f *launchFlags, home string) (*codexGateway, error) {
	path, pathFrom := p.flagOrEnv(f.config, "--config", "ANTIPHON_CONFIG")
	if err := p.checkFlags(&f.serveFlags, path, pathFrom); err != nil {
		return nil, err
	}
	var g *codexGateway
	if len(f.upstreams) == 0 {
		address, err := p.listenAddress(path)
		if err != nil {
			return nil, err
		}
		if isGateway(ctx, address) {
			g = &codexGateway{base: "http://" + address + "/v1", stop: func() error { return nil }}
			g.notes = append(g.notes, "using the gateway that serves at "+address)
		}
	}
	if g == nil {
		var err error
		if g, err = p.startGateway(ctx, f, filepath.Join(home, "gateway.log")); err != nil {
			return nil, err
		}
	}
	g.list(ctx)
	return g, nil
}

// listenAddress is where a gateway with these settings would serve.
func (p *program) listenAddress(path string) (string, error) {
	listen := p.env("ANTIPHON_LISTEN")
	if listen == "" && path != "" {
		c, err := loadConfig(path)
		if err != nil {
			return "", err
		}
		listen = c.Listen
	}
	return cmp.Or(listen, config.DefaultListen), nil
}

// startGateway serves on a port that nobody else knows: several launches do not
// depend on each other.
func (p *program) startGateway(ctx context.Context, f *launchFlags, logPath string) (*codexGateway, error) {
	s, err := p.settings(ctx, &f.serveFlags)
	if err != nil {
		return nil, err
	}
	// When the gateway stops Codex has ended, and nobody waits for an answer.
	s.config.Timeouts.Drain = time.Second
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	gateway, report, err := build(ctx, s, nil, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, gateway.Close(), log.Close())
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(gateway.Serve(serving, l), gateway.Close(), log.Close()) }()
	g := &codexGateway{base: "http://" + l.Addr().String() + "/v1", config: s.config, report: report}
	g.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	g.notes = append(g.notes, fmt.Sprintf("serving at %s; the log is in %s", l.Addr(), logPath))
	return g, nil
}

// isGateway reports whether a gateway of this kind answers at the address. Anything
// may listen there, and it would get to read what the user says.
func isGateway(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, body, err := get(ctx, "http://"+address+"/healthz")
	return err == nil && bytes.Contains(body, []byte(`"service":"antiphon"`))
}

// list asks the gateway for its models. If it cannot tell, none are known.
func (g *codexGateway) list(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var list struct {
		Data []listedModel `json:"data"`
	}
	if _, body, err := get(ctx, g.base+"/models"); err == nil && json.Unmarshal(body, &list) == nil {
		g.models = list.Data
	}
	var catalog struct {
		Models []listedModel `json:"models"`
	}
	_, body, err := get(ctx, g.base+"/models?client_version=launch")
	if err == nil && json.Unmarshal(body, &catalog) == nil && len(catalog.Models) > 0 {
		g.catalog = body
	}
}

// maxAnswer bounds what is read of an answer.
const maxAnswer = 16 << 20

// direct is a client that asks no proxy: what it talks to is on this machine.
var direct = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// get fetches a URL. A status other than 200 is an error.
func get(ctx context.Context, url string) (http.Header, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	resp, err := direct.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, nil, errors.New(resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp.Header, body, err
}
