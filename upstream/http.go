package upstream

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
)

// maxErrorBody bounds what is read of an answer that is an error.
const maxErrorBody = 64 << 10

// An Auth puts the upstream's credential into a request. Client holds the
// forwardable headers of the client's request.
type Auth func(h http.Header, client http.Header)

// BearerAuth sends one of the keys in turn as a bearer token; nothing if there is
// none.
func BearerAuth(keys ...string) Auth { return keyAuth("Authorization", "Bearer ", keys) }

// HeaderAuth sends one of the keys in turn, bare, in the named header.
func HeaderAuth(name string, keys ...string) Auth { return keyAuth(name, "", keys) }

// keyAuth shares the requests between the keys: several stand for one upstream
// because one alone would hit its limits.
func keyAuth(header, prefix string, keys []string) Auth {
	keys = slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return k == "" })
	var next atomic.Uint64
	return func(h, _ http.Header) {
		if len(keys) > 0 {
			h.Set(header, prefix+keys[next.Add(1)%uint64(len(keys))])
		}
	}
}

// ClientAuth forwards the client's own credential: its Authorization, and what
// belongs to it, such as OpenAI-Project, unless the endpoint's own headers say
// otherwise. Without an Authorization none of it is forwarded.
func ClientAuth() Auth {
	return func(h, client http.Header) {
		authorization := client.Get("Authorization")
		if authorization == "" {
			return
		}
		h.Set("Authorization", authorization)
		for name := range client {
			if isCredential(name) && h.Get(name) == "" {
				h.Set(name, client.Get(name))
			}
		}
	}
}

// An Endpoint is an upstream reached by HTTP: the part of a driver that is the
// same for every protocol. It is safe for concurrent use.
type Endpoint struct {
	// Base is the URL below which the protocol's paths are, such as
	// http://127.0.0.1:8000/v1.
	Base *url.URL
	// Auth may be nil: no credential.
	Auth Auth
	// Accounts are the credentials of an upstream that remembers, one by one: what
	// it remembers belongs to one of them. What is relayed then uses them in place of
	// Auth, one at random unless it says which.
	Accounts []Account
	// Header is sent with every request. It wins over the client's.
	Header http.Header
	// ForwardHeaders sends the client's headers too, for an upstream that speaks
	// the protocol that they are part of. Its credential is not among them: that
	// is Auth's to send or not.
	ForwardHeaders bool
	// Trace puts the trace that a request belongs to into its headers, for an
	// upstream that may know of it. Nil means that it may not.
	Trace func(ctx context.Context, h http.Header)
	// Client sends requests. Nil means [NewClient]'s.
	Client *http.Client
}

// NewClient returns an HTTP client for upstreams: no overall time-out (streams
// are long), bounded connects, no redirects (they would carry the credential
// elsewhere), small buffers because most streams are idle most of the time.
func NewClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxIdleConns:           1024,
			MaxIdleConnsPerHost:    256,
			IdleConnTimeout:        90 * time.Second,
			ExpectContinueTimeout:  time.Second,
			ForceAttemptHTTP2:      true,
			ReadBufferSize:         4 << 10,
			WriteBufferSize:        1 << 10, // used once, for the headers
			MaxResponseHeaderBytes: 256 << 10,
			DisableCompression:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

var sharedClient = NewClient()

// Post sends body to the path below the base. Client holds those headers of the
// client that may be forwarded. An answer other than 200 becomes an
// *responses.Error; otherwise the caller closes the response's body.
func (e *Endpoint) Post(ctx context.Context, path string, body []byte, client http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.Base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if e.ForwardHeaders {
		forward(req.Header, client)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream, application/json")
	return e.do(req, client)
}

// Get fetches the path below the base, as Post sends.
func (e *Endpoint) Get(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.Base.JoinPath(path).String(), nil)
	if err != nil {
		return nil, err
	}
	return e.do(req, nil)
}

// send sends a request with what the endpoint adds to it, and returns the answer
// whatever its status.
func (e *Endpoint) send(req *http.Request, client http.Header) (*http.Response, error) {
	maps.Copy(req.Header, e.Header)
	if e.Trace != nil {
		e.Trace(req.Context(), req.Header)
	}
	if e.Auth != nil {
		e.Auth(req.Header, client)
	}
	c := e.Client
	if c == nil {
		c = sharedClient
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, connectError(req.Context(), err)
	}
	if resp.StatusCode < http.StatusOK { // nothing that could be passed on, nor what was asked for
		resp.Body.Close()
		return nil, responses.UpstreamErrorf(responses.CodeUpstream, "The upstream's answer has the status %03d, which is none.", resp.StatusCode)
	}
	e.redactAnswer(resp, req.Header)
	return resp, nil
}

// do sends a request and turns an answer that is not a success into an error.
func (e *Endpoint) do(req *http.Request, client http.Header) (*http.Response, error) {
	resp, err := e.send(req, client)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, AnswerError(resp, client)
	}
	return resp, nil
}

