package main

import (
	"bytes"
	"flag"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/antiphon-dev/antiphon/internal/promtext"
)

var updateTop = flag.Bool("update", false, "rewrite testdata/top")

// TestTopShows: what happened between two scrapes, in numbers that can be checked
// by hand (R35). -update rewrites what is shown.
func TestTopShows(t *testing.T) {
	t.Parallel()
	const file = "testdata/top/view.txtar"
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	before := &scrape{at, read(t, a.Files[0].Data)}
	now := &scrape{at.Add(2 * time.Second), read(t, a.Files[1].Data)}
	got := newView(before, now).render("http://127.0.0.1:4101")
	if *updateTop {
		a.Files[2].Data = []byte(got)
		if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(a.Files[2].Data), got); diff != "" {
		t.Error(diff)
	}
}

func read(t *testing.T, text []byte) *promtext.Metrics {
	t.Helper()
	m, err := promtext.Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	for _, tt := range []struct {
		name    string
		buckets map[float64]float64
		q, want float64
	}{
		{"nothing", nil, .5, math.NaN()},
		{"nothing counted", map[float64]float64{1: 0, inf: 0}, .5, math.NaN()},
		{"evenly within a bucket", map[float64]float64{1: 0, 2: 10, inf: 10}, .5, 1.5},
		{"the first bucket", map[float64]float64{1: 10, inf: 10}, .95, .95},
		{"beyond the last bound", map[float64]float64{1: 1, inf: 10}, .95, 1},
	} {
		if got := quantile(tt.buckets, tt.q); got != tt.want && !(math.IsNaN(got) && math.IsNaN(tt.want)) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestTopSurvives: what an address may say that is no gateway's, or that a terminal
// would obey, or that has no end.
func TestTopSurvives(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, want string
		answer     http.HandlerFunc
	}{
		{"no metrics", "no metrics", func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }},
		{"another page", "not understood", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>\n")) }},
		{"no key", "wants its admin key", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }},
		{"elsewhere", "the answer is 302", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}},
		{"no end", "too large", func(w http.ResponseWriter, _ *http.Request) {
			line := []byte(strings.Repeat("# "+strings.Repeat("more", 250)+"\n", 64))
			for err := error(nil); err == nil; {
				_, err = w.Write(line)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(tt.answer)
			defer server.Close()
			var stdout, stderr bytes.Buffer
			p := &program{stdout: &stdout, stderr: &stderr, lookupEnv: func(string) (string, bool) { return "", false }}
			if code := p.run(t.Context(), []string{"top", "--once", "--admin", server.URL}); code != exitFail || !strings.Contains(stderr.String(), tt.want) {
				t.Errorf("exit code %d, %s", code, stderr.String())
			}
		})
	}
	hostile := `antiphon_target_up{upstream="a` + "\x1b" + `[2J",model="m"} 1` + "\n"
	s := &scrape{time.Now(), read(t, []byte(hostile))}
	if got := newView(s, s).render("x"); strings.Contains(got, "\x1b") {
		t.Errorf("%q", got)
	}
}
