package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"regexp"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
)

// A Function is a tool as an upstream takes it that knows nothing but functions.
type Function struct {
	// Name is unique in the toolbox and fits what servers accept: at most 64 of
	// A-Z a-z 0-9 _ -.
	Name        string
	Description string
	// Parameters is a JSON Schema object.
	Parameters jsontext.Value
	Strict     *bool
	// Callee is what a call of the function is for the client.
	Callee responses.Callee
	// At is the place of the tool in the request.
	At string
}

// A Toolbox holds the tools of a request in the form of functions, wherever the
// request brings them: in tools, within namespaces, in additional_tools items,
// and in what a tool search found. It translates names both ways.
//
//   - A tool in a namespace is named namespace__tool. The namespace "functions"
//     is the plain one of the first party's models and adds nothing.
//   - A free-form tool is a function with one string, input; its grammar stands
//     in the description.
//   - A tool search that the client executes is a function like any other.
//   - A web search is left out and reported: a model without one can still
//     answer.
type Toolbox struct {
	Functions []Function
	// Losses are what the upstream will not honour.
	Losses []responses.Loss

	byName  map[string]int            // function name → index
	allowed func(responses.Tool) bool // the tool choice's hard limit
}

// Schemas of functions that the client gave none for.
var (
	noParameters    = jsontext.Value(`{"type":"object","properties":{}}`)
	inputParameters = jsontext.Value(`{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`)
)

// plainNamespace is the namespace that is none.
const plainNamespace = "functions"

