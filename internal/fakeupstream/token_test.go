package fakeupstream

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTokens(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tokens tokens
		want   []string
	}{
		"words":              {words("You said: hi"), []string{"You", " said:", " hi"}},
		"white space":        {words(" a \n b\t"), []string{" a", " \n b\t"}},
		"only white space":   {words("  "), []string{"  "}},
		"nothing":            {words(""), []string{""}},
		"space of all kinds": {words("a\u00a0b"), []string{"a", "\u00a0b"}},
		"numbers":            {numbers(3), []string{"1", " 2", " 3"}},
		"short arguments":    {pieces([]byte("{}")), []string{"{", "}"}},
		"arguments":          {pieces([]byte(`{"city":"Rome"}`)), []string{`{"city":`, `"Rome"}`}},
		"long arguments":     {pieces([]byte(`{"city":"New York"}`)), []string{`{"city":`, `"New Yor`, `k"}`}},
		"between runes":      {pieces([]byte(`"ééééé"`)), []string{`"ééé`, `éé"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for tok := range tt.tokens {
				got = append(got, string(tok))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("tokens (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTokensMayBeLeftAndTakenAgain(t *testing.T) {
	t.Parallel()
	for name, seq := range map[string]tokens{"words": words("a b"), "numbers": numbers(2), "pieces": pieces([]byte("ab"))} {
		for range 2 {
			for tok := range seq {
				if !slices.Contains([]string{"a", "1"}, strings.TrimSpace(string(tok))) {
					t.Errorf("%s: first token %q", name, tok)
				}
				break
			}
		}
	}
}
