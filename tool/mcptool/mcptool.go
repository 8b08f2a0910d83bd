// Package mcptool runs the tools of MCP servers: those that the operator names,
// which are commands that speak over their standard input and output or servers
// that speak over HTTP, and, where the operator allows it, servers that a request
// names by its URL.
//
// Sessions are kept for as long as they are used, one for each owner and server: no
// owner ever speaks in another one's session. Lists of tools are kept for a while.
//
// A command runs without a shell, with only the variables of the environment that
// are listed here or in its configuration, and is ended together with all that it
// started. A URL that a client chose is dialled through a guard (see package
// netguard).
package mcptool

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/antiphon-dev/antiphon/internal/netguard"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/tool"
)

// A Server is an MCP server that the operator names. It has a command or a URL.
type Server struct {
	// Label is what requests call it.
	Label string
	// Command is a program and its arguments.
	Command []string
	// Env is added to the environment of the command, which otherwise has only PATH,
	// HOME and what tells language, time zone and temporary files.
	Env map[string]string
	// URL is where a server speaks streamable HTTP, and Header what it is sent with
	// every request.
	URL    string
	Header http.Header
	// AllowedTools are the tools that may be used. Nil means all.
	AllowedTools []string
	// Approval says which calls need the client's approval. A request may ask for
	// more. Nil means that all do.
	Approval *responses.MCPApproval
	// StandsFor are types of tools, such as file_search, in place of which the
	// server's tools are used.
	StandsFor []string
}

// Options configures [New].
type Options struct {
	Servers []Server
	// Requests lets requests name servers by URL.
	Requests bool
	// Allow are the addresses that such a URL may have although they are not public;
	// see netguard.Options.
	Allow []string
	// ListTime is how long a list of tools is kept. Zero means 5 min.
	ListTime time.Duration
	// IdleTime is how long a session is kept that nobody uses. Zero means 5 min.
	IdleTime time.Duration
	// MaxSessions bounds how many sessions there are. Zero means 256.
	MaxSessions int
	// MaxMessage bounds one message of a server, in bytes. Zero means 16 MiB.
	MaxMessage int
	// Logger is told of commands that end on their own. Nil means slog.Default.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	setDefault(&o.ListTime, 5*time.Minute)
	setDefault(&o.IdleTime, 5*time.Minute)
	setDefault(&o.MaxSessions, 256)
	setDefault(&o.MaxMessage, 16<<20)
	setDefault(&o.Logger, slog.Default())
	return o
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// An Executor runs the tools of MCP servers.
type Executor struct {
	opts    Options
	byLabel map[string]*source
	byType  map[string]*source
	guard   *netguard.Guard // of servers that requests name
	pool    *pool
}

var _ tool.Executor = (*Executor)(nil)

// A source is a server and how to reach it.
type source struct {
	Server
	key    string // tells sources apart in the pool, together with the owner
	client *http.Client
}

// New returns an executor. It reaches no server before a request needs one.
func New(opts *Options) (*Executor, error) {
	e := &Executor{opts: opts.withDefaults(), byLabel: map[string]*source{}, byType: map[string]*source{}}
	e.pool = newPool(&e.opts)
	for _, s := range opts.Servers {
		if err := e.add(s); err != nil {
			return nil, fmt.Errorf("MCP server %q: %w", s.Label, err)
		}
	}
	var err error
	e.guard, err = netguard.New(&netguard.Options{Allow: opts.Allow})
	return e, err
}

func (e *Executor) add(s Server) error {
	src := &source{Server: s, key: "label " + s.Label}
	switch {
	case e.byLabel[s.Label] != nil:
		return errors.New("there are two of that label")
	case (len(s.Command) == 0) == (s.URL == ""):
		return errors.New("it needs either a command or a URL")
	case s.URL != "":
		u, err := url.Parse(s.URL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return errors.New("its URL must begin with http:// or https:// and a host")
		}
		// The operator chose this address, wherever it is.
		guard, err := netguard.New(&netguard.Options{Allow: []string{netguard.EntryOf(u)}})
		if err != nil {
			return err
		}
		src.client = e.httpClient(guard, u, s.Header)
	}
	for _, typ := range s.StandsFor {
		if other := e.byType[typ]; other != nil {
			return fmt.Errorf("it stands for %s, as %q does", typ, other.Label)
		}
		e.byType[typ] = src
	}
	e.byLabel[s.Label] = src
	return nil
}

// Runs implements [tool.Executor].
func (e *Executor) Runs(t responses.Tool) bool {
	entry, ok := t.(*responses.MCPTool)
	switch {
	case !ok:
		return e.byType[t.Type()] != nil
	case entry.ServerURL != "":
		return e.opts.Requests
	}
	return e.byLabel[entry.ServerLabel] != nil && !elsewhere(entry)
}

// elsewhere reports whether an entry names a server in a way that only its own
// upstream understands.
func elsewhere(entry *responses.MCPTool) bool {
	for name, v := range responses.Members(entry.Extra) {
		if (name == "connector_id" || name == "tunnel_id") && v.Kind() != 'n' {
			return true
		}
	}
	return false
}

// Open implements [tool.Executor].
func (e *Executor) Open(ctx context.Context, a *tool.Ask) (*tool.Set, error) {
	entry, _ := a.Tool.(*responses.MCPTool)
	src, err := e.source(a, entry)
	if err != nil {
		return nil, err
	}
	set := &tool.Set{Label: src.Label, Listed: true, Run: func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		return e.call(ctx, a.Owner, src, c)
	}}
	listed, err := e.list(ctx, a.Owner, src)
	if err != nil {
		return set, err
	}
	for _, t := range listed {
		if offered, ok := src.offer(t, entry); ok {
			set.Tools = append(set.Tools, offered)
		}
	}
	return set, nil
}

