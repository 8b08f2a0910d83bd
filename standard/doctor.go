package standard

import (
	"encoding/json/v2"
	"net/http"

	"github.com/antiphon-dev/antiphon/config"
)

// A Mark is the answer to a yes-or-no question about a model.
type Mark string

// The marks. The zero value is as good as Unknown.
const (
	Yes     Mark = "yes"
	No      Mark = "no"
	Unknown Mark = "unknown" // it could not be asked, or the answer says nothing
)

func mark(yes bool) Mark {
	if yes {
		return Yes
	}
	return No
}

// A Diagnosis is what is known of one model, or of an upstream without any.
type Diagnosis struct {
	Upstream string          `json:"upstream"`
	Model    string          `json:"model,omitzero"` // as clients call it
	Protocol config.Protocol `json:"protocol"`
	// ContextWindow is in tokens, 0 if not known. UpTo says that it may be less.
	ContextWindow int64 `json:"context_window,omitzero"`
	UpTo          bool  `json:"context_window_up_to,omitzero"`

	Reachable  Mark `json:"reachable"`           // it answers
	Streaming  Mark `json:"streaming"`           // its text comes in pieces
	Tools      Mark `json:"tool_calls"`          // it calls a tool when it should
	Parallel   Mark `json:"parallel_tool_calls"` // it calls two in one turn
	Structured Mark `json:"structured_output"`   // its answer fits a JSON schema
	Reasoning  Mark `json:"reasoning"`           // it shows that it thinks

	// Advice says, in words, what is wrong and how to change it.
	Advice []string `json:"advice,omitzero"`
}

// A checkup is what was seen of one model. A call that is nil was not made.
type checkup struct {
	upstream *Upstream
	model    string // as clients call it; empty: the upstream lists none
	there    string // as the upstream calls it
	window   int64
	upTo     bool
	listed   int // status of the answer to GET …/models; asked for only if there is no model

	text   *outcome // a plain question
	tools  *outcome // a question for a tool, twice; the model may choose
	forced *outcome // the same, and it must call one
	schema *outcome // a question whose answer has a JSON schema
	think  *outcome // a question with reasoning asked for
}

// An outcome is what came of one call.
type outcome struct {
	status  int    // the upstream's HTTP status, 0 if there was no answer
	late    bool   // the time for the call was over
	failed  bool   // there was no complete answer
	message string // why, as a client would be told

	text     string
	pieces   int      // in which the text came
	calls    []string // the arguments of calls of the tool
	reasoned bool
}

// answered reports whether the model said anything.
func (o *outcome) answered() bool {
	return o != nil && (!o.failed || o.pieces > 0 || len(o.calls) > 0)
}

// judge turns what was seen into what it means.
func judge(c *checkup) Diagnosis {
	d := Diagnosis{
		Upstream: c.upstream.Name, Model: c.model, Protocol: c.upstream.Protocol,
		ContextWindow: c.window, UpTo: c.upTo,
		Reachable: Unknown, Streaming: Unknown, Tools: Unknown, Parallel: Unknown, Structured: Unknown, Reasoning: Unknown,
	}
	if c.model == "" {
		d.Reachable = mark(c.listed != 0 && c.listed < http.StatusInternalServerError && !isKeyProblem(c.listed))
	} else {
		d.Reachable = mark(c.text.answered())
	}
	if c.text.answered() && c.text.pieces > 0 {
		d.Streaming = mark(c.text.pieces > 1)
	}
	d.Tools, d.Parallel = judgeTools(c.tools, c.forced)
	if says(c.schema) {
		d.Structured = mark(fitsSchema(c.schema.text))
	}
	switch {
	case c.text.reasons() || c.tools.reasons() || c.schema.reasons() || c.think.reasons():
		d.Reasoning = Yes
	case says(c.think):
		d.Reasoning = No
	}
	d.Advice = c.advice(&d)
	return d
}

// judgeTools: a model that calls a tool only when it must is no use to an agent,
// which leaves the choice to it.
func judgeTools(free, forced *outcome) (tools, parallel Mark) {
	switch n := free.goodCalls(); {
	case n > 0:
		return Yes, mark(n > 1)
	case says(free) && (forced == nil || says(forced) || forced.goodCalls() > 0):
		return No, Unknown
	}
	return Unknown, Unknown
}

// says reports whether a call tells something about the model: it was answered, or
// refused for what it asks.
func says(o *outcome) bool {
	return o != nil && (!o.failed || o.refused())
}

// refused reports whether the upstream does not take such a request at all. Servers
// differ in the status with which they say so.
func (o *outcome) refused() bool {
	switch o.status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusNotImplemented, http.StatusInternalServerError:
		return o.failed
	}
	return false
}

func (o *outcome) reasons() bool { return o != nil && o.reasoned }

// goodCalls counts the calls whose arguments are what the tool asks for.
func (o *outcome) goodCalls() int {
	if o == nil {
		return 0
	}
	n := 0
	for _, arguments := range o.calls {
		var a struct {
			City string `json:"city"`
		}
		if json.Unmarshal([]byte(arguments), &a) == nil && a.City != "" {
			n++
		}
	}
	return n
}

// fitsSchema reports whether text is an instance of the schema that was asked for:
// nothing more, nothing less, nothing around it.
func fitsSchema(text string) bool {
	var a struct {
		City        *string  `json:"city"`
		Inhabitants *float64 `json:"inhabitants"`
	}
	err := json.Unmarshal([]byte(text), &a, json.RejectUnknownMembers(true))
	return err == nil && a.City != nil && a.Inhabitants != nil
}

func isKeyProblem(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}
