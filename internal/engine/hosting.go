package engine

import (
	"cmp"
	"context"
	"encoding/json/jsontext"
	"fmt"
	"slices"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
	"github.com/antiphon-dev/antiphon/tool"
	"github.com/antiphon-dev/antiphon/upstream"
)

// hosting is what a run does with tools besides handing calls to its client: it
// runs those that are ours, and suppresses those that the request does not allow.
// It belongs to the run's goroutine.
type hosting struct {
	limits ToolLimits
	limit  *limit
	sets   []*opened
	// tools of ours, by the name of the function that they are to the model, and by
	// label and name.
	byFunction map[string]*hostedTool
	byTool     map[[2]string]*hostedTool
	// request is what the model gets in the next round.
	request *responses.Request

	maxCalls  int    // that may be run
	calls     int    // that were begun
	maxOutput *int64 // the request's max_output_tokens
	usage     *responses.Usage
	losses    []responses.Loss
	callIDs   map[string]bool // of calls in the input
	returned  int             // bytes of the results
	listed    int             // bytes of the tools

	// The turn that is running.
	slots map[int]*slot // by the turn's own output index
	order []*slot
}

// A hostedTool is a tool that the gateway runs.
type hostedTool struct {
	tool.Tool
	set      *tool.Set
	label    string
	function string // its name to the model
	typ      string // of the entry that brought it
	at       int    // of that entry
}

func (t *hostedTool) called() called { return called{typ: t.typ, name: t.Name, label: t.label} }

// ours reports whether an item tells of a tool that this gateway ran, or asked
// about: its id is one that we make, or it has none.
func ours(it responses.Item) bool {
	id := it.ItemID()
	if a, ok := it.(*responses.MCPApprovalResponse); ok {
		id = a.ApprovalRequestID
	}
	_, made := responses.Shard(id)
	return made || id == ""
}

// functionOf is what a tool of ours is called by a model.
func functionOf(label, name string) string {
	if label == tool.DefaultLabel {
		return name
	}
	return upstream.HostedFunction(label, name)
}

// host returns what the run does with tools, nil if it only passes calls on.
func (r *Run) host(ctx context.Context) (*hosting, error) {
	req := r.memory.asked
	lim, err := limitOf(req)
	if err != nil {
		return nil, err
	}
	if !r.job.Tools.Runs(req.Tools) && lim.param == "" && !slices.ContainsFunc(req.Input.Items, isHosted) {
		return nil, nil
	}
	h := &hosting{limit: lim, callIDs: map[string]bool{}, byFunction: map[string]*hostedTool{}, byTool: map[[2]string]*hostedTool{}}
	if r.job.Tools != nil {
		h.limits = r.job.Tools.Limits
	}
	h.limits = h.limits.withDefaults()
	h.maxCalls, h.maxOutput = h.limits.Calls, req.MaxOutputTokens
	if n := req.MaxToolCalls; n != nil && *n < int64(h.maxCalls) {
		h.maxCalls = int(*n)
	}
	if h.sets, err = r.job.Tools.open(ctx, r.info.Owner, req.Tools, h.limits); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for _, o := range h.sets {
		if err := h.add(o); err != nil {
			return nil, err
		}
	}
	return h, nil
}

// isHosted reports whether an item is one that drivers do not get: they know
// functions.
func isHosted(it responses.Item) bool {
	switch it.(type) {
	case *responses.MCPCall, *responses.MCPListTools, *responses.MCPApprovalRequest, *responses.MCPApprovalResponse:
		return ours(it)
	}
	return false
}

// maxListed bounds the descriptions of a request's hosted tools together: each is
// shown to the client and sent to the model in every round.
const maxListed = 8 << 20

