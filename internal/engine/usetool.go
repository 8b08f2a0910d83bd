package engine

import (
	"encoding/json/jsontext"
	"slices"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
)

// useToolBlocks renders the calls that a client must run, in their order, as
// <use_tool> blocks that may be joined as they are.
func useToolBlocks(items []responses.Item) []string {
	var blocks []string
	for _, it := range items {
		var b strings.Builder
		switch it := it.(type) {
		case *responses.FunctionCall:
			writeUseTool(&b, it.Name, func() { writeArguments(&b, it.Arguments) })
		case *responses.CustomToolCall:
			writeUseTool(&b, it.Name, func() { writeElement(&b, "input", it.Input) })
		default:
			continue
		}
		if len(blocks) > 0 {
			blocks[len(blocks)-1] += "\n"
		}
		blocks = append(blocks, b.String())
	}
	return blocks
}

func writeUseTool(b *strings.Builder, name string, arguments func()) {
	b.WriteString("<use_tool>\n")
	writeElement(b, "name", name)
	arguments()
	b.WriteString("</use_tool>")
}

// writeArguments writes an element for each member of a JSON object. What is no
// object, because a model wrote it, is shown as it is.
func writeArguments(b *strings.Builder, arguments string) {
	object := jsontext.Value(arguments)
	switch {
	case strings.TrimSpace(arguments) == "":
		return
	case !object.IsValid() || object.Kind() != '{':
		writeElement(b, "input", arguments)
		return
	}
	for name, value := range responses.Members(object) {
		writeElement(b, elementName(name), argumentText(value))
	}
}

// argumentText is a string as its text, any other value as compact JSON.
func argumentText(v jsontext.Value) string {
	if v.Kind() == '"' {
		text, err := jsontext.AppendUnquote(nil, v)
		if err == nil { // always: the object was valid
			return string(text)
		}
	}
	compact := slices.Clone(v)
	if compact.Compact() != nil {
		return string(v)
	}
	return string(compact)
}

// escapeText keeps text from ending its element or beginning another.
var escapeText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// writeElement writes text as the content of an element on a line of its own.
func writeElement(b *strings.Builder, name, text string) {
	b.WriteString("<" + name + ">")
	_, _ = escapeText.WriteString(b, text) // a Builder never fails
	b.WriteString("</" + name + ">\n")
}

// elementName returns the name of an argument with whatever an element's name
// cannot have replaced by an underscore: the model chose it, perhaps to write
// markup of its own.
func elementName(s string) string {
	name := strings.Map(func(r rune) rune {
		if isNameStart(r) || r >= '0' && r <= '9' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, s)
	if name == "" || !isNameStart(rune(name[0])) {
		return "_" + name
	}
	return name
}

func isNameStart(r rune) bool {
	return r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}
