package chat

import (
	"encoding/json/jsontext"
	"encoding/json/v2"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/upstream"
)

// wireError is what a server says of its failure inside an answer.
type wireError struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    any    `json:"code"` // a word, or an HTTP status
}

func (e *wireError) classify() *responses.Error {
	word, _ := e.Code.(string)
	status, _ := e.Code.(float64)
	if status < 400 || status > 599 {
		status = 0
	}
	return upstream.WireError(int(status), e.Type, word, e.Message)
}

// chunkError returns the failure that a chunk reports, nil if it reports none.
func chunkError(c *chunk, data []byte) error {
	switch {
	case c.Error.Kind() == '{', c.Error.Kind() == '"' && len(c.Error) > len(`""`):
		return errorValue(c.Error)
	case len(c.Choices) > 0 || len(c.Usage) > 0:
		return nil
	}
	// A chunk that says nothing else may be a bare error object.
	var bare struct {
		Object string `json:"object"`
	}
	if json.Unmarshal(data, &bare, wireOptions) == nil && bare.Object == "error" {
		return errorValue(data)
	}
	return nil
}

// frameError returns the failure that an event of type error reports.
func frameError(data []byte) error {
	var frame struct {
		Error jsontext.Value `json:"error"`
	}
	if err := json.Unmarshal(data, &frame, wireOptions); err != nil {
		return upstream.Malformed(data, err)
	}
	if frame.Error != nil {
		return errorValue(frame.Error)
	}
	return errorValue(data)
}

// errorValue reads an error that is an object or just a message.
func errorValue(raw jsontext.Value) error {
	var e wireError
	if raw.Kind() == '"' {
		_ = json.Unmarshal(raw, &e.Message, wireOptions) // a token of a decoded frame
	} else if json.Unmarshal(raw, &e, wireOptions) != nil {
		e = wireError{} // it failed, even if it cannot say why
	}
	return e.classify()
}