// shortened is what is told of tools that could not be listed. Who runs them may
// have chosen the words.
func shortened(err error) string {
	const most = 2 << 10
	text := told(err)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// add takes the tools of an entry that was opened.
func (h *hosting) add(o *opened) error {
	if o.err == nil {
		for _, t := range o.set.Tools {
			h.listed += len(t.Name) + len(t.Description) + len(t.Parameters) + len(t.Annotations)
		}
		if h.listed > maxListed {
			o.err = fmt.Errorf("the tools of this request are described in more than %d bytes together", maxListed)
		}
	}
	if o.err != nil {
		h.lose(toolParam(o.at), "its tools could not be listed: "+shortened(o.err))
		return nil
	}
	for i := range o.set.Tools {
		t := &hostedTool{Tool: o.set.Tools[i], set: o.set, label: o.label, typ: o.typ, at: o.at, function: functionOf(o.label, o.set.Tools[i].Name)}
		if other := h.byFunction[t.function]; other != nil {
			return responses.InvalidParam(responses.CodeInvalidValue, toolParam(o.at),
				"Its tool %q is there twice: %s brings it too.", t.Name, toolParam(other.at))
		}
		h.byFunction[t.function] = t
		h.byTool[[2]string{t.label, t.Name}] = t
	}
	return nil
}

func toolParam(i int) string { return fmt.Sprintf("tools[%d]", i) }

// lose notes something that was not done as asked, once.
func (h *hosting) lose(param, reason string) {
	l := responses.Loss{Param: param, Reason: reason}
	if len(h.losses) < 64 && !slices.Contains(h.losses, l) {
		h.losses = append(h.losses, l)
	}
}

// ask makes the request of the first round: our tools as functions, and what
// became of them as calls of functions.
func (h *hosting) ask(req *responses.Request, items []responses.Item) error {
	out := *req
	out.Raw = nil // it says what the client said
	out.Input.Items = upstream.AsFunctions(items, ours, functionOf)
	for _, it := range out.Input.Items {
		if id := callID(it); id != "" {
			h.callIDs[id] = true
		}
	}
	var err error
	if out.Tools, err = h.functions(req.Tools); err != nil {
		return err
	}
	out.ToolChoice = h.choice(req.ToolChoice)
	if len(out.Tools) == 0 && len(req.Tools) > 0 {
		out.ToolChoice = nil // there is nothing to choose from
	}
	if !slices.ContainsFunc(out.Tools, countedUpstream) {
		out.MaxToolCalls = nil // it counts what a server runs, and the upstream runs nothing
	}
	if h.limit.names != nil {
		if out.Extra, err = responses.SetMembers(req.Extra, responses.Member{Name: allowedToolsMember}); err != nil {
			return err
		}
	}
	h.request = &out
	return nil
}

// countedUpstream reports whether a tool may be one that the upstream runs.
func countedUpstream(t responses.Tool) bool {
	switch t.(type) {
	case *responses.FunctionTool, *responses.CustomTool, *responses.NamespaceTool, *responses.ToolSearch:
		return false
	}
	return true
}

// functions returns the tools for the model: ours as functions in the place of
// their entries, and without those that the request's list of names leaves out.
func (h *hosting) functions(tools []responses.Tool) ([]responses.Tool, error) {
	var out []responses.Tool
	for i, t := range tools {
		at := slices.IndexFunc(h.sets, func(o *opened) bool { return o.at == i })
		if at >= 0 {
			out = append(out, h.setFunctions(h.sets[at])...)
			continue
		}
		name := responses.ToolName(t)
		if other := h.byFunction[name]; name != "" && other != nil {
			return nil, responses.InvalidParam(responses.CodeInvalidValue, toolParam(i), "Its name is that of a tool that %s brings.", toolParam(other.at))
		}
		if h.limit.names == nil || name == "" || slices.Contains(h.limit.names, name) {
			out = append(out, t)
		}
	}
	return out, nil
}

var noParameters = jsontext.Value(`{"type":"object","properties":{}}`)

func (h *hosting) setFunctions(o *opened) []responses.Tool {
	if o.set == nil {
		return nil
	}
	var out []responses.Tool
	for i := range o.set.Tools {
		t := h.byTool[[2]string{o.label, o.set.Tools[i].Name}]
		if t == nil || !h.limit.allows(t.called()) {
			continue
		}
		f := &responses.FunctionTool{Name: t.function, Parameters: t.Parameters, Strict: new(bool)}
		if f.Parameters == nil {
			f.Parameters = noParameters
		}
		if t.Description != "" {
			f.Description = &t.Description
		}
		out = append(out, f)
	}
	return out
}

// choice returns the tool choice in terms of functions.
func (h *hosting) choice(c *responses.ToolChoice) *responses.ToolChoice {
	if c == nil || c.Type == "" || c.Type == responses.TypeFunction || c.Type == responses.TypeCustom {
		return c
	}
	refs, mode := c.Tools, c.Mode
	if c.Type != responses.TypeAllowedTools {
		refs, mode = []responses.ToolRef{{Type: c.Type, Name: c.Name, ServerLabel: c.ServerLabel}}, responses.ToolChoiceRequired
	}
	var kept, functions []responses.ToolRef
	for _, ref := range refs {
		own := h.referred(ref)
		functions = append(functions, own...)
		if len(own) == 0 {
			kept = append(kept, ref)
		}
	}
	switch {
	case len(functions) == 0:
		return c // it is about tools of others
	case c.Type != responses.TypeAllowedTools && len(functions) == 1:
		return &responses.ToolChoice{Type: responses.TypeFunction, Name: functions[0].Name}
	}
	return &responses.ToolChoice{Type: responses.TypeAllowedTools, Mode: cmp.Or(mode, responses.ToolChoiceAuto), Tools: append(kept, functions...)}
}

// referred returns the functions of ours that a reference is to.
func (h *hosting) referred(ref responses.ToolRef) []responses.ToolRef {
	var out []responses.ToolRef
	for _, o := range h.sets {
		if o.set == nil {
			continue
		}
		for _, offered := range o.set.Tools {
			if t := h.byTool[[2]string{o.label, offered.Name}]; t != nil && refersTo(ref, t.called()) {
				out = append(out, responses.ToolRef{Type: responses.TypeFunction, Name: t.function})
			}
		}
	}
	return out
}

// withoutSecrets returns the tools as they are echoed.
func withoutSecrets(tools []responses.Tool) []responses.Tool {
	for i, t := range tools {
		if m, ok := t.(*responses.MCPTool); ok && (len(m.Headers) > 0 || m.Authorization != "") {
			tools = slices.Clone(tools)
			tools[i] = m.WithoutSecrets()
			return append(tools[:i+1:i+1], withoutSecrets(tools[i+1:])...)
		}
	}
	return tools
}
