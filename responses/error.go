package responses

import (
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"
)

// A Code says what went wrong. It is the wire's error.code, and the list is
// closed: [Code.Status] and [Code.WireType] know every one of them.
type Code string

// The codes. Their HTTP statuses and wire types are in codeTable.
const (
	CodeInvalidJSON      Code = "invalid_json"
	CodeInvalidType      Code = "invalid_type"
	CodeInvalidValue     Code = "invalid_value"
	CodeMissing          Code = "missing_required_parameter"
	CodeUnsupported      Code = "unsupported_parameter"
	CodeInvalidRequest   Code = "invalid_request"
	CodeInvalidPrompt    Code = "invalid_prompt"
	CodeContextLength    Code = "context_length_exceeded"
	CodePreviousNotFound Code = "previous_response_not_found"
	CodeInvalidKey       Code = "invalid_api_key"
	CodeForbidden        Code = "permission_denied"
	CodeNotFound         Code = "not_found"
	CodeModelNotFound    Code = "model_not_found"
	CodeMethod           Code = "method_not_allowed"
	CodeTooLarge         Code = "request_too_large"
	CodeMediaType        Code = "unsupported_media_type"
	CodeUpgrade          Code = "upgrade_required"
	CodeRateLimit        Code = "rate_limit_exceeded"
	CodeQuota            Code = "insufficient_quota"
	CodeClientGone       Code = "client_closed_request"
	CodeServer           Code = "server_error"
	CodeUpstream         Code = "upstream_error"
	CodeOverloaded       Code = "server_is_overloaded"
	CodeTimeout          Code = "upstream_timeout"
)

// codeTable is the one place that ties a code to its HTTP status and wire type.
var codeTable = map[Code]struct {
	status int
	typ    string
}{
	CodeInvalidJSON:      {http.StatusBadRequest, "invalid_request_error"},
	CodeInvalidType:      {http.StatusBadRequest, "invalid_request_error"},
	CodeInvalidValue:     {http.StatusBadRequest, "invalid_request_error"},
	CodeMissing:          {http.StatusBadRequest, "invalid_request_error"},
	CodeUnsupported:      {http.StatusBadRequest, "invalid_request_error"},
	CodeInvalidRequest:   {http.StatusBadRequest, "invalid_request_error"},
	CodeInvalidPrompt:    {http.StatusBadRequest, "invalid_request_error"},
	CodeContextLength:    {http.StatusBadRequest, "invalid_request_error"},
	CodePreviousNotFound: {http.StatusBadRequest, "invalid_request_error"},
	CodeInvalidKey:       {http.StatusUnauthorized, "authentication_error"},
	CodeForbidden:        {http.StatusForbidden, "permission_error"},
	CodeNotFound:         {http.StatusNotFound, "not_found_error"},
	CodeModelNotFound:    {http.StatusNotFound, "invalid_request_error"},
	CodeMethod:           {http.StatusMethodNotAllowed, "invalid_request_error"},
	CodeTooLarge:         {http.StatusRequestEntityTooLarge, "invalid_request_error"},
	CodeMediaType:        {http.StatusUnsupportedMediaType, "invalid_request_error"},
	CodeUpgrade:          {http.StatusUpgradeRequired, "invalid_request_error"},
	CodeRateLimit:        {http.StatusTooManyRequests, "rate_limit_error"},
	CodeQuota:            {http.StatusTooManyRequests, "insufficient_quota"},
	CodeClientGone:       {499, "client_error"},
	CodeServer:           {http.StatusInternalServerError, "server_error"},
	CodeUpstream:         {http.StatusBadGateway, "server_error"},
	CodeOverloaded:       {http.StatusServiceUnavailable, "service_unavailable_error"},
	CodeTimeout:          {http.StatusGatewayTimeout, "server_error"},
}

// Known reports whether c is in the closed list.
func (c Code) Known() bool { _, ok := codeTable[c]; return ok }

// Status is the HTTP status of c; 500 for a code that is not in the list.
func (c Code) Status() int {
	if row, ok := codeTable[c]; ok {
		return row.status
	}
	return http.StatusInternalServerError
}

// WireType is the wire's error.type for c.
func (c Code) WireType() string {
	if row, ok := codeTable[c]; ok {
		return row.typ
	}
	return "server_error"
}

// An Origin says who caused an error. It is for logs and metrics and decides
// nothing on the wire.
type Origin string

// The origins. The zero Origin means the gateway.
const (
	OriginGateway  Origin = ""
	OriginClient   Origin = "client"
	OriginUpstream Origin = "upstream"
)

// An Error is the only error that crosses package borders with a meaning.
// Message is sent to clients: it says what happened, to which field and what to
// do, and never holds a secret. The cause is for logs and is never sent.
type Error struct {
	Code    Code
	Param   string // the field, as a path like input[2].content; "" if none
	Message string
	Origin  Origin
	// RetryAfter is how long the client should wait; 0 means not said.
	RetryAfter time.Duration

	cause error
}

// Errorf returns an error of the gateway with a formatted public message. A %w
// operand becomes the private cause as well as part of the message, so wrap only
// what clients may read.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), cause: errors.Unwrap(err)}
}

// InvalidParam returns the error for a field that the client must change. The
// param and what the message quotes are the client's own, so both are cut to a
// length that can be logged and sent.
func InvalidParam(code Code, param, format string, args ...any) *Error {
	return &Error{Code: code, Param: shorten(param, 256), Message: shorten(fmt.Sprintf(format, args...), 1024), Origin: OriginClient}
}

// shorten cuts s to about most bytes, between two characters.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// Unsupported returns the refusal of a field that the chosen upstream cannot
// express (R31).
func Unsupported(param, format string, args ...any) *Error {
	return InvalidParam(CodeUnsupported, param, format, args...)
}

// UpstreamErrorf returns an error that the upstream caused.
func UpstreamErrorf(code Code, format string, args ...any) *Error {
	e := Errorf(code, format, args...)
	e.Origin = OriginUpstream
	return e
}

// WithCause returns e with a private cause, which [errors.Is] sees and clients
// do not.
func (e *Error) WithCause(err error) *Error {
	c := *e
	c.cause = err
	return &c
}

// Error is the text for logs: it includes the private cause.
func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Message
	if e.Param != "" {
		s = string(e.Code) + ": " + e.Param + ": " + e.Message
	}
	if e.cause != nil {
		s += " (" + e.cause.Error() + ")"
	}
	return s
}

// Unwrap returns the private cause.
func (e *Error) Unwrap() error { return e.cause }

// AsError finds the *Error in err; any other error becomes a server_error whose
// message reveals nothing. It returns nil for nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: CodeServer, Message: "The gateway could not finish the response.", cause: err}
}

// ErrorBody is the wire form of an error: the value of "error" in an HTTP error,
// in an error event, and in a failed response.
type ErrorBody struct {
	Type    string  `json:"type"`
	Code    Code    `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
}

// Body returns the wire form of e.
func (e *Error) Body() *ErrorBody {
	b := &ErrorBody{Type: e.Code.WireType(), Code: e.Code, Message: e.Message}
	if e.Param != "" {
		b.Param = &e.Param
	}
	return b
}

// A Loss is one thing that a client asked for and an upstream will not honour.
// It is reported in the Antiphon-Degraded header, never hidden (R31).
type Loss struct {
	Param  string `json:"param"`
	Reason string `json:"reason"`
}
