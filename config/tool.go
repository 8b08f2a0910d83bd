package config

import (
	"cmp"
	"encoding/json/jsontext"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Tools are what the gateway itself may run. Nothing is run that is not listed
// here.
type Tools struct {
	// MCP are MCP servers. A request asks for the tools of one with
	// {"type": "mcp", "server_label": LABEL}.
	MCP []MCPServer `yaml:"mcp"`
	// HTTP are HTTP endpoints as tools. A request asks for one with
	// {"type": "function", "name": NAME} and no parameters.
	HTTP []HTTPTool `yaml:"http"`
	// Requests says which servers a request may bring itself.
	Requests ToolRequests `yaml:"requests"`
	// Limits bound what is done for one response.
	Limits ToolLimits `yaml:"limits"`
}

// Approval says whether clients must approve of calls before they are run.
type Approval string

// The ways of approval. Empty means [ApprovalAlways].
const (
	ApprovalAlways Approval = "always" // each call waits for the client's mcp_approval_response
	ApprovalNever  Approval = "never"  // calls are run at once
)

// An MCPServer is a server of tools: a command that is run here, or a URL.
type MCPServer struct {
	// Label is what requests call the server: a letter, then letters, digits, "_"
	// and "-".
	Label string `yaml:"label"`
	// Command is a program and its arguments, run without a shell. It speaks over its
	// standard input and output.
	Command []string `yaml:"command"`
	// Env are variables of the command's environment, besides PATH, HOME, LANG,
	// LC_ALL, TZ and TMPDIR. It gets no others.
	Env map[string]Secret `yaml:"env"`
	// URL is where the server speaks streamable HTTP, instead of a command.
	URL string `yaml:"url"`
	// Headers are sent with every request to the URL.
	Headers map[string]Secret `yaml:"headers"`
	// AllowedTools are the tools that may be used. Left out, all may.
	AllowedTools []string `yaml:"allowed_tools"`
	// Approval is whether clients must approve of calls. A request can ask for more
	// approval with require_approval, not for less.
	Approval Approval `yaml:"approval" default:"always"`
	// TrustedTools need no approval although the others do.
	TrustedTools []string `yaml:"trusted_tools"`
	// StandsFor are types of tools, such as file_search, in place of which the
	// server's tools are used.
	StandsFor []string `yaml:"stands_for"`
}

// An HTTPTool is an HTTP endpoint as a tool.
type HTTPTool struct {
	// Name is what requests and models call the tool: at most 64 letters, digits, "_"
	// and "-".
	Name string `yaml:"name"`
	// Description tells models what the tool is for.
	Description string `yaml:"description"`
	// Parameters is a JSON Schema of the tool's arguments.
	Parameters jsontext.Value `yaml:"parameters"`
	// URL is what is called. {name} in its path or query stands for the argument of
	// that name; its host is fixed.
	URL string `yaml:"url"`
	// Method is GET, POST, PUT, PATCH or DELETE. Arguments that are not in the URL go
	// into its query for GET and DELETE, and into a JSON body for the others.
	Method string `yaml:"method" default:"GET"`
	// Headers are sent with every call.
	Headers map[string]Secret `yaml:"headers"`
	// Approval is whether clients must approve of calls.
	Approval Approval `yaml:"approval" default:"always"`
	// Override takes functions of that name with parameters too, which are otherwise
	// the client's own.
	Override bool `yaml:"override"`
	// StandsFor are types of tools, such as web_search, in place of which the tool is
	// used.
	StandsFor []string `yaml:"stands_for"`
}

// ToolRequests says which servers a request may bring itself.
type ToolRequests struct {
	// MCP lets requests name MCP servers by URL:
	// {"type": "mcp", "server_label": …, "server_url": …}. Only public addresses are
	// reached, and those under allow. Left out, such an entry goes to upstreams that
	// run it themselves, and is refused by name for all others.
	MCP bool `yaml:"mcp"`
	// Allow are addresses that such URLs may have although they are not public: names
	// of hosts, IP addresses and networks, each with a port or not. One without a
	// port is for 80 and 443.
	Allow []string `yaml:"allow"`
}

// ToolLimits bound what is done for one response.
type ToolLimits struct {
	// Rounds is how many times the model is called.
	Rounds int `yaml:"rounds" default:"64" min:"1"`
	// Calls is how many calls are run; a request can lower it with max_tool_calls.
	Calls int `yaml:"calls" default:"256" min:"1"`
	// Time is how long after its begin a response may start another round.
	Time time.Duration `yaml:"time" default:"30m"`
	// Tokens is how many tokens a response may have cost to start another round. Left
	// out, there is no limit.
	Tokens int64 `yaml:"tokens" min:"1"`
	// Parallel is how many calls run at once.
	Parallel int `yaml:"parallel" default:"8" min:"1"`
	// CallTime is how long one call may take.
	CallTime time.Duration `yaml:"call_time" default:"60s"`
	// OutputBytes is how large the result of one call may be.
	OutputBytes int `yaml:"output_bytes" default:"1048576" min:"1"`
}

var (
	serverLabel  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)
	functionName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	toolArgument = regexp.MustCompile(`\{[A-Za-z_][A-Za-z0-9_.-]*\}`)
)

// reservedLabel is the label of tools that are not an MCP server's.
const reservedLabel = "antiphon"

