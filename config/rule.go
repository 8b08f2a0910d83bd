package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// A Rule sends requests to another model than the one that they name.
type Rule struct {
	// Match says which requests: those for which all of it holds.
	Match Match `yaml:"match"`
	// Model is the model that gets them, as clients would name it.
	Model string `yaml:"model"`
}

// A Match says which requests a [Rule] is for.
type Match struct {
	// LastUser is a regular expression (RE2) that the text of the last user message
	// matches, anywhere in it unless it begins with "^". It has at most 1024 bytes.
	LastUser string `yaml:"last_user"`
	// MaxChars is how many characters that text may have. Text of more than 16 KiB
	// matches no rule, whatever is said here. Left out, there is no other limit.
	MaxChars int `yaml:"max_chars" min:"1"`
}

// OutputMode is how a response says that tools are to be called. Empty means
// [OutputJSON].
type OutputMode string

// The output modes.
const (
	OutputJSON     OutputMode = "openai-json"  // as items, and no other way
	OutputObsidian OutputMode = "obsidian-xml" // also in a last message of use_tool blocks, for Obsidian Copilot
)

// Bounds of rules, which are matched with every request.
const (
	maxRules       = 100
	maxRulePattern = 1 << 10 // bytes
)

func (m OutputMode) check(p *problems) {
	switch m {
	case "", OutputJSON, OutputObsidian:
	default:
		p.addf("output_mode", "%q is not an output mode; use %s or %s", m, OutputJSON, OutputObsidian)
	}
}

func (c *Config) checkRules(p *problems) {
	if len(c.Rules) > maxRules {
		p.addf("rules", "there are %d; keep the first %d, or join patterns with |", len(c.Rules), maxRules)
		return
	}
	for i, r := range c.Rules {
		path := fmt.Sprintf("rules[%d]", i)
		r.Match.check(p, join(path, "match"))
		c.checkRuleModel(p, join(path, "model"), r.Model)
	}
}

func (m Match) check(p *problems, path string) {
	at := join(path, "last_user")
	switch {
	case m.LastUser == "":
		p.addf(at, "is missing; write a regular expression for the last user message")
	case len(m.LastUser) > maxRulePattern:
		p.addf(at, "has more than %d bytes; make it shorter", maxRulePattern)
	default:
		if _, err := regexp.Compile(m.LastUser); err != nil {
			p.addf(at, "is not a regular expression (RE2): %s", patternError(err))
		}
	}
	if m.MaxChars < 0 {
		p.addf(join(path, "max_chars"), "%d is less than nothing; leave it out for no limit", m.MaxChars)
	}
}

// patternError says what is wrong with a pattern without the package's name.
func patternError(err error) string {
	if e, ok := errors.AsType[*syntax.Error](err); ok {
		return fmt.Sprintf("%s in %q", e.Code, e.Expr)
	}
	return err.Error()
}

// checkRuleModel checks that the model is there, as far as a file can tell: if no
// models are written, the upstreams say which there are.
func (c *Config) checkRuleModel(p *problems, path, model string) {
	switch {
	case model == "":
		p.addf(path, "is missing; write the model that gets what matches")
	case strings.Contains(model, "*"):
		p.addf(path, "%q is a pattern; write the name of one model", model)
	case len(c.Models) > 0 && !slices.ContainsFunc(slices.Collect(maps.Keys(c.Models)), func(name string) bool {
		prefix, star := strings.CutSuffix(name, "*")
		return name == model || star && strings.HasPrefix(model, prefix)
	}):
		p.addf(path, "there is no model %q; add it under models", model)
	}
}
