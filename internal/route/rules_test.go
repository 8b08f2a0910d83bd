package route_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/route"
	"github.com/antiphon-dev/antiphon/responses"
)

// TestRulesMatch: the first rule whose pattern the last user message matches says
// the model (R20).
func TestRulesMatch(t *testing.T) {
	t.Parallel()
	rules, err := route.NewRules([]route.Rule{
		{LastUser: `(?i)^generate a (short )?title`, MaxChars: 40, Model: "fast"},
		{LastUser: `title`, Model: "second"},
		{LastUser: `^$`, Model: "empty"},
		{LastUser: `^x*$`, Model: "long"},
	})
	if err != nil {
		t.Fatal(err)
	}
	const title = `{"role":"user","content":"Generate a short title for this"}`
	for name, tt := range map[string]struct {
		body string
		want string // index and model, "" for none
	}{
		"a plain input":                    {`{"model":"m","input":"generate a title"}`, "0 fast"},
		"the first of two":                 {`{"model":"m","input":[` + title + `]}`, "0 fast"},
		"too long for the first":           {`{"model":"m","input":"generate a title of more than forty characters"}`, "1 second"},
		"characters are not bytes":         {`{"model":"m","input":"generate a title ` + strings.Repeat("é", 23) + `"}`, "0 fast"},
		"one character too many":           {`{"model":"m","input":"generate a title ` + strings.Repeat("é", 24) + `"}`, "1 second"},
		"nothing matches":                  {`{"model":"m","input":"hello"}`, ""},
		"what the assistant says":          {`{"model":"m","input":[{"role":"user","content":"hello"},{"role":"assistant","content":"generate a title"}]}`, ""},
		"what the user said before":        {`{"model":"m","input":[` + title + `,{"role":"user","content":"hello"}]}`, ""},
		"the turns after a call":           {`{"model":"m","input":[` + title + `,{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"}]}`, "0 fast"},
		"text in pieces":                   {`{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"generate "},{"type":"input_image","image_url":"https://h.test/i"},{"type":"input_text","text":"a title"}]}]}`, "0 fast"},
		"a system message":                 {`{"model":"m","input":[{"role":"system","content":"generate a title"}]}`, ""},
		"a message without text":           {`{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"https://h.test/i"}]}]}`, "2 empty"},
		"the longest text":                 {`{"model":"m","input":"` + strings.Repeat("x", 16<<10) + `"}`, "3 long"},
		"beyond the bound of every rule":   {`{"model":"m","input":"` + strings.Repeat("x", 16<<10+1) + `"}`, ""},
		"many pieces beyond the bound":     {`{"model":"m","input":[{"role":"user","content":[` + strings.Repeat(`{"type":"input_text","text":"xxxxxxxx"},`, 2<<10) + `{"type":"input_text","text":"x"}]}]}`, ""},
		"without a model nothing is asked": {`{"input":"generate a title"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req, err := responses.DecodeRequest([]byte(tt.body), nil)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if i, model, ok := rules.Match(req); ok {
				got = fmt.Sprint(i, " ", model)
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if _, _, ok := (*route.Rules)(nil).Match(req); ok {
				t.Error("no rules match")
			}
		})
	}
}

// TestRulesRefused: what is not sound, or not bounded, is no set of rules (R20).
func TestRulesRefused(t *testing.T) {
	t.Parallel()
	good := route.Rule{LastUser: "x", Model: "m"}
	for name, tt := range map[string]struct {
		list []route.Rule
		want string // "" if they are sound
	}{
		"none":               {nil, ""},
		"as many as can be":  {slices.Repeat([]route.Rule{good}, 100), ""},
		"too many":           {slices.Repeat([]route.Rule{good}, 101), "101 rules"},
		"no model":           {[]route.Rule{good, {LastUser: "x"}}, "rule 1: it has no model"},
		"no pattern":         {[]route.Rule{{Model: "m"}}, "rule 0: it has no pattern"},
		"a broken pattern":   {[]route.Rule{{LastUser: "(", Model: "m"}}, "missing closing )"},
		"a pattern too long": {[]route.Rule{{LastUser: strings.Repeat("x", 1025), Model: "m"}}, "1024 bytes"},
		"a negative bound":   {[]route.Rule{{LastUser: "x", Model: "m", MaxChars: -1}}, "negative"},
		"two at once":        {[]route.Rule{{}, {LastUser: "x"}}, "rule 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rules, err := route.NewRules(tt.list)
			if (rules == nil) != (len(tt.list) == 0 || tt.want != "") {
				t.Errorf("got the rules %v", rules)
			}
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got the error %v, want %q", err, tt.want)
			}
		})
	}
}
