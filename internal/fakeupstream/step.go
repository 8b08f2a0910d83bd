package fakeupstream

import (
	"encoding/json/jsontext"
	"fmt"
	"regexp"
	"strings"
)

// A step is what one turn of a scripted prompt does: it thinks, if the prompt
// says so, and calls tools.
type step struct {
	thinks bool
	calls  []stepCall
}

// stepCall is a call as the prompt wrote it down.
type stepCall struct {
	name   string // of the tool, or the end of it
	text   string // a JSON object, or the input in words
	object bool
}

// callPattern is the head of a call, behind its brackets.
var callPattern = regexp.MustCompile(`^(?i)(call|and)\s+([^\s\]]+)`)

// takeCall takes the call that s, which is behind "[[", begins with, and returns
// its length with the brackets that close it, or zero if there is none.
func (d *directives) takeCall(s string) int {
	head := callPattern.FindStringSubmatch(s)
	if head == nil {
		return 0
	}
	call, n := cutArgument(s[len(head[0]):])
	if n == 0 {
		return 0
	}
	call.name = head[2]
	if strings.EqualFold(head[1], "call") {
		d.steps = append(d.steps, step{thinks: d.thinks})
		d.thinks = false
	} else if len(d.steps) == 0 {
		return 0
	}
	last := &d.steps[len(d.steps)-1]
	last.calls = append(last.calls, call)
	return len(head[0]) + n
}

// cutArgument returns the argument that s begins with and its length with the
// closing brackets. JSON may contain brackets; other text ends at the first.
func cutArgument(s string) (stepCall, int) {
	dec := jsontext.NewDecoder(strings.NewReader(s))
	if value, err := dec.ReadValue(); err == nil {
		end := int(dec.InputOffset())
		rest := strings.TrimLeft(s[end:], whiteSpace)
		if strings.HasPrefix(rest, "]]") {
			return jsonArgument(value), len(s) - len(rest) + len("]]")
		}
	}
	text, _, found := strings.Cut(s, "]]")
	if !found {
		return stepCall{}, 0
	}
	return stepCall{text: strings.Trim(text, whiteSpace)}, len(text) + len("]]")
}

func jsonArgument(value jsontext.Value) stepCall {
	if value.Kind() != '"' {
		return stepCall{text: string(value), object: value.Kind() == '{'}
	}
	text, _ := jsontext.AppendUnquote(nil, value) // it has been parsed
	return stepCall{text: string(text)}
}

// step returns the parts of the step whose turn it is, or none if all are done:
// those whose calls are in the input are. Where only one call is allowed at a
// time, each call of a step takes a turn.
func (p *prompt) step() []part {
	done := len(p.past)
	for i, s := range p.faults.steps {
		if done >= len(s.calls) {
			done -= len(s.calls)
			continue
		}
		var parts []part
		if s.thinks && done == 0 {
			parts = think(p.thought(i))
		}
		calls := s.calls[done:]
		if !p.parallel {
			calls = calls[:1]
		}
		for _, c := range calls {
			parts = append(parts, p.perform(c)...)
		}
		return parts
	}
	return nil
}

// perform returns the call, or says that there is no such tool.
func (p *prompt) perform(c stepCall) []part {
	t, ok := p.tool(c.name)
	if !ok {
		return say("There is no tool " + c.name + ".")
	}
	switch {
	case t.kind == customTool || c.object:
		return []part{t.call([]byte(c.text))}
	case c.text == "":
		return []part{t.call(instance(t.schema, "x", requiredProperties))}
	}
	return []part{t.call(instance(t.schema, c.text, requiredProperties))}
}

// thought is what goes through the mind before step i, which may be the answer
// after the last call. It is another one for each step, so that a thought at the
// wrong place does not pass for the right one.
func (p *prompt) thought(i int) string {
	var names []string
	if i < len(p.faults.steps) {
		for _, c := range p.faults.steps[i].calls {
			names = append(names, c.name)
		}
	}
	if names == nil {
		return fmt.Sprintf("Step %d: I answer.", i+1)
	}
	return fmt.Sprintf("Step %d: I call %s.", i+1, strings.Join(names, " and "))
}

// checkThoughts refuses, if the prompt insists on it, calls that come back
// without the reasoning that they were made with. The error is a *refusedError.
func (p *prompt) checkThoughts(param string) error {
	if !p.faults.insist {
		return nil
	}
	first := 0 // call of the step
	for i, s := range p.faults.steps {
		if first >= len(p.past) {
			break
		}
		want := ""
		if s.thinks {
			want = p.thought(i)
		}
		if got := p.past[first]; got != want {
			return refuse(param, "missing_reasoning", "The call of step %d must come back with its reasoning %q, not %q.", i+1, want, got)
		}
		first += len(s.calls)
	}
	return nil
}
