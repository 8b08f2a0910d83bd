package fakeupstream

import (
	"encoding/json/jsontext"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// prompt is all that the mind looks at, whichever protocol it came in.
type prompt struct {
	text     string   // of the last user message, without directives
	images   []string // in the last user message: media type, "url" or "file"
	results  []string // of the tools, if they are the last thing in the input
	past     []string // reasoning in front of each call since the last user message, empty if none
	compact  bool     // the input ends in a wish to have it compacted
	tools    []tool   // that may be called
	parallel bool     // several calls in one turn are allowed
	format   format
	limit    int // most tokens of output; zero means no limit
	words    int // in all input texts
	faults   directives
}

// format is the shape that the text of the answer must have: free text, an
// object, or an instance of a schema.
type format struct {
	object bool
	schema jsontext.Value
}

// partKind is what a part of an answer is.
type partKind int

const (
	textPart partKind = iota
	reasoningPart
	refusalPart
	callPart
	compactionPart
)

// A part of an answer is a piece of text, a call of a tool or a compaction.
type part struct {
	kind   partKind
	tool   tool // of a call
	tokens tokens
}

var (
	countPattern    = regexp.MustCompile(`(?i)\bcount to (\d+)\b`)
	parallelPattern = regexp.MustCompile(`(?i),?\s*\b(in parallel|both)\b`)
)

// hear takes the message of a user, which makes all before it the past.
func (p *prompt) hear(c content) {
	p.text, p.faults = takeDirectives(c.text)
	p.images = c.images
	p.results, p.past = nil, nil
}

// answer is the mind: a step that the prompt wrote down, or a reply.
func (p *prompt) answer() []part {
	if p.compact {
		return []part{{kind: compactionPart, tokens: whole(nil)}}
	}
	if parts := p.step(); parts != nil {
		return parts
	}
	if p.faults.thinks {
		return append(think(p.thought(len(p.faults.steps))), p.reply()...)
	}
	return p.reply()
}

// reply looks at what was said: the first rule that applies decides.
func (p *prompt) reply() []part {
	switch {
	case p.results != nil:
		return say("The tool answered: " + strings.Join(p.results, ", "))
	case len(p.tools) > 0 && len(p.faults.steps) == 0 && !p.mentions("no tool"):
		return p.calls()
	case p.format.schema != nil:
		return say(string(instance(p.format.schema, "x", allProperties)))
	case p.format.object:
		return say(`{"ok":true}`)
	case p.mentions("refuse"):
		return []part{{kind: refusalPart, tokens: words("I will not do that.")}}
	case p.mentions("think"), p.mentions("reason"):
		return append(think("Let me think about it."), say("Thought about: "+p.text)...)
	}
	if n := p.count(); n > 0 {
		return []part{{kind: textPart, tokens: numbers(n)}}
	}
	if n := len(p.images); n > 0 {
		return say(fmt.Sprintf("I see %d image(s): %s.", n, strings.Join(p.images, ", ")))
	}
	return say("You said: " + p.text)
}

func say(text string) []part {
	return []part{{kind: textPart, tokens: words(text)}}
}

func think(text string) []part {
	return []part{{kind: reasoningPart, tokens: words(text)}}
}

func (p *prompt) mentions(phrase string) bool {
	return strings.Contains(strings.ToLower(p.text), phrase)
}

// count returns the number to count to, or zero if that is not asked.
func (p *prompt) count() int {
	match := countPattern.FindStringSubmatch(p.text)
	if match == nil {
		return 0
	}
	// What is too large for an integer is too large anyway.
	n, _ := strconv.Atoi(match[1])
	return min(n, maxCount)
}

// calls returns one call of the first tool, or two calls if the text wants
// them: of the first two tools, or of the only one twice.
func (p *prompt) calls() []part {
	callees := p.tools[:1]
	if p.parallel && (p.mentions("both") || p.mentions("parallel")) {
		callees = []tool{p.tools[0], p.tools[min(1, len(p.tools)-1)]}
	}
	places := p.places()
	parts := make([]part, len(callees))
	for i, callee := range callees {
		place := "x"
		if i < len(places) {
			place = places[i]
		}
		arguments := []byte(p.text)
		if callee.kind != customTool {
			arguments = instance(callee.schema, place, requiredProperties)
		}
		parts[i] = callee.call(arguments)
	}
	return parts
}

// places returns what the text names after " in ": "Rome" and "Oslo" in
// "weather in Rome and Oslo, both".
func (p *prompt) places() []string {
	text := parallelPattern.ReplaceAllString(p.text, "")
	_, list, found := strings.Cut(text, " in ")
	if !found {
		return nil
	}
	var places []string
	for place := range strings.SplitSeq(list, " and ") {
		place, _, _ = strings.Cut(place, ",")
		if place = strings.Trim(place, " ?.!"); place != "" {
			places = append(places, place)
		}
	}
	return places
}