// clientRefused is the refusal of a credential that was the client's own: that is
// the client's to mend, where the gateway's would not be.
func clientRefused(status int, body []byte) error {
	code := map[int]responses.Code{
		http.StatusUnauthorized: responses.CodeInvalidKey,
		http.StatusForbidden:    responses.CodeForbidden,
	}[status]
	if code == "" {
		return nil
	}
	message := parseErrorBody(body).Message
	if message == "" {
		message = "The upstream does not accept this API key."
	}
	return responses.UpstreamErrorf(code, "%s", message).WithCause(&refusedError{status: status})
}

// Streams reports whether resp is an event stream. Some servers answer whole
// although they were asked to stream.
func Streams(resp *http.Response) bool {
	const want = "text/event-stream"
	said := resp.Header.Get("Content-Type")
	if said == want || said == "application/json" { // so most say it
		return said == want
	}
	t, _, _ := mime.ParseMediaType(said)
	return t == want
}

// CheckJSON refuses an answer that says it is something else than JSON, such as
// the HTML page of a proxy.
func CheckJSON(resp *http.Response) error {
	t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if t == "application/json" || t == "" {
		return nil
	}
	return responses.UpstreamErrorf(responses.CodeUpstream, "The upstream answered with %s instead of JSON or an event stream.", t)
}

// connectError classifies the failure to get an answer at all. The URL stays
// private: it may hold a credential.
func connectError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if e, ok := errors.AsType[*responses.Error](err); ok {
		return e // of the body that was being sent
	}
	e := responses.UpstreamErrorf(responses.CodeUpstream, "The upstream could not be reached.")
	err = &unreachableError{err}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return e.WithCause(&notSentError{err})
	}
	return e.WithCause(err)
}

// ErrUnreachable is the cause of errors that say that an upstream gave no answer,
// not even a refusal: it is down, or the way to it is.
var ErrUnreachable = errors.New("upstream: it could not be reached")

// unreachableError marks a failure as ErrUnreachable, and says what it was.
type unreachableError struct{ err error }

func (e *unreachableError) Error() string        { return e.err.Error() }
func (e *unreachableError) Unwrap() error        { return e.err }
func (e *unreachableError) Is(target error) bool { return target == ErrUnreachable }

// notSentError marks a failure before anything reached the upstream.
type notSentError struct{ err error }

func (e *notSentError) Error() string { return e.err.Error() }
func (e *notSentError) Unwrap() error { return e.err }

// Unsent marks err as the failure of a turn of which nothing reached the
// upstream.
func Unsent(err error) error { return &notSentError{err} }

// Refused is the private cause of the failure of a turn that the upstream refused
// with the status, instead of running it.
func Refused(status int) error { return &refusedError{status: status} }

// SafeToRetry reports whether the turn that failed with err can be run again
// without being run twice: nothing was sent, or the upstream refused it.
func SafeToRetry(err error) bool {
	if _, ok := errors.AsType[*notSentError](err); ok {
		return true
	}
	_, ok := errors.AsType[*refusedError](err)
	return ok
}

// refusedError marks an HTTP status of the upstream. What it said of it is there if
// clients are not to read it.
type refusedError struct {
	status int
	word   string // the upstream's own code
	said   string
}

func (e *refusedError) Error() string {
	if e.said == "" {
		return fmt.Sprintf("upstream status %d", e.status)
	}
	return fmt.Sprintf("upstream status %d: %s", e.status, excerpt([]byte(e.said)))
}

// Is reports that the status is about the gateway's account, or the code about
// encrypted content.
func (e *refusedError) Is(target error) bool {
	return target == ErrAccount && accountTrouble(e.status, "", "") || target == ErrSealed && e.word == "invalid_encrypted_content"
}

// ErrSealed is the cause of errors that say that an upstream cannot open encrypted
// content: another one made it.
var ErrSealed = errors.New("upstream: encrypted content of another upstream was refused")

// ReadFailure classifies an error while reading an answer that had begun.
func ReadFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return responses.UpstreamErrorf(responses.CodeUpstream, "The upstream's answer broke off.").WithCause(err)
}

// Malformed returns the failure of a frame that cannot be understood. The frame
// is quoted, shortened, so that the operator can see what came.
func Malformed(frame []byte, err error) error {
	return responses.UpstreamErrorf(responses.CodeUpstream, "The upstream sent a frame that is not valid: %s", excerpt(frame)).WithCause(fmt.Errorf("%w: %w", ErrGrammar, err))
}

func excerpt(b []byte) string {
	const most = 120
	if len(b) > most {
		return fmt.Sprintf("%q… (%d bytes)", b[:most], len(b))
	}
	return fmt.Sprintf("%q", b)
}

// errorDetail is what the servers of our field put into an error body.
type errorDetail struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    any    `json:"code"`
	Param   any    `json:"param"`
}