// source finds the server that an entry names.
func (e *Executor) source(a *tool.Ask, entry *responses.MCPTool) (*source, error) {
	switch {
	case entry == nil:
		return e.byType[a.Tool.Type()], nil
	case entry.ServerURL == "":
		return e.byLabel[entry.ServerLabel], nil
	}
	u, err := url.Parse(entry.ServerURL)
	if err == nil {
		err = e.guard.CheckURL(u)
	}
	if err != nil {
		return nil, responses.InvalidParam(responses.CodeInvalidValue, a.Param+".server_url", "The server cannot be used: %s.", guardReason(err))
	}
	header, err := headerOf(a, entry)
	if err != nil {
		return nil, err
	}
	return &source{
		Server: Server{Label: entry.ServerLabel, URL: entry.ServerURL, Approval: &responses.MCPApproval{Mode: responses.ApprovalNever}},
		key:    requestKey(entry.ServerURL, header),
		client: e.httpClient(e.guard, u, header),
	}, nil
}

// guardReason is what a client may read of a refused URL.
func guardReason(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return err.Error()
}

// offer returns a tool of the server as the request and the operator want it, and
// false if one of them does not.
func (s *source) offer(t *mcp.Tool, entry *responses.MCPTool) (tool.Tool, bool) {
	readOnly := t.Annotations != nil && t.Annotations.ReadOnlyHint
	if s.AllowedTools != nil && !slices.Contains(s.AllowedTools, t.Name) {
		return tool.Tool{}, false
	}
	out := tool.Tool{Name: t.Name, Description: t.Description, Approval: s.Approval.Needs(t.Name, readOnly)}
	if entry != nil {
		if entry.AllowedTools != nil && !entry.AllowedTools.Matches(t.Name, readOnly) {
			return tool.Tool{}, false
		}
		if entry.RequireApproval != nil || entry.ServerURL != "" {
			out.Approval = out.Approval || entry.RequireApproval.Needs(t.Name, readOnly)
		}
	}
	var err error
	if out.Parameters, err = json.Marshal(t.InputSchema, json.Deterministic(true)); err != nil || out.Parameters.Kind() != '{' {
		return tool.Tool{}, false // it cannot be called
	}
	if t.Annotations != nil {
		if out.Annotations, err = json.Marshal(t.Annotations); err != nil {
			out.Annotations = nil
		}
	}
	return out, true
}

// Close implements [tool.Executor]. It ends all sessions.
func (e *Executor) Close() error {
	e.pool.close()
	for _, s := range e.byLabel {
		if s.client != nil {
			s.client.CloseIdleConnections()
		}
	}
	return nil
}
