package route

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/antiphon-dev/antiphon/responses"
)

// Bounds of rules: they are matched with every request.
const (
	maxRules       = 100
	maxRulePattern = 1 << 10  // bytes
	maxRuleText    = 16 << 10 // bytes; what is longer is no utility prompt
)

// A Rule sends requests to another model than the one that they name: those that
// ask for a chat's title, say, to a cheap one.
type Rule struct {
	// LastUser is a regular expression (RE2) that the text of the request's last
	// user message matches, anywhere in it unless it is anchored. It is required.
	LastUser string
	// MaxChars is how many characters that text may have. Zero means no bound but
	// the one of all rules, 16 KiB.
	MaxChars int
	// Model is the name of the model that gets the request, as clients would write
	// it. It is required.
	Model string
}

// Rules are rules in order. They are immutable and safe for concurrent use. Nil
// has none.
type Rules struct {
	list []compiledRule
}

type compiledRule struct {
	Rule
	pattern *regexp.Regexp
}

// NewRules compiles at most 100 rules; none are nil. The error names every rule that is not
// sound.
func NewRules(list []Rule) (*Rules, error) {
	if len(list) > maxRules {
		return nil, fmt.Errorf("there are %d rules; at most %d are matched with every request", len(list), maxRules)
	}
	if len(list) == 0 {
		return nil, nil
	}
	rules := new(Rules)
	var errs []error
	for i, r := range list {
		pattern, err := r.compile()
		if err != nil {
			errs = append(errs, fmt.Errorf("rule %d: %w", i, err))
		}
		rules.list = append(rules.list, compiledRule{r, pattern})
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return rules, nil
}

func (r *Rule) compile() (*regexp.Regexp, error) {
	switch {
	case r.Model == "":
		return nil, errors.New("it has no model")
	case r.LastUser == "":
		return nil, errors.New("it has no pattern, so that it would match every request")
	case len(r.LastUser) > maxRulePattern:
		return nil, fmt.Errorf("its pattern has more than %d bytes", maxRulePattern)
	case r.MaxChars < 0:
		return nil, errors.New("its bound of characters is negative")
	}
	return regexp.Compile(r.LastUser)
}

// Match returns the index of the first rule that the request matches, and its
// model. A request that names no model matches none: it is refused whatever it
// says.
func (r *Rules) Match(req *responses.Request) (index int, model string, ok bool) {
	if r == nil || req.Model == "" {
		return 0, "", false
	}
	text, ok := lastUserText(req.Input.Items)
	if !ok {
		return 0, "", false
	}
	chars := utf8.RuneCountInString(text)
	for i := range r.list {
		rule := &r.list[i]
		if (rule.MaxChars == 0 || chars <= rule.MaxChars) && rule.pattern.MatchString(text) {
			return i, rule.Model, true
		}
	}
	return 0, "", false
}

// lastUserText joins the text of the last user message, false if there is none
// that is short enough to be matched.
func lastUserText(items []responses.Item) (string, bool) {
	for i := len(items) - 1; i >= 0; i-- {
		m, ok := items[i].(*responses.Message)
		if !ok || m.Role != responses.RoleUser {
			continue
		}
		var text strings.Builder
		for _, p := range m.Content.Parts {
			t := responses.TextOf([]responses.Part{p})
			if text.Len()+len(t) > maxRuleText {
				return "", false
			}
			text.WriteString(t)
		}
		return text.String(), true
	}
	return "", false
}
