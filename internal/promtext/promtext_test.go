package promtext_test

import (
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/antiphon-dev/antiphon/internal/promtext"
)

func TestRead(t *testing.T) {
	t.Parallel()
	m, err := promtext.Read(strings.NewReader(`# HELP a What it is.
# TYPE a counter
a 1
a{b="c",d="e \"f\" \\ \n"} 2.5e+06

# a comment
h_bucket{le="+Inf"} +Inf
`))
	if err != nil {
		t.Fatal(err)
	}
	want := &promtext.Metrics{
		Types: map[string]string{"a": "counter"},
		Samples: []promtext.Sample{
			{Name: "a", Value: 1},
			{Name: "a", Labels: map[string]string{"b": "c", "d": "e \"f\" \\ \n"}, Value: 2.5e6},
			{Name: "h_bucket", Labels: map[string]string{"le": "+Inf"}, Value: math.Inf(1)},
		},
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
	if got, want := m.Samples[1].String(), `a{b="c",d="e \"f\" \\ \n"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What is not understood is never left out in silence.
func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no number":         "a\n",
		"no name":           "1 2\n",
		"words":             "a one\n",
		"html":              "<html>\n",
		"open labels":       "a{b=\"c\" 1\n",
		"open value":        "a{b=\"c 1\n",
		"bad escape":        "a{b=\"\\x\"} 1\n",
		"unquoted":          "a{b=c} 1\n",
		"a label twice":     "a{b=\"c\",b=\"d\"} 1\n",
		"no space":          "a{b=\"c\"}1\n",
		"cut off":           "a 1\na 1",
		"a line too long":   "a{b=\"" + strings.Repeat("x", 70<<10) + "\"} 1\n",
		"too many labels":   "a{" + manyLabels(65) + "} 1\n",
		"a timestamp":       "a 1 1700000000000\n",
		"nothing in labels": "a{,} 1\n",
	} {
		if m, err := promtext.Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

func manyLabels(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat("x", i+1) + `="",`)
	}
	return b.String()
}

// endless never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '\n'
	}
	return len(p), nil
}

func TestReadIsBounded(t *testing.T) {
	t.Parallel()
	if _, err := promtext.Read(endless{}); !errors.Is(err, promtext.ErrTooLarge) {
		t.Errorf("bytes: %v", err)
	}
	if _, err := promtext.Read(strings.NewReader(strings.Repeat("a 1\n", promtext.MaxSamples+1))); !errors.Is(err, promtext.ErrTooLarge) {
		t.Errorf("samples: %v", err)
	}
	broken := io.MultiReader(strings.NewReader("a 1\n"), iotestErr{})
	if _, err := promtext.Read(broken); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the reader's error: %v", err)
	}
}

type iotestErr struct{}

func (iotestErr) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

// FuzzRead: what is read says the same when it is written and read again.
func FuzzRead(f *testing.F) {
	f.Add("# TYPE a counter\na{b=\"c\\n\\\"\"} 1\n")
	f.Add("a:b 1e9\n\n")
	f.Add("a{} NaN\n")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := promtext.Read(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, s := range m.Samples {
			again, err := promtext.Read(strings.NewReader(s.String() + " 1\n"))
			if err != nil || len(again.Samples) != 1 || again.Samples[0].String() != s.String() {
				t.Errorf("%s: %+v, %v", &s, again, err)
			}
		}
	})
}
