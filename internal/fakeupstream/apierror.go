package fakeupstream

import (
	"encoding/json/v2"
	"fmt"
	"net/http"
)

// apiError is an error as OpenAI's API spells it.
type apiError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// errorEnvelope is the body of an error answer.
type errorEnvelope struct {
	Error apiError `json:"error"`
}

// A refusedError is a request that the API refuses with status 400.
type refusedError struct{ detail apiError }

func (e *refusedError) Error() string { return e.detail.Message }

func refuse(param, code, format string, args ...any) error {
	return &refusedError{apiError{
		Message: fmt.Sprintf(format, args...),
		Type:    "invalid_request_error",
		Param:   orNull(param),
		Code:    orNull(code),
	}}
}

func missing(param string) error {
	return refuse(param, "missing_required_parameter", "Missing required parameter: '%s'.", param)
}

// reply returns the answer to a refused request.
func (e *refusedError) reply() Reply {
	return jsonReply(http.StatusBadRequest, errorEnvelope{e.detail})
}

// decodeBody parses a request. Members that it does not know are ignored.
func decodeBody(body []byte, into any) error {
	if err := json.Unmarshal(body, into); err != nil {
		return refuse("", "", "We could not parse the JSON body of your request: %v", err)
	}
	return nil
}

// scripted returns the error that a provider gives with a status.
func scripted(status int) apiError {
	e := apiError{Message: "The prompt asked for this error.", Type: "invalid_request_error"}
	switch {
	case status == http.StatusUnauthorized:
		e.Message, e.Code = "Incorrect API key provided.", orNull("invalid_api_key")
	case status == http.StatusNotFound:
		e.Message, e.Code = "The model does not exist or you do not have access to it.", orNull("model_not_found")
	case status == http.StatusTooManyRequests:
		e.Message, e.Type, e.Code = "Rate limit reached.", "rate_limit_error", orNull("rate_limit_exceeded")
	case status == http.StatusServiceUnavailable:
		e.Message, e.Type, e.Code = "The server is overloaded.", "service_unavailable_error", orNull("server_is_overloaded")
	case status >= http.StatusInternalServerError:
		e.Message, e.Type, e.Code = "The server had an error while processing your request.", "server_error", orNull("server_error")
	}
	return e
}

// errorReply returns an answer that refuses the request with a status.
func errorReply(status int, message string) Reply {
	return jsonReply(status, errorEnvelope{apiError{Message: message, Type: "invalid_request_error"}})
}

// orNull makes the empty string JSON's null.
func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
