package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	t.Parallel()
	const rest = " S 1 7 7 0 -1 4194560 2049 0 3 0 120 34 5 6 20 0 9 0 1234 1286787072 3102 18446744073709551615"
	tests := []struct {
		name, stat string
		want       time.Duration
		wantErr    string
	}{
		{name: "plain", stat: "7 (antiphon)" + rest, want: 1540 * time.Millisecond},
		{name: "name with spaces and parentheses", stat: "7 (a b) c (d)" + rest, want: 1540 * time.Millisecond},
		{name: "empty", stat: "", wantErr: "too few fields"},
		{name: "cut off before stime", stat: "7 (antiphon) S 1 7 7 0 -1 4194560 2049 0 3 0 120", wantErr: "too few fields"},
		{name: "no number", stat: strings.Replace("7 (antiphon)"+rest, " 34 ", " x ", 1), wantErr: "invalid syntax"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseStat([]byte(tt.stat))
			if !errorHas(err, tt.wantErr) {
				t.Fatalf("error: got %v, want %q", err, tt.wantErr)
			}
			if got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestParseStatus(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, status string
		want         memory
		wantErr      string
	}{
		{
			name:   "running",
			status: "Name:\tantiphon\nState:\tS (sleeping)\nVmPeak:\t 1256628 kB\nVmHWM:\t   20480 kB\nVmRSS:\t   12408 kB\nThreads:\t9\n",
			want:   memory{now: 12408 << 10, peak: 20480 << 10},
		},
		{name: "ended", status: "Name:\tantiphon\nState:\tZ (zombie)\nThreads:\t1\n", wantErr: "no VmRSS"},
		{name: "other unit", status: "VmHWM:\t1 kB\nVmRSS:\t1 MB\n", wantErr: "cannot read"},
		{name: "no number", status: "VmHWM:\tx kB\n", wantErr: "cannot read"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseStatus([]byte(tt.status))
			if !errorHas(err, tt.wantErr) {
				t.Fatalf("error: got %v, want %q", err, tt.wantErr)
			}
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestOwnProcess reads the real files.
func TestOwnProcess(t *testing.T) {
	t.Parallel()
	m, err := memoryOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if m.now < 1<<20 || m.peak < m.now/2 {
		t.Errorf("memory of this process: got %+v, want at least a MiB and a peak of that size", m)
	}
	before, err := cpuTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); ; {
		after, err := cpuTime(os.Getpid())
		switch {
		case err != nil:
			t.Fatal(err)
		case after > before:
			return
		case time.Since(began) > 30*time.Second:
			t.Fatalf("the CPU time stays at %v although this loop runs", before)
		}
	}
}

// errorHas reports whether err is nil where part is empty, and otherwise
// contains it.
func errorHas(err error, part string) bool {
	if part == "" || err == nil {
		return part == "" && err == nil
	}
	return strings.Contains(err.Error(), part)
}
