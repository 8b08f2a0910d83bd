package stdiorpc

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
)

// Codes of errors that the protocol itself knows.
const (
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
)

// An Error is the peer's answer to a call that it refused or could not do.
type Error struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Data    jsontext.Value `json:"data,omitzero"`
}

// Error shows the peer's own words.
func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

// message is every kind of line: a request has a method and an id, a notification
// only a method, an answer only an id.
type message struct {
	Version string         `json:"jsonrpc,omitzero"`
	ID      jsontext.Value `json:"id,omitzero"`
	Method  string         `json:"method,omitzero"`
	Params  jsontext.Value `json:"params,omitzero"`
	Result  jsontext.Value `json:"result,omitzero"`
	Error   *Error         `json:"error,omitzero"`
}

// hasID reports whether the line is a request or an answer.
func (m *message) hasID() bool { return len(m.ID) > 0 && m.ID.Kind() != 'n' }

// value encodes what a caller handed over; nothing for nil.
func value(v any) (jsontext.Value, error) {
	if v == nil {
		return nil, nil
	}
	return json.Marshal(v)
}
