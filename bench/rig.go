package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

const module = "github.com/antiphon-dev/antiphon"

// A rig starts what a measurement needs. Each measurement gets processes of its
// own, so that none inherits another's memory. It is for one goroutine.
type rig struct {
	small    bool
	progress io.Writer

	self    string // this program
	dir     string // the programs that were built
	running []*process
}

// newRig builds the programs. The caller closes the rig.
func newRig(ctx context.Context, small bool, progress io.Writer) (*rig, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "antiphon-bench-")
	if err != nil {
		return nil, err
	}
	r := &rig{small: small, progress: progress, self: self, dir: dir}
	if err := r.build(ctx); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// build builds the gateway and the fake upstream. It has the flags that go run
// has, so that most of it is in the build cache already.
func (r *rig) build(ctx context.Context) error {
	r.say("building cmd/antiphon and cmd/fakeupstream")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", r.dir+string(filepath.Separator),
		module+"/cmd/antiphon", module+"/cmd/fakeupstream")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// gateway starts antiphon in front of a Chat Completions upstream.
func (r *rig) gateway(ctx context.Context, upstream *process) (*process, error) {
	return r.built(ctx, "antiphon", "serve", "--upstream", upstream.url()+"/v1", "--protocol", "chat", "--log", "off")
}

// relay starts antiphon in front of a Responses upstream.
func (r *rig) relay(ctx context.Context, upstream *process) (*process, error) {
	return r.built(ctx, "antiphon", "serve", "--upstream", upstream.url()+"/v1", "--protocol", "responses", "--log", "off")
}

// fake starts the small model.
func (r *rig) fake(ctx context.Context) (*process, error) { return r.built(ctx, "fakeupstream") }

// proxy starts a bare reverse proxy in front of an upstream.
func (r *rig) proxy(ctx context.Context, upstream *process) (*process, error) {
	return r.start(ctx, "proxy", r.self, "proxy", "--target", upstream.url())
}

// replay starts the server that plays rendered answers.
func (r *rig) replay(ctx context.Context) (*process, error) {
	return r.start(ctx, "replay", r.self, "replay")
}

// replayed starts replay and a gateway in front of it.
func (r *rig) replayed(ctx context.Context) (upstream, gateway *process, err error) {
	if upstream, err = r.replay(ctx); err != nil {
		return nil, nil, err
	}
	gateway, err = r.gateway(ctx, upstream)
	return upstream, gateway, err
}

// built starts one of the programs of this module.
func (r *rig) built(ctx context.Context, name string, args ...string) (*process, error) {
	return r.start(ctx, name, filepath.Join(r.dir, name), args...)
}

func (r *rig) start(ctx context.Context, name, program string, args ...string) (*process, error) {
	p, err := startProcess(ctx, name, program, args...)
	if err != nil {
		return nil, err
	}
	r.running = append(r.running, p)
	return p, nil
}

// stopAll ends every process of the rig and waits for them.
func (r *rig) stopAll() {
	for _, p := range r.running {
		p.stop()
	}
	r.running = nil
}

// close ends everything and removes what was built.
func (r *rig) close() {
	r.stopAll()
	_ = os.RemoveAll(r.dir) // a temporary directory
}

// say tells somebody who waits what is going on.
func (r *rig) say(text string, args ...any) { fmt.Fprintf(r.progress, text+"\n", args...) }

// pick returns the size of something in this run.
func pick[T any](r *rig, full, small T) T {
	if r.small {
		return small
	}
	return full
}
