// Package tool is the contract of what the gateway runs itself: an [Executor]
// says which entries of a request's tools are its own, opens them into a [Set] of
// tools, and runs calls of those. Nothing is run for a gateway without executors.
//
//	request ── tools[i] ─► Executor.Runs ─► Executor.Open ─► Set{Label, Tools}
//	                                                           │ as functions, to the model
//	model ──── a call ──────────────────────────────────────► Set.Run ─► Result
//
// To the client a call that the gateway ran is an mcp_call item, never a
// function_call, which clients would run themselves (R43).
//
// Most programs need [Functions] only, which makes an executor of Go functions.
// Packages httptool and mcptool have the tools of HTTP endpoints and of MCP
// servers.
package tool

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"

	"github.com/antiphon-dev/antiphon/responses"
)

// DefaultLabel is the server_label of tools that no labelled server has.
const DefaultLabel = "antiphon"

// An Executor runs tools. It is safe for concurrent use.
type Executor interface {
	// Runs reports whether an entry of a request's tools is the executor's to run.
	// It does no I/O, and is asked for every request. The first of several executors
	// that says yes gets the entry.
	Runs(t responses.Tool) bool
	// Open returns the tools that an entry stands for. It may ask a server, within
	// ctx. An *[responses.Error] that the client caused refuses the request; any
	// other error is shown to the client as a list that failed, and the request goes
	// on without the tools.
	Open(ctx context.Context, a *Ask) (*Set, error)
	// Close releases what the executor holds. Calls that are running fail.
	Close() error
}

// An Ask is one entry of a request's tools.
type Ask struct {
	// Owner is whose request it is. What is kept for one owner must not be used for
	// another.
	Owner string
	// Tool is the entry, and Param its place in the request, for refusals.
	Tool  responses.Tool
	Param string
}

// A Set is what one entry of a request's tools stands for. It is used by one
// response, for as long as that runs.
type Set struct {
	// Label is the server_label under which calls are shown. "" means
	// [DefaultLabel].
	Label string
	// Listed says that the response shows the tools to the client, as it does those
	// of an MCP server.
	Listed bool
	Tools  []Tool
	// Run runs a call of one of the tools. It returns when ctx ends, which has the
	// deadline of the call. An error is a result too: its text is what the model and
	// the client are told. Several calls may run at once.
	Run func(ctx context.Context, c *Call) (*Result, error)
}

// A Tool is something that a model may call.
type Tool struct {
	// Name is unique in its set.
	Name        string
	Description string
	// Parameters is the JSON Schema of the arguments, an object. Nil means that
	// there are none.
	Parameters jsontext.Value
	// Annotations are shown to the client with the list; nil for none.
	Annotations jsontext.Value
	// Approval says that the client must approve of each call before it is run.
	Approval bool
}

// A Call is a call that a model made.
type Call struct {
	Owner string
	// ResponseID is the response that the call belongs to.
	ResponseID string
	Name       string
	// Arguments is a JSON object. It is what the model wrote and may not fit the
	// tool's parameters.
	Arguments jsontext.Value
	// MaxBytes bounds the result. A larger one is an error ([TooLarge]); an executor that can
	// tell early need not make it.
	MaxBytes int
}

// Decode decodes the arguments into v, which is a pointer. Its error says to the
// model what is wrong with them.
func (c *Call) Decode(v any) error { return json.Unmarshal(c.Arguments, v) }

// A Result is what a call came to.
type Result struct {
	// Content is text, images and files: [responses.InputText],
	// [responses.InputImage] and [responses.InputFile].
	Content []responses.Part
	// IsError says that the content tells what went wrong.
	IsError bool
}

// Text returns a result of text.
func Text(s string) *Result {
	return &Result{Content: []responses.Part{&responses.InputText{Text: s}}}
}

// JSON returns a result that is a JSON value, as text.
func JSON(v any) (*Result, error) {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	return Text(string(b)), nil
}

// ErrTooLarge is what the errors of [TooLarge] are.
var ErrTooLarge = errors.New("tool: the result is too large")

// TooLarge is the error of a call whose result has more than max bytes.
func TooLarge(max int) error { return tooLarge(max) }

type tooLarge int

func (e tooLarge) Error() string        { return fmt.Sprintf("its result is larger than %d bytes", int(e)) }
func (e tooLarge) Is(target error) bool { return target == ErrTooLarge }

// Size is how many bytes the result has.
func (r *Result) Size() int {
	n := 0
	for _, p := range r.Content {
		switch p := p.(type) {
		case *responses.InputText:
			n += len(p.Text)
		case *responses.InputImage:
			n += len(p.ImageURL)
		case *responses.InputFile:
			n += len(p.Filename) + len(p.FileData) + len(p.FileURL)
		default:
			b, err := json.Marshal(p)
			if err == nil {
				n += len(b)
			}
		}
	}
	return n
}

// An Error is a failure of what runs a tool, rather than of the tool: a server that
// answers with an error of its protocol. Clients are shown its type.
type Error struct {
	// Protocol is true for an error of the tool's protocol, false for one of HTTP
	// below it.
	Protocol bool
	Code     int
	Message  string
}

// Error is the message.
func (e *Error) Error() string { return e.Message }
