package engine

import (
	"encoding/xml"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/responses"
)

// TestUseToolBlocks: what Obsidian Copilot reads of each kind of call, whatever a
// model puts into it (R19).
func TestUseToolBlocks(t *testing.T) {
	t.Parallel()
	call := func(arguments string) []responses.Item {
		return []responses.Item{&responses.FunctionCall{Name: "f", Arguments: arguments}}
	}
	block := func(lines ...string) string {
		return "<use_tool>\n" + strings.Join(lines, "\n") + "\n</use_tool>"
	}
	for name, tt := range map[string]struct {
		items []responses.Item
		want  string
	}{
		"nothing":                         {nil, ""},
		"no calls":                        {[]responses.Item{&responses.Message{}, &responses.Reasoning{}, &responses.ToolSearchCall{}}, ""},
		"no arguments":                    {call(`{}`), block("<name>f</name>")},
		"not even an object of arguments": {call(" "), block("<name>f</name>")},
		"every kind of value": {
			call(`{"s": "a\nb", "n": 1.50, "b": true, "z": null, "l": [1, "x"], "o": {"k": [ ]}}`),
			block("<name>f</name>", "<s>a\nb</s>", "<n>1.50</n>", "<b>true</b>", "<z>null</z>", `<l>[1,"x"]</l>`, `<o>{"k":[]}</o>`),
		},
		"the order of the object": {call(`{"b":"1","a":"2"}`), block("<name>f</name>", "<b>1</b>", "<a>2</a>")},
		"markup in text":          {call(`{"q":"</q></use_tool><use_tool>&amp;"}`), block("<name>f</name>", "<q>&lt;/q&gt;&lt;/use_tool&gt;&lt;use_tool&gt;&amp;amp;</q>")},
		"markup inside a value":   {call(`{"q":["</q>"]}`), block("<name>f</name>", `<q>["&lt;/q&gt;"]</q>`)},
		"markup as a name":        {call(`{"a b></x>":1,"":2,"1é":3}`), block("<name>f</name>", "<a_b___x_>1</a_b___x_>", "<_>2</_>", "<_1_>3</_1_>")},
		"arguments cut short":     {call(`{"q":"a`), block("<name>f</name>", `<input>{"q":"a</input>`)},
		"arguments are a list":    {call(`[1]`), block("<name>f</name>", `<input>[1]</input>`)},
		"an argument twice":       {call(`{"q":1,"q":2}`), block("<name>f</name>", `<input>{"q":1,"q":2}</input>`)},
		"free-form": {
			[]responses.Item{&responses.CustomToolCall{Name: "sh", Input: "a < b && c"}},
			block("<name>sh</name>", "<input>a &lt; b &amp;&amp; c</input>"),
		},
		"a name with markup": {[]responses.Item{&responses.FunctionCall{Name: "<f>"}}, block("<name>&lt;f&gt;</name>")},
		"several, in order": {
			[]responses.Item{&responses.FunctionCall{Name: "b"}, &responses.Message{}, &responses.CustomToolCall{Name: "a"}},
			block("<name>b</name>") + "\n" + block("<name>a</name>", "<input></input>"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := strings.Join(useToolBlocks(tt.items), "")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("blocks (-want +got):\n%s", diff)
			}
			if err := xml.Unmarshal([]byte("<all>"+got+"</all>"), new(struct{})); err != nil {
				t.Errorf("%v: %s", err, got)
			}
		})
	}
}
