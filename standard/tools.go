package standard

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/antiphon-dev/antiphon"
	"github.com/antiphon-dev/antiphon/config"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/tool"
	"github.com/antiphon-dev/antiphon/tool/httptool"
	"github.com/antiphon-dev/antiphon/tool/mcptool"
)

// newTools returns what c says that the gateway runs. It reaches no server.
func newTools(c *config.Config, logger *slog.Logger) ([]tool.Executor, error) {
	var list []tool.Executor
	if len(c.Tools.HTTP) > 0 {
		e, err := newHTTPTools(c.Tools.HTTP)
		if err != nil {
			return nil, fmt.Errorf("tools.http: %w", err)
		}
		list = append(list, e)
	}
	if len(c.Tools.MCP) > 0 || c.Tools.Requests.MCP {
		e, err := mcptool.New(mcpOptions(&c.Tools, logger))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("tools: %w", err), closeTools(list))
		}
		list = append(list, e)
	}
	return list, nil
}

func closeTools(list []tool.Executor) (err error) {
	for _, e := range list {
		err = errors.Join(err, e.Close())
	}
	return err
}

// httpTools are functions with connections to close.
type httpTools struct {
	tool.Executor
	tools []*httptool.Tool
}

func newHTTPTools(list []config.HTTPTool) (tool.Executor, error) {
	h := &httpTools{}
	var functions []tool.Function
	for _, t := range list {
		made, err := httptool.New(&httptool.Options{
			Name: t.Name, Description: t.Description, Parameters: t.Parameters, URL: t.URL, Method: t.Method,
			Header: headerOf(t.Headers), Approval: t.Approval != config.ApprovalNever, Override: t.Override, StandsFor: t.StandsFor,
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		h.tools = append(h.tools, made)
		functions = append(functions, made.Function)
	}
	var err error
	h.Executor, err = tool.Functions(functions...)
	return h, err
}

// Close implements [tool.Executor].
func (h *httpTools) Close() error {
	var errs []error
	for _, t := range h.tools {
		errs = append(errs, t.Close())
	}
	return errors.Join(errs...)
}

func mcpOptions(t *config.Tools, logger *slog.Logger) *mcptool.Options {
	opts := &mcptool.Options{Requests: t.Requests.MCP, Allow: t.Requests.Allow, Logger: logger}
	for _, s := range t.MCP {
		server := mcptool.Server{
			Label: s.Label, Command: s.Command, Env: map[string]string{}, URL: s.URL, Header: headerOf(s.Headers),
			AllowedTools: s.AllowedTools, StandsFor: s.StandsFor, Approval: &responses.MCPApproval{Mode: responses.ApprovalAlways},
		}
		switch {
		case s.Approval == config.ApprovalNever:
			server.Approval.Mode = responses.ApprovalNever
		case len(s.TrustedTools) > 0:
			server.Approval = &responses.MCPApproval{Never: &responses.MCPFilter{ToolNames: s.TrustedTools}}
		}
		for name, value := range s.Env {
			server.Env[name] = value.Reveal()
		}
		opts.Servers = append(opts.Servers, server)
	}
	return opts
}

func headerOf(headers map[string]config.Secret) http.Header {
	h := http.Header{}
	for name, value := range headers {
		h.Set(name, value.Reveal())
	}
	return h
}

func toolLimitsOf(c *config.Config) antiphon.ToolLimits {
	l := c.Tools.Limits
	return antiphon.ToolLimits{
		Rounds: l.Rounds, Calls: l.Calls, Time: l.Time, Tokens: l.Tokens, Parallel: l.Parallel, CallTime: l.CallTime, OutputBytes: l.OutputBytes,
	}
}
