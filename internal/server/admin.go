package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json/v2"
	"net/http"

	"github.com/antiphon-dev/antiphon/responses"
)

// The admin handler is for those who look after the gateway, on a listener of its
// own. It is guarded by a key, or by being within reach of this machine only; in
// the second case a browser is the way in for others, so pages are kept out by
// what browsers say of them, and names that lead here by another's doing by the
// request's Host.

// AdminOptions configures [Server.Admin].
type AdminOptions struct {
	// Key is what a request must show as Authorization: Bearer. "" means nothing:
	// then serve on loopback only.
	Key string
	// Reload reads the configuration again. Nil means that there is none to read.
	// It may be called several times at once, and is not cancelled when a client
	// leaves.
	Reload func(ctx context.Context) Reload
	// Mount adds handlers, such as of metrics, by their patterns for
	// [http.ServeMux]. They are guarded like the rest.
	Mount map[string]http.Handler
}

// Reload is what came of reading the configuration again. With problems nothing
// has changed.
type Reload struct {
	// Changed are the paths of the configuration that are different now.
	Changed []string `json:"changed"`
	// Problems are why it was not taken over.
	Problems []Problem `json:"problems,omitempty"`
}

// A Problem is one thing that is wrong with a configuration.
type Problem struct {
	// Path is the place in the configuration, "" if it is all of it; Line and
	// Column are the place in the file, 0 if not known.
	Path   string `json:"path,omitempty"`
	Line   int    `json:"line,omitzero"`
	Column int    `json:"column,omitzero"`
	// Message says what is wrong and what to do. It holds no secret.
	Message string `json:"message"`
}

type admin struct {
	opts AdminOptions
	key  [sha256.Size]byte
}

// Admin returns the handler for those who look after the gateway: GET /healthz and
// GET /readyz, which need no key, POST /admin/reload, and what is mounted.
func (s *Server) Admin(opts *AdminOptions) http.Handler {
	a := &admin{*opts, sha256.Sum256([]byte(opts.Key))}
	mux := http.NewServeMux()
	handle := func(pattern string, h handlerFunc) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { w.(*exchange).serve(h) })
	}
	handle("GET /healthz", s.healthy)
	handle("GET /readyz", s.ready)
	handle("/", a.guard(a.nothingThere))
	if opts.Reload != nil {
		handle("POST /admin/reload", a.guard(a.reload))
	}
	for pattern, h := range opts.Mount {
		handle(pattern, a.guard(func(x *exchange) error {
			h.ServeHTTP(x, x.r)
			return nil
		}))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := newExchange(s, w, r)
		defer x.finish()
		mux.ServeHTTP(x, r)
	})
}

var (
	errAdminKey  = responses.InvalidParam(responses.CodeInvalidKey, "", "Send the admin key with the header Authorization: Bearer.")
	errAdminPage = responses.InvalidParam(responses.CodeForbidden, "", "Pages in a browser may not use the admin address.")
	errAdminHost = responses.InvalidParam(responses.CodeForbidden, "", "Without admin.key the admin address is used by its number, such as 127.0.0.1, or as localhost.")
)

// guard runs h only for those who may use the admin address.
func (a *admin) guard(h handlerFunc) handlerFunc {
	return func(x *exchange) error {
		if a.opts.Key != "" {
			shown := sha256.Sum256([]byte(presented(x.r.Header)))
			if subtle.ConstantTimeCompare(a.key[:], shown[:]) != 1 {
				return errAdminKey
			}
			return h(x)
		}
		switch site := x.r.Header.Get("Sec-Fetch-Site"); {
		case x.r.Header.Get("Origin") != "" || site != "" && site != "none" && site != "same-origin":
			return errAdminPage
		case !isLoopbackHost(x.r.Host):
			return errAdminHost
		}
		return h(x)
	}
}

// isLoopbackHost reports whether a request's Host is an address of this machine.
func isLoopbackHost(hostport string) bool {
	host := hostOf(hostport)
	addr, ok := parseAddr(host)
	return host == "localhost" || ok && addr.IsLoopback()
}

// nothingThere answers for paths that the admin address does not have.
func (a *admin) nothingThere(x *exchange) error {
	if x.r.URL.Path == "/admin/reload" && a.opts.Reload != nil {
		x.Header().Set("Allow", http.MethodPost)
		return responses.InvalidParam(responses.CodeMethod, "", "%s does not take %s.", x.r.URL.Path, x.r.Method)
	}
	return responses.InvalidParam(responses.CodeNotFound, "", "There is nothing at %s %s.", x.r.Method, x.r.URL.Path)
}

// reload is POST /admin/reload.
func (a *admin) reload(x *exchange) error {
	// What was begun is finished, whoever still waits for it.
	came := a.opts.Reload(context.WithoutCancel(x.r.Context()))
	status := http.StatusOK
	if len(came.Problems) > 0 {
		status, came.Changed = http.StatusUnprocessableEntity, nil
	}
	if came.Changed == nil {
		came.Changed = []string{}
	}
	body, err := json.Marshal(came)
	if err != nil {
		return err
	}
	return x.writeJSON(status, body)
}