func (t *Tools) check(p *problems) {
	types := map[string]string{}
	for i, s := range t.MCP {
		path := fmt.Sprintf("tools.mcp[%d]", i)
		s.check(p, path)
		if first := slices.IndexFunc(t.MCP, func(o MCPServer) bool { return o.Label == s.Label }); first < i && s.Label != "" {
			p.addf(join(path, "label"), "%q is there twice; give one of them another", s.Label)
		}
		checkStandsFor(p, path, s.StandsFor, types)
	}
	for i, h := range t.HTTP {
		path := fmt.Sprintf("tools.http[%d]", i)
		h.check(p, path)
		if first := slices.IndexFunc(t.HTTP, func(o HTTPTool) bool { return o.Name == h.Name }); first < i && h.Name != "" {
			p.addf(join(path, "name"), "%q is there twice; give one of them another", h.Name)
		}
		checkStandsFor(p, path, h.StandsFor, types)
	}
	if len(t.Requests.Allow) > 0 && !t.Requests.MCP {
		p.addf("tools.requests.allow", "allows addresses for servers that requests may not name; add mcp: true, or remove it")
	}
}

func (s *MCPServer) check(p *problems, path string) {
	switch {
	case s.Label == "":
		p.addf(join(path, "label"), "is missing; write what requests call the server")
	case !serverLabel.MatchString(s.Label):
		p.addf(join(path, "label"), "%q is not a label; use a letter, then at most 63 letters, digits, _ and -", s.Label)
	case s.Label == reservedLabel:
		p.addf(join(path, "label"), "%q is the label of tools that no MCP server has; use another", s.Label)
	}
	switch {
	case len(s.Command) == 0 && s.URL == "":
		p.addf(path, "has neither a command nor a URL; add one of them")
	case len(s.Command) > 0 && s.URL != "":
		p.addf(join(path, "url"), "command is also there; remove one of them")
	case s.URL != "":
		checkToolURL(p, join(path, "url"), s.URL)
	case s.Command[0] == "":
		p.addf(join(path, "command"), "is empty; write a program and its arguments")
	}
	if len(s.Env) > 0 && s.URL != "" {
		p.addf(join(path, "env"), "a URL has no environment; use headers, or remove it")
	}
	if len(s.Headers) > 0 && len(s.Command) > 0 {
		p.addf(join(path, "headers"), "a command gets no headers; use env, or remove them")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if !isVariable(name) {
			p.addf(join(join(path, "env"), name), "is not a name for a variable")
		}
	}
	checkHeaders(p, path, s.Headers)
	s.Approval.check(p, path)
	if len(s.TrustedTools) > 0 && s.Approval == ApprovalNever {
		p.addf(join(path, "trusted_tools"), "approval is never, so all are; remove one of them")
	}
}

func (h *HTTPTool) check(p *problems, path string) {
	switch {
	case h.Name == "":
		p.addf(join(path, "name"), "is missing; write what requests and models call the tool")
	case !functionName.MatchString(h.Name):
		p.addf(join(path, "name"), "%q is not a name for a tool; use at most 64 letters, digits, _ and -", h.Name)
	}
	if k := h.Parameters.Kind(); h.Parameters != nil && k != '{' && k != 'n' {
		p.addf(join(path, "parameters"), "must be a JSON Schema, which is a mapping")
	}
	if !slices.Contains([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}, cmp.Or(h.Method, "GET")) {
		p.addf(join(path, "method"), "%q is not known; use GET, POST, PUT, PATCH or DELETE", h.Method)
	}
	checkToolURL(p, join(path, "url"), h.URL)
	checkHeaders(p, path, h.Headers)
	h.Approval.check(p, path)
}

func (a Approval) check(p *problems, path string) {
	switch a {
	case "", ApprovalAlways, ApprovalNever:
	default:
		p.addf(join(path, "approval"), "%q is not known; use always or never", a)
	}
}

// checkToolURL checks a URL of a tool, which may have places for arguments. It
// never quotes it: it may hold a credential.
func checkToolURL(p *problems, path, s string) {
	scheme, rest, ok := strings.Cut(s, "://")
	host, _, _ := strings.Cut(strings.ReplaceAll(rest, "?", "/"), "/")
	u, err := url.Parse(toolArgument.ReplaceAllString(s, "x"))
	switch {
	case s == "":
		p.addf(path, "is missing; write it like https://tools.example/mcp")
	case !ok || scheme != "http" && scheme != "https":
		p.addf(path, "must begin with http:// or https://")
	case toolArgument.MatchString(host):
		p.addf(path, "its host must not depend on an argument: a model would choose where to call")
	case err != nil || u.Hostname() == "" || strings.ContainsAny(toolArgument.ReplaceAllString(s, ""), "{}"):
		p.addf(path, "is not a URL; write it like https://tools.example/v1?q={city}")
	case u.User != nil:
		p.addf(path, "holds a user name or password; put the credential into headers")
	case u.Fragment != "":
		p.addf(path, "must not have a fragment; remove what follows #")
	}
}

func checkHeaders(p *problems, path string, headers map[string]Secret) {
	for _, h := range slices.Sorted(maps.Keys(headers)) {
		at := join(join(path, "headers"), h)
		if err := checkHeaderName(h); err != nil {
			p.addf(at, "%v", err)
		} else if !isHeaderValue(headers[h].Reveal()) {
			p.addf(at, "%s", unsendable)
		}
	}
}

// checkStandsFor notes which entry stands for which type, and refuses two for one.
func checkStandsFor(p *problems, path string, list []string, taken map[string]string) {
	for i, typ := range list {
		at := fmt.Sprintf("%s[%d]", join(path, "stands_for"), i)
		switch typ {
		case "function", "custom", "namespace", "mcp", "":
			p.addf(at, "%q tools are told apart by name; use the type of a hosted tool, such as web_search", typ)
			continue
		}
		if other, ok := taken[typ]; ok {
			p.addf(at, "%s is what %s stands for; remove one of them", typ, other)
		}
		taken[typ] = path
	}
}
