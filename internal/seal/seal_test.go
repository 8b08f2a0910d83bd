package seal_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/antiphon-dev/antiphon/internal/seal"
)

func keyOf(b byte) []byte { return bytes.Repeat([]byte{b}, seal.KeySize) }

func sealer(t testing.TB, keys ...[]byte) *seal.Sealer {
	t.Helper()
	s, err := seal.New(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEnvelopeOpensOnlyWhereItBelongs(t *testing.T) {
	t.Parallel()
	s := sealer(t, keyOf(1))
	envelope := s.Seal("reasoning", "team-a", []byte("the thought"))
	if strings.Contains(envelope, "thought") {
		t.Fatal("the envelope shows what is in it")
	}
	flipped := []byte(envelope)
	if at := len(flipped) - 10; flipped[at] == 'A' {
		flipped[at] = 'B'
	} else {
		flipped[at] = 'A'
	}
	for name, test := range map[string]struct {
		by                        *seal.Sealer
		purpose, tenant, envelope string
		want                      error
	}{
		"where it belongs":        {s, "reasoning", "team-a", envelope, nil},
		"after a restart":         {sealer(t, keyOf(1)), "reasoning", "team-a", envelope, nil},
		"after rotation":          {sealer(t, keyOf(2), keyOf(1)), "reasoning", "team-a", envelope, nil},
		"after the key is gone":   {sealer(t, keyOf(2)), "reasoning", "team-a", envelope, seal.ErrUnknownKey},
		"another tenant":          {s, "reasoning", "team-b", envelope, seal.ErrBroken},
		"another purpose":         {s, "compaction", "team-a", envelope, seal.ErrBroken},
		"shifted between the two": {s, "reasoningt", "eam-a", envelope, seal.ErrBroken},
		"a changed character":     {s, "reasoning", "team-a", string(flipped), seal.ErrBroken},
		"cut short":               {s, "reasoning", "team-a", envelope[:len("antiphon1.")+60], seal.ErrBroken},
		"cut to the key id":       {s, "reasoning", "team-a", envelope[:len("antiphon1.")+12], seal.ErrBroken},
		"cut to nothing":          {s, "reasoning", "team-a", "antiphon1.", seal.ErrForeign},
		"not base64":              {s, "reasoning", "team-a", "antiphon1.!!!!", seal.ErrForeign},
		"of another provider":     {s, "reasoning", "team-a", "gAAAAABo", seal.ErrForeign},
		"empty":                   {s, "reasoning", "team-a", "", seal.ErrForeign},
		"too long":                {s, "reasoning", "team-a", "antiphon1." + strings.Repeat("A", seal.MaxEnvelope), seal.ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := test.by.Open(test.purpose, test.tenant, test.envelope)
			if !errors.Is(err, test.want) {
				t.Fatalf("got %v, want %v", err, test.want)
			}
			if test.want == nil && string(got) != "the thought" {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestEveryFlippedBitIsSeen(t *testing.T) {
	t.Parallel()
	s := sealer(t, keyOf(1))
	envelope := s.Seal("p", "t", []byte("x"))
	for i := range len(envelope) {
		for bit := range 8 {
			b := []byte(envelope)
			b[i] ^= 1 << bit
			if _, err := s.Open("p", "t", string(b)); err == nil {
				t.Fatalf("bit %d of byte %d may be flipped", bit, i)
			}
		}
	}
}

func TestSameTextSealsDifferently(t *testing.T) {
	t.Parallel()
	s := sealer(t)
	if first := s.Seal("p", "t", []byte("x")); first == s.Seal("p", "t", []byte("x")) {
		t.Error("equal texts can be recognised by their envelopes")
	}
}

func TestKeysAreChecked(t *testing.T) {
	t.Parallel()
	if _, err := seal.New([]byte("short")); err == nil {
		t.Error("a short key was accepted")
	}
	if _, err := seal.New(keyOf(1), keyOf(2), keyOf(1)); err == nil {
		t.Error("the same key twice was accepted")
	}
}

func FuzzOpen(f *testing.F) {
	s := sealer(f, keyOf(1), keyOf(2))
	f.Add(s.Seal("p", "t", []byte("hello")))
	f.Add("antiphon1.AAAA")
	f.Fuzz(func(t *testing.T, envelope string) {
		plain, err := s.Open("p", "t", envelope)
		if err == nil && s.Seal("p", "t", plain) == "" {
			t.Error("what opens does not seal")
		}
		if err != nil && !errors.Is(err, seal.ErrForeign) && !errors.Is(err, seal.ErrUnknownKey) && !errors.Is(err, seal.ErrBroken) {
			t.Errorf("an error that is not ours: %v", err)
		}
	})
}

func FuzzRoundTrip(f *testing.F) {
	s := sealer(f, keyOf(3))
	f.Add("reasoning", "team", []byte("text"), "other")
	f.Fuzz(func(t *testing.T, purpose, tenant string, plain []byte, other string) {
		envelope := s.Seal(purpose, tenant, plain)
		got, err := s.Open(purpose, tenant, envelope)
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("got %q and %v, want %q", got, err, plain)
		}
		if other != tenant {
			if _, err := s.Open(purpose, other, envelope); err == nil {
				t.Error("it opens for another tenant")
			}
		}
	})
}
