// Package httptool makes a tool of an HTTP endpoint: the model's arguments go into
// the URL and the body, what the endpoint answers is the result.
//
// The host is the operator's to choose, never the model's: a template has no
// arguments in it. Where the endpoint redirects to another host, that host must be
// a public one.
package httptool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/antiphon-dev/antiphon/internal/netguard"
	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/tool"
)

// Options configures [New].
type Options struct {
	// Name, Description and Parameters are what models are told.
	Name, Description string
	Parameters        jsontext.Value
	// URL is where to call. {name} in its path or query stands for the argument of
	// that name. It is required.
	URL string
	// Method is GET, POST, PUT, PATCH or DELETE. "" means GET. Arguments that are not
	// in the URL are added to its query for GET and DELETE, and are members of a JSON
	// body for the others.
	Method string
	// Header is sent with every call.
	Header http.Header
	// Approval, Override and StandsFor are as in [tool.Function].
	Approval, Override bool
	StandsFor          []string
}

// A Tool is a tool that is run by an HTTP endpoint.
type Tool struct {
	tool.Function
	client *http.Client
}

// Close closes idle connections.
func (t *Tool) Close() error {
	t.client.CloseIdleConnections()
	return nil
}

// methods are those that may be used, and whether they have a body.
var methods = map[string]bool{
	http.MethodGet: false, http.MethodDelete: false, http.MethodPost: true, http.MethodPut: true, http.MethodPatch: true,
}

// New returns the tool. It does no I/O.
func New(opts *Options) (*Tool, error) {
	e := &endpoint{method: cmp.Or(strings.ToUpper(opts.Method), http.MethodGet), header: opts.Header}
	hasBody, ok := methods[e.method]
	if !ok {
		return nil, fmt.Errorf("the method %q is not one of GET, POST, PUT, PATCH and DELETE", opts.Method)
	}
	e.hasBody = hasBody
	var err error
	if e.url, err = parseTemplate(opts.URL); err != nil {
		return nil, err
	}
	// The operator chose this address, wherever it is.
	guard, err := netguard.New(&netguard.Options{Allow: []string{netguard.EntryOf(e.url.base)}})
	if err != nil {
		return nil, err
	}
	e.client = guard.Client(&netguard.ClientOptions{MaxBytes: 1 << 30}) // each call has its own bound
	return &Tool{client: e.client, Function: tool.Function{
		Tool:     tool.Tool{Name: opts.Name, Description: opts.Description, Parameters: opts.Parameters, Approval: opts.Approval},
		Override: opts.Override, StandsFor: opts.StandsFor, Run: e.run,
	}}, nil
}

// endpoint is what a tool calls.
type endpoint struct {
	url     *template
	method  string
	hasBody bool
	header  http.Header
	client  *http.Client
}

func (e *endpoint) run(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	req, err := e.request(ctx, c)
	if err != nil {
		return nil, err
	}
	resp, err := e.client.Do(req)
	if err != nil {
		return nil, unreachable(ctx, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(c.MaxBytes)+1))
	switch {
	case err != nil:
		return nil, unreachable(ctx, err)
	case len(body) > c.MaxBytes:
		return nil, tool.TooLarge(c.MaxBytes)
	}
	return result(resp, body)
}

// request makes a request of the model's arguments.
func (e *endpoint) request(ctx context.Context, c *tool.Call) (*http.Request, error) {
	args, err := arguments(c.Arguments)
	if err != nil {
		return nil, err
	}
	u, used, err := e.url.fill(args)
	if err != nil {
		return nil, err
	}
	rest := slices.DeleteFunc(slices.Clone(args), func(a argument) bool { return used[a.name] })
	var body io.Reader
	if e.hasBody {
		body = bytes.NewReader(object(rest))
	} else if err := addQuery(u, rest); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, e.method, u.String(), body)
	if err != nil {
		return nil, errors.New("the arguments make no URL")
	}
	req.Header = e.header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	setDefault(req.Header, "Accept", "application/json, text/*;q=0.9, */*;q=0.1")
	setDefault(req.Header, "User-Agent", "antiphon")
	if e.hasBody {
		setDefault(req.Header, "Content-Type", "application/json")
	}
	return req, nil
}

func setDefault(h http.Header, name, value string) {
	if h.Get(name) == "" {
		h.Set(name, value)
	}
}

// unreachable is what may be said of a failure: nothing of where the endpoint is.
func unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, known := range []error{netguard.ErrAddress, netguard.ErrPort, netguard.ErrScheme, netguard.ErrNotation, netguard.ErrCredentials} {
		if errors.Is(err, known) {
			return errors.New("the endpoint redirected to a place that may not be reached")
		}
	}
	if errors.Is(err, netguard.ErrRedirects) {
		return netguard.ErrRedirects
	}
	return errors.New("the endpoint could not be reached, or did not answer properly")
}

// result makes a result of an answer.
func result(resp *http.Response, body []byte) (*tool.Result, error) {
	media, _, err := mime.ParseMediaType(cmp.Or(resp.Header.Get("Content-Type"), http.DetectContentType(body)))
	if err != nil {
		media = "application/octet-stream"
	}
	failed := resp.StatusCode < 200 || resp.StatusCode > 299
	switch {
	case isText(media):
		text := strings.ToValidUTF8(string(body), "\uFFFD")
		if failed {
			text = strings.TrimSpace(fmt.Sprintf("The endpoint answered %d %s.\n%s", resp.StatusCode, http.StatusText(resp.StatusCode), text))
		}
		return &tool.Result{Content: []responses.Part{&responses.InputText{Text: text}}, IsError: failed}, nil
	case failed:
		return nil, fmt.Errorf("the endpoint answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	case strings.HasPrefix(media, "image/"):
		url := "data:" + media + ";base64," + base64.StdEncoding.EncodeToString(body)
		return &tool.Result{Content: []responses.Part{&responses.InputImage{ImageURL: url}}}, nil
	}
	return nil, fmt.Errorf("the endpoint answered with %s, which is neither text nor an image", media)
}

func isText(media string) bool {
	return strings.HasPrefix(media, "text/") || media == "application/json" || media == "application/xml" ||
		strings.HasSuffix(media, "+json") || strings.HasSuffix(media, "+xml")
}
