// Command embed is a program with a Responses API inside: the gateway is mounted
// beside the program's own pages, asks the program who is calling, answers from a
// driver that the program wrote itself, and runs a tool of the program.
//
//	go run ./examples/embed
//
// It prints requests to try. docs/embedding.md explains the parts.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/store/memstore"
	"github.com/antiphon-dev/antiphon/tool"
	"github.com/antiphon-dev/antiphon/upstream"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, "127.0.0.1:4180"); err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
}

// run serves on addr until ctx ends.
func run(ctx context.Context, addr string) error {
	users := newUsers()
	tools, err := tool.Functions(users.roster())
	if err != nil {
		return err
	}
	gw, err := antiphon.New(&antiphon.Options{
		Drivers:      map[string]upstream.Driver{"shout": shout{pause: 100 * time.Millisecond}},
		Models:       map[string]antiphon.Model{"shout": antiphon.ModelAt("shout", "")},
		Authenticate: users.authenticate,
		Tools:        []tool.Executor{tools},
		Log:          memstore.NewWindow(nil),
	})
	if err != nil {
		return err
	}
	defer gw.Close()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	for _, body := range []string{
		`{"model":"shout","input":"good morning","stream":true}`,
		`{"model":"shout","input":"team-a","stream":true,"tools":[{"type":"function","name":"roster"}]}`,
	} {
		fmt.Printf("curl -N http://%s/ai/v1/responses -H 'Authorization: Bearer %s' --json '%s'\n", l.Addr(), users.token("ada"), body)
	}
	return serve(ctx, l, newMux(gw))
}

// newMux puts the API under /ai, so that the base URL of clients is /ai/v1.
func newMux(gw *antiphon.Gateway) *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/ai/", http.StripPrefix("/ai", gw.Handler()))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "The program's own page. Its API is under /ai/v1.")
	})
	return mux
}

// serve serves on l until ctx ends, and then lets streams finish for a while.
func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	linger, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := srv.Shutdown(linger)
	if err != nil {
		err = errors.Join(err, srv.Close())
	}
	<-failed
	return err
}

// newUsers returns users whose tokens are good for this run of the program.
func newUsers() *users {
	u := &users{secret: make([]byte, 32), tenants: map[string]string{"ada": "team-a", "bob": "team-b"}}
	_, _ = rand.Read(u.secret) // never fails: see its documentation
	return u
}
