package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMain lets the test binary be the servers that bench runs as children of
// its own.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "proxy" || os.Args[1] == "replay") {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func TestParse(t *testing.T) {
	t.Parallel()
	spine := []string{"events", "allocs", "streams", "million", "stall"}
	var all []string
	for _, m := range measurements {
		all = append(all, m.name)
	}
	tests := []struct {
		name  string
		args  []string
		want  []string // measurements
		small bool
		json  string
	}{
		{name: "nothing", want: all},
		{name: "flag only", args: []string{"--small"}, want: all, small: true},
		{name: "spine", args: []string{"spine"}, want: spine},
		{name: "flag behind", args: []string{"spine", "--small"}, want: spine, small: true},
		{name: "flags around", args: []string{"--json", "f", "ttft", "--small", "allocs"}, want: []string{"allocs", "ttft"}, small: true, json: "f"},
		{name: "spine and more", args: []string{"ttft", "spine", "relay"}, want: append(spine[:5:5], "relay", "ttft")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := parse(tt.args, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range s.chosen {
				got = append(got, m.name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("measurements (-want +got):\n%s", diff)
			}
			if s.small != tt.small || s.jsonFile != tt.json {
				t.Errorf("got small %t, json %q; want %t, %q", s.small, s.jsonFile, tt.small, tt.json)
			}
		})
	}
}

func TestWrongCommandLine(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		code int
		says string
	}{
		{"unknown measurement", []string{"evnts"}, 2, `no measurement "evnts"`},
		{"unknown flag", []string{"--large"}, 2, "-large"},
		{"help", []string{"--help"}, 0, "usage: bench"},
		{"proxy without target", []string{"proxy"}, 2, "--target"},
		{"child with unknown flag", []string{"replay", "--bogus"}, 2, "-bogus"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var said bytes.Buffer
			if code := run(t.Context(), tt.args, io.Discard, &said); code != tt.code {
				t.Errorf("exit code: got %d, want %d", code, tt.code)
			}
			if !strings.Contains(said.String(), tt.says) {
				t.Errorf("it said %q, want %q in it", said.String(), tt.says)
			}
		})
	}
}
