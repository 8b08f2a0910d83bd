// Command fakeupstream serves a small deterministic model on a port, in the
// Chat Completions and Responses protocols. It is for trying out the gateway,
// for client tests and for load; package fakeupstream tells how the model
// answers and which faults a prompt can ask for.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
)

// shutdownTime is how long connections get to end after they were cut.
const shutdownTime = time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// settings are the command line.
type settings struct {
	listen string
	model  fakeupstream.ModelOptions
}

// run serves until ctx ends and returns the exit code: 0 then, 2 for a wrong
// command line, 1 if serving fails.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		fmt.Fprintln(stderr, "fakeupstream:", err)
		return 1
	}
	greet(stdout, listener.Addr().String(), s.model.Protocol)
	if err := serve(ctx, listener, fakeupstream.NewModel(&s.model)); err != nil {
		fmt.Fprintln(stderr, "fakeupstream:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (*settings, error) {
	var s settings
	var protocol string
	flags := flag.NewFlagSet("fakeupstream", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.listen, "listen", "127.0.0.1:8000", "`address` to serve on; port 0 takes a free one")
	flags.StringVar(&protocol, "protocol", "both", "paths to serve: chat, responses or both")
	flags.DurationVar(&s.model.Delay, "delay", 0, "time between two tokens")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	protocols := map[string]fakeupstream.Protocol{
		"chat":      fakeupstream.Chat,
		"responses": fakeupstream.Responses,
		"both":      fakeupstream.Chat | fakeupstream.Responses,
	}
	s.model.Protocol = protocols[protocol]
	var err error
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case s.model.Protocol == 0:
		err = fmt.Errorf("protocol %q is none of chat, responses, both", protocol)
	case s.model.Delay < 0:
		err = fmt.Errorf("delay %v is negative", s.model.Delay)
	}
	if err != nil {
		fmt.Fprintln(stderr, "fakeupstream:", err)
	}
	return &s, err
}

// greet prints the address and a line to try it with.
func greet(w io.Writer, address string, protocol fakeupstream.Protocol) {
	path, body := "/v1/responses", `{"model":"tiny","input":"Hello"}`
	if protocol&fakeupstream.Chat != 0 {
		path, body = "/v1/chat/completions", `{"model":"tiny","messages":[{"role":"user","content":"Hello"}]}`
	}
	fmt.Fprintf(w, "fakeupstream listens on http://%s\n", address)
	fmt.Fprintf(w, "curl http://%s%s -H 'Content-Type: application/json' -d '%s'\n", address, path, body)
}

// serve answers on listener until ctx ends, then cuts what is still under way.
func serve(ctx context.Context, listener net.Listener, model *fakeupstream.Model) error {
	fake := fakeupstream.NewServer(model.Answer)
	web := &http.Server{Handler: fake, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	fake.Close()
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if web.Shutdown(deadline) != nil {
		// A connection that is stuck in a write to a client that does not read.
		_ = web.Close()
	}
	<-failed
	return nil
}
