package config

import (
	"errors"
	"fmt"
	"strings"
)

// expand replaces each ${NAME} in s by the variable of that name, once: what a
// variable holds is not looked at again. $${ stands for ${ itself, and any other
// $ for itself. A variable that is not set, or empty, is an error: an empty
// credential or address would fail later and say less.
func expand(s string, lookup func(string) (string, bool)) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, "${")
		if !found {
			return b.String() + s, nil
		}
		if literal, escaped := strings.CutSuffix(before, "$"); escaped {
			b.WriteString(literal + "${")
			s = rest
			continue
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", errors.New("${ has no closing brace; write ${NAME}, or $${ for the characters themselves")
		}
		if !isVariable(name) {
			return "", fmt.Errorf("${%s} is not a reference to the environment; write ${NAME}, or $${ for the characters themselves", name)
		}
		value, _ := lookup(name)
		if value == "" {
			return "", fmt.Errorf("the environment variable %s is not set; set it before the start", name)
		}
		b.WriteString(before + value)
		s = after
	}
}

func isVariable(name string) bool {
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
