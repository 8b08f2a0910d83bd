package config_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/config"
)

// TestRulesOfPrograms: what a file cannot say, and what it need not, is checked
// too (R20, R36).
func TestRulesOfPrograms(t *testing.T) {
	t.Parallel()
	good := config.Rule{Match: config.Match{LastUser: "x"}, Model: "any"}
	for name, tt := range map[string]struct {
		rules []config.Rule
		mode  config.OutputMode
		want  string // "" if it is valid
	}{
		"nothing":              {nil, "", ""},
		"a model of upstreams": {[]config.Rule{good}, config.OutputJSON, ""},
		"as many as can be":    {slices.Repeat([]config.Rule{good}, 100), "", ""},
		"too many":             {slices.Repeat([]config.Rule{good}, 101), "", "rules: there are 101; keep the first 100, or join patterns with |"},
		"a negative bound": {
			[]config.Rule{{Match: config.Match{LastUser: "x", MaxChars: -1}, Model: "m"}}, "",
			"rules[0].match.max_chars: -1 is less than nothing; leave it out for no limit",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config.Default()
			c.Upstreams = map[string]config.Upstream{"u": {URL: "http://127.0.0.1"}}
			c.Rules, c.OutputMode = tt.rules, tt.mode
			got := ""
			if err := c.Validate(); err != nil {
				got = strings.TrimSpace(err.Error())
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
