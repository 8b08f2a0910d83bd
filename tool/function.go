package tool

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/antiphon-dev/antiphon/responses"
)

// A Function is a tool that is run by a Go function. A request asks for it with
//
//	{"type": "function", "name": "…"}
//
// and no parameters: a function with parameters is the client's own.
type Function struct {
	Tool
	// Override takes a client's function of the same name too, whatever its
	// parameters.
	Override bool
	// StandsFor are types of tools, such as web_search, that the function is run in
	// place of: an entry of such a type asks for it as well.
	StandsFor []string
	// Run is as in [Set].
	Run func(ctx context.Context, c *Call) (*Result, error)
}

// functionName is what every upstream takes as the name of a function.
var functionName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Functions returns an executor of functions. It fails if two have the same name or
// stand for the same type, or one cannot be called. Closing it does nothing.
func Functions(list ...Function) (Executor, error) {
	f := &functions{byName: map[string]*Function{}, byType: map[string]*Function{}}
	for i := range list {
		if err := f.add(&list[i]); err != nil {
			return nil, fmt.Errorf("tool %q: %w", list[i].Name, err)
		}
	}
	return f, nil
}

type functions struct{ byName, byType map[string]*Function }

var _ Executor = (*functions)(nil)

func (f *functions) add(fn *Function) error {
	k := fn.Parameters.Kind()
	switch {
	case !functionName.MatchString(fn.Name):
		return fmt.Errorf("its name needs 1 to 64 letters, digits, _ or -")
	case f.byName[fn.Name] != nil:
		return fmt.Errorf("there are two of that name")
	case fn.Parameters != nil && (k != '{' || !fn.Parameters.IsValid()):
		return fmt.Errorf("its parameters are not a JSON Schema object")
	case fn.Run == nil:
		return fmt.Errorf("there is nothing to run")
	}
	for _, typ := range fn.StandsFor {
		if f.byType[typ] != nil {
			return fmt.Errorf("it stands for %s, as %q does", typ, f.byType[typ].Name)
		}
		if slices.Contains([]string{responses.TypeFunction, responses.TypeCustom, responses.TypeNamespace, responses.TypeMCP}, typ) {
			return fmt.Errorf("it cannot stand for %s tools, which are told apart by name", typ)
		}
		f.byType[typ] = fn
	}
	f.byName[fn.Name] = fn
	return nil
}

// find returns the function that an entry asks for.
func (f *functions) find(t responses.Tool) *Function {
	entry, ok := t.(*responses.FunctionTool)
	if !ok {
		return f.byType[t.Type()]
	}
	fn := f.byName[entry.Name]
	if fn == nil || !fn.Override && entry.Parameters != nil && entry.Parameters.Kind() != 'n' {
		return nil
	}
	return fn
}

// Runs implements [Executor].
func (f *functions) Runs(t responses.Tool) bool { return f.find(t) != nil }

// Open implements [Executor].
func (f *functions) Open(_ context.Context, a *Ask) (*Set, error) {
	fn := f.find(a.Tool)
	if fn == nil {
		return nil, fmt.Errorf("there is no tool for an entry of type %s", a.Tool.Type())
	}
	return &Set{Tools: []Tool{fn.Tool}, Run: fn.Run}, nil
}

// Close implements [Executor].
func (f *functions) Close() error { return nil }