// NewToolbox collects the tools of r. What no function can stand for is refused
// by name, as are two tools that would get the same one.
func NewToolbox(r *responses.Request) (*Toolbox, error) {
	b := &Toolbox{byName: map[string]int{}, allowed: allowedBy(r.ToolChoice)}
	if err := b.addAll("tools", "", r.Tools); err != nil {
		return nil, err
	}
	for i, it := range r.Input.Items {
		var tools []responses.Tool
		switch it := it.(type) {
		case *responses.AdditionalTools:
			tools = it.Tools
		case *responses.ToolSearchOutput:
			tools = it.Tools
		}
		if err := b.addAll(fmt.Sprintf("input[%d].tools", i), "", tools); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// allowedBy returns the limit that a tool choice sets (R45).
func allowedBy(c *responses.ToolChoice) func(responses.Tool) bool {
	if c == nil || c.Type != responses.TypeAllowedTools {
		return func(responses.Tool) bool { return true }
	}
	return func(t responses.Tool) bool {
		for _, ref := range c.Tools {
			if ref.Type == t.Type() && ref.Name == responses.ToolName(t) {
				return true
			}
		}
		return false
	}
}

func (b *Toolbox) addAll(at, namespace string, tools []responses.Tool) error {
	for i, t := range tools {
		if err := b.add(fmt.Sprintf("%s[%d]", at, i), namespace, t); err != nil {
			return err
		}
	}
	return nil
}

func (b *Toolbox) add(at, namespace string, t responses.Tool) error {
	if ns, ok := t.(*responses.NamespaceTool); ok {
		if namespace != "" {
			return responses.Unsupported(at, "A namespace within a namespace cannot be called on this model's upstream.")
		}
		b.lose(at, ns.Extra)
		return b.addAll(at+".tools", ns.Name, ns.Tools)
	}
	if webSearch(t) {
		b.Losses = append(b.Losses, responses.Loss{Param: at, Reason: "The upstream cannot search the web; the tool was left out."})
		return nil
	}
	if !b.allowed(t) {
		return nil
	}
	f := Function{At: at, Callee: responses.Callee{Name: responses.ToolName(t), Namespace: namespace}}
	if namespace == plainNamespace {
		f.Callee.Namespace = ""
	}
	switch t := t.(type) {
	case *responses.FunctionTool:
		b.function(&f, t)
	case *responses.CustomTool:
		b.custom(&f, t)
	case *responses.ToolSearch:
		if t.Execution != "client" {
			return responses.Unsupported(at, "This model's upstream cannot search for tools itself: send them all, or search in the client.")
		}
		b.toolSearch(&f, t)
	default:
		return responses.Unsupported(at, "This model's upstream has no tool of type %q: use function tools.", t.Type())
	}
	f.Name = functionName(f.Callee)
	return b.put(f)
}

// webSearch reports whether t is one of the versions of the hosted web search.
func webSearch(t responses.Tool) bool {
	return strings.HasPrefix(t.Type(), "web_search")
}

// put adds f. The same tool may come again, in a later item; the latest holds.
func (b *Toolbox) put(f Function) error {
	i, taken := b.byName[f.Name]
	switch {
	case !taken:
		b.byName[f.Name] = len(b.Functions)
		b.Functions = append(b.Functions, f)
	case b.Functions[i].Callee == f.Callee && strings.HasPrefix(f.At, "input"):
		b.Functions[i] = f
	default:
		return responses.Unsupported(f.At, "Two tools would both be called %q on this model's upstream: this one and %s.", f.Name, b.Functions[i].At)
	}
	return nil
}

func (b *Toolbox) function(f *Function, t *responses.FunctionTool) {
	f.Callee.Kind = responses.TypeFunctionCall
	f.Strict, f.Parameters = t.Strict, t.Parameters
	if t.Description != nil {
		f.Description = *t.Description
	}
	if t.Parameters.Kind() != '{' {
		f.Parameters = noParameters
	}
	b.lose(f.At, t.Extra)
}

// custom makes a function with one string of a free-form tool.
func (b *Toolbox) custom(f *Function, t *responses.CustomTool) {
	f.Callee.Kind = responses.TypeCustomToolCall
	f.Description, f.Parameters = t.Description, inputParameters
	b.lose(f.At, t.Extra)
	var format struct {
		Type       string `json:"type"`
		Syntax     string `json:"syntax"`
		Definition string `json:"definition"`
	}
	if len(t.Format) == 0 || t.Format.Kind() == 'n' || json.Unmarshal(t.Format, &format) == nil && format.Type == "text" {
		return
	}
	b.Losses = append(b.Losses, responses.Loss{Param: f.At + ".format", Reason: "The upstream does not enforce the format of a tool's input."})
	if format.Definition != "" {
		f.Description = strings.TrimPrefix(fmt.Sprintf("%s\n\nThe input must match this grammar (%s):\n%s", f.Description, format.Syntax, format.Definition), "\n\n")
	}
}

// toolSearch makes a function of a search that the client executes.
func (b *Toolbox) toolSearch(f *Function, t *responses.ToolSearch) {
	f.Callee = responses.Callee{Kind: responses.TypeToolSearchCall, Name: responses.TypeToolSearch}
	f.Description, f.Parameters = t.Description, t.Parameters
	if t.Parameters.Kind() != '{' {
		f.Parameters = noParameters
	}
	b.lose(f.At, t.Extra)
}

// harmless are members of tools that an upstream without them loses nothing by:
// it has every tool from the start.
var harmless = map[string]bool{"defer_loading": true}

func (b *Toolbox) lose(at string, extra jsontext.Value) {
	for name, v := range responses.Members(extra) {
		if !harmless[name] && v.Kind() != 'n' {
			b.Losses = append(b.Losses, responses.Loss{Param: at + "." + name, Reason: "The upstream has no such member; it was not sent."})
		}
	}
}

// Callee returns what a call of the named function is for the client. A function
// that is not in the box is the model's invention; the client decides about it.
func (b *Toolbox) Callee(function string) responses.Callee {
	if i, ok := b.byName[function]; ok {
		return b.Functions[i].Callee
	}
	return responses.Callee{Kind: responses.TypeFunctionCall, Name: function}
}

// Name returns the function that stands for a callee. The callee may be of an
// earlier turn and no longer in the box.
func (b *Toolbox) Name(c responses.Callee) string {
	if c.Namespace == plainNamespace {
		c.Namespace = ""
	}
	return functionName(c)
}

// Found is the result of a tool search in words: the tools themselves are in the
// box.
func (b *Toolbox) Found(tools []responses.Tool) string {
	var names []string
	for _, t := range tools {
		if ns, ok := t.(*responses.NamespaceTool); ok {
			for _, inner := range ns.Tools {
				names = append(names, b.Name(responses.Callee{Namespace: ns.Name, Name: responses.ToolName(inner)}))
			}
			continue
		}
		names = append(names, b.Name(responses.Callee{Name: responses.ToolName(t)}))
	}
	if len(names) == 0 {
		return "No tools were found."
	}
	return "These tools can be called now: " + strings.Join(names, ", ")
}

// unfit matches what servers do not accept in the name of a function.
var unfit = regexp.MustCompile(`[^A-Za-z0-9_-]`)

const maxFunctionName = 64

// functionName spells a callee as one name. A name that had to be shortened ends
// in a hash of the whole, so that two long ones stay apart.
func functionName(c responses.Callee) string {
	name := c.Name
	if c.Namespace != "" {
		name = c.Namespace + "__" + c.Name
	}
	fit := unfit.ReplaceAllString(name, "_")
	if len(fit) <= maxFunctionName {
		return fit
	}
	sum := sha256.Sum256([]byte(name))
	tail := "_" + hex.EncodeToString(sum[:4])
	return fit[:maxFunctionName-len(tail)] + tail
}

// WrapInput returns the arguments with which the stand-in of a free-form tool is
// called.
func WrapInput(input string) string {
	quoted, _ := jsontext.AppendQuote(nil, input) // the error only reports invalid UTF-8, which becomes U+FFFD
	return `{"input":` + string(quoted) + `}`
}

// UnwrapInput takes the input of a free-form tool out of the arguments of the
// function that stands for it. Arguments of another shape are the input: the
// tool can make more of them than we can.
func UnwrapInput(arguments string) string {
	var wrapped struct {
		Input *string `json:"input"`
	}
	err := json.Unmarshal([]byte(arguments), &wrapped, json.RejectUnknownMembers(true))
	if err != nil || wrapped.Input == nil {
		return arguments
	}
	return *wrapped.Input
}