// StatusError turns an HTTP error of an upstream into ours. Nobody reads the
// credential that was sent, should the body quote it.
func StatusError(resp *http.Response, body []byte) error {
	detail := parseErrorBody(redact(body, resp.Request))
	err := WireError(resp.StatusCode, detail.Type, codeWord(detail.Code), detail.Message)
	if p, ok := detail.Param.(string); ok && err.Code.Status() == http.StatusBadRequest {
		err.Param = p
	}
	err.RetryAfter = retryAfter(resp.Header.Get("Retry-After"))
	cause := &refusedError{status: resp.StatusCode, word: codeWord(detail.Code)}
	if err.Message != detail.Message {
		cause.said = detail.Message
	}
	return err.WithCause(cause)
}

// parseErrorBody reads {"error":{…}}, {"error":"…"}, {"message":…}, {"detail":…}.
func parseErrorBody(body []byte) errorDetail {
	var nested struct {
		Error errorDetail `json:"error"`
	}
	if json.Unmarshal(body, &nested) == nil && nested.Error != (errorDetail{}) {
		return nested.Error
	}
	var flat struct {
		errorDetail
		Error  string `json:"error"`
		Detail string `json:"detail"`
	}
	if json.Unmarshal(body, &flat) == nil {
		for _, m := range []string{flat.Message, flat.Error, flat.Detail} {
			if m != "" {
				flat.errorDetail.Message = m
				break
			}
		}
	}
	return flat.errorDetail
}

// codeWord is the code if it is a word; some servers put the HTTP status there.
func codeWord(v any) string {
	s, _ := v.(string)
	return s
}

// WireError classifies what an upstream said of its own failure, in an HTTP
// error (status) or inside a stream (status 0). Its message is passed on, unless
// it is about the account: that is the gateway's, not the client's.
func WireError(status int, typ, code, message string) *responses.Error {
	c := classify(status, typ, code)
	private := status >= 400 && status < 500 || accountTrouble(status, typ, code)
	switch {
	case c == responses.CodeUpstream && private && status == 0:
		message = "The upstream refused the gateway's request."
	case c == responses.CodeUpstream && private:
		message = fmt.Sprintf("The upstream refused the gateway's request (status %d).", status)
	case message == "" && status == 0:
		message = "The upstream failed without saying why."
	case message == "":
		message = fmt.Sprintf("The upstream answered with status %d.", status)
	}
	return responses.UpstreamErrorf(c, "%s", message)
}

// ErrAccount is the cause of errors that say that an upstream does not know the
// gateway's credential, does not let it, or wants to be paid.
var ErrAccount = errors.New("upstream: the gateway's account was refused")

// accountTrouble reports whether the upstream does not know the gateway, does not
// let it, or wants to be paid. Not every upstream has a status for it, and a
// stream has none.
func accountTrouble(status int, typ, code string) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden:
		return true
	}
	switch typ {
	case "authentication_error", "permission_error", "billing_error":
		return true
	}
	switch code {
	case "invalid_api_key", "account_deactivated", "billing_hard_limit_reached", "billing_not_active":
		return true
	}
	return false
}

// classify finds our code: by the upstream's own word where it is one of ours,
// else by the status.
func classify(status int, typ, code string) responses.Code {
	switch c := responses.Code(code); c {
	case responses.CodeContextLength, responses.CodeQuota, responses.CodeRateLimit, responses.CodeInvalidPrompt,
		responses.CodeOverloaded, responses.CodeModelNotFound:
		return c
	case "slow_down":
		return responses.CodeOverloaded
	}
	switch typ {
	case "insufficient_quota":
		return responses.CodeQuota
	case "rate_limit_error":
		return responses.CodeRateLimit
	case "overloaded_error", "service_unavailable_error":
		return responses.CodeOverloaded
	}
	switch {
	case accountTrouble(status, typ, code):
		return responses.CodeUpstream
	case status == http.StatusBadRequest || status == http.StatusUnprocessableEntity:
		return responses.CodeInvalidRequest
	case status == http.StatusRequestEntityTooLarge:
		return responses.CodeTooLarge
	case status == http.StatusNotFound:
		return responses.CodeModelNotFound
	case status == http.StatusTooManyRequests:
		return responses.CodeRateLimit
	case status == http.StatusServiceUnavailable || status == 529:
		return responses.CodeOverloaded
	case status == http.StatusRequestTimeout || status == http.StatusGatewayTimeout:
		return responses.CodeTimeout
	case status == 0 && typ == "invalid_request_error":
		return responses.CodeInvalidRequest
	}
	return responses.CodeUpstream
}

// retryAfter reads the header in its two forms, seconds and a date.
func retryAfter(v string) time.Duration {
	if v == "" {
		return 0
	}
	const most = 365 * 24 * 60 * 60 // seconds; more is not a wait
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 && s < most {
		return time.Duration(s * float64(time.Second))
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(0, time.Until(t))
	}
	return 0
}
