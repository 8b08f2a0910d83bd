package responses

import (
	"encoding/json/jsontext"
)

// A Callee says what a call is a call of.
type Callee struct {
	// Kind is the type word of the call's item: TypeFunctionCall,
	// TypeCustomToolCall or TypeToolSearchCall.
	Kind string
	// Namespace is that of the tool, "" if it is in none.
	Namespace string
	// Name is the tool's name.
	Name string
}

// A ComposedCall is a tool call that is being composed. Several may be open at
// once; their events carry their own index and id.
type ComposedCall struct {
	c      *Composer
	index  int
	id     string
	callID string
	callee Callee
	input  func(arguments string) string // of a free-form tool
	args   []byte
	done   bool
}

// FunctionCall begins a call of a function. An empty or unusable call id is
// replaced by one of our own.
func (c *Composer) FunctionCall(callID, name string) *ComposedCall {
	return c.Call(callID, Callee{Kind: TypeFunctionCall, Name: name}, nil)
}

// CustomToolCall begins a call of a free-form tool whose input the model writes
// inside the arguments of a stand-in function. input takes it out of the whole
// arguments; the client sees it at the end of the call, in one piece.
func (c *Composer) CustomToolCall(callID, name string, input func(arguments string) string) *ComposedCall {
	return c.Call(callID, Callee{Kind: TypeCustomToolCall, Name: name}, input)
}

// Call begins a call of any kind. input is needed for free-form tools only; see
// [Composer.CustomToolCall].
func (c *Composer) Call(callID string, callee Callee, input func(arguments string) string) *ComposedCall {
	c.closeText(StatusCompleted)
	callee.Name = validText(callee.Name)
	if !ValidID("", callID) {
		callID = c.newID(PrefixCall)
	}
	callee.Name, callee.Namespace = validText(callee.Name), validText(callee.Namespace)
	call := &ComposedCall{
		c: c, index: c.items, id: c.itemID(callee.Kind), callID: callID, callee: callee, input: input,
	}
	c.items++
	c.calls = append(c.calls, call)
	c.emit(Event{Type: EventItemAdded, OutputIndex: call.index, Item: call.item(StatusInProgress)})
	return call
}

// Arguments adds to the call's arguments.
func (k *ComposedCall) Arguments(s string) {
	if s == "" || k.done {
		return
	}
	s = validText(s)
	k.args = append(k.args, s...)
	if k.callee.Kind == TypeFunctionCall {
		k.c.emit(Event{Type: EventArgumentsDelta, OutputIndex: k.index, ItemID: k.id, Text: s})
	}
}

// Len is how many bytes of arguments the call has.
func (k *ComposedCall) Len() int { return len(k.args) }

// item returns the call as it is with the given status. Only the arguments of a
// function are shown while they grow.
func (k *ComposedCall) item(status Status) Item {
	switch k.callee.Kind {
	case TypeCustomToolCall:
		it := &CustomToolCall{ID: k.id, CallID: k.callID, Name: k.callee.Name, Namespace: k.callee.Namespace, Status: status}
		if status != StatusInProgress {
			it.Input = validText(k.input(string(k.args)))
		}
		return it
	case TypeToolSearchCall:
		it := &ToolSearchCall{ID: k.id, CallID: k.callID, Execution: "client", Status: status, Arguments: jsontext.Value("{}")}
		if status != StatusInProgress {
			it.Arguments = k.argumentsValue()
		}
		return it
	default:
		return &FunctionCall{
			ID: k.id, CallID: k.callID, Name: k.callee.Name, Namespace: k.callee.Namespace, Arguments: string(k.args), Status: status,
		}
	}
}

// argumentsValue returns the arguments as a JSON value. What the model wrote may
// not be one; it is then a string, which the client can at least show.
func (k *ComposedCall) argumentsValue() jsontext.Value {
	if v := jsontext.Value(k.args); v.IsValid() {
		return v
	}
	return quote(string(k.args))
}

// close ends the call.
func (k *ComposedCall) close(status Status) {
	k.done = true
	item := k.item(status)
	at := Event{OutputIndex: k.index, ItemID: k.id}
	switch it := item.(type) {
	case *FunctionCall:
		at.Type, at.Text = EventArgumentsDone, it.Arguments
		k.c.emit(at)
	case *CustomToolCall:
		if at.Text = it.Input; at.Text != "" {
			at.Type = EventCustomInputDelta
			k.c.emit(at)
		}
		at.Type = EventCustomInputDone
		k.c.emit(at)
	}
	k.c.emit(Event{Type: EventItemDone, OutputIndex: k.index, Item: item})
}
