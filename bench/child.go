package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// childFlags is the command line of a server that bench runs as a child of its
// own.
type childFlags struct {
	listen string
	target string
}

// serveChild serves what build returns until ctx ends or the process is killed,
// and returns the exit code.
func serveChild(ctx context.Context, name string, args []string, stderr io.Writer, build func(*childFlags) (http.Handler, error)) int {
	var c childFlags
	flags := flag.NewFlagSet("bench "+name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&c.listen, "listen", "127.0.0.1:0", "loopback `address` to serve on")
	flags.StringVar(&c.target, "target", "", "`URL` to send requests to (proxy)")
	if flags.Parse(args) != nil {
		return 2
	}
	handler, err := build(&c)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 2
	}
	srv := &http.Server{
		Addr: c.listen, Handler: handler, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: log.New(io.Discard, "", 0), // clients that leave are part of the plan
	}
	unhook := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer unhook()
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// newProxy returns the bare proxy: it passes bytes on as they come and looks at
// none of them.
func newProxy(c *childFlags) (http.Handler, error) {
	target, err := url.Parse(c.target)
	if err != nil || target.Host == "" {
		return nil, fmt.Errorf("proxy: --target %q is not a URL", c.target)
	}
	return readBodyFirst(&httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		Transport: &http.Transport{
			MaxIdleConns: 1024, MaxIdleConnsPerHost: 256, // as the gateway has it
			DisableCompression: true,
		},
	}), nil
}

// maxProxied bounds the body of a request that the bare proxy passes on.
const maxProxied = 1 << 20

// readBodyFirst reads a request to its end before h sees it. ReverseProxy alone
// would lose an answer now and then: the server closes the request's body when
// the answer begins, the transport may still be looking for its end, takes the
// error for a failure to send, and cuts the connection that the answer is on.
func readBodyFirst(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		if n := r.ContentLength; n > 0 && n <= maxProxied {
			body.Grow(int(n) + bytes.MinRead) // what ReadFrom wants to have left at the end
		}
		if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxProxied)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(&body)
		h.ServeHTTP(w, r)
	})
}
