package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPercentile(t *testing.T) {
	t.Parallel()
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	tests := []struct {
		name   string
		values []int
		share  float64
		want   int
	}{
		{"none", nil, 0.5, 0},
		{"one", []int{7}, 0.99, 7},
		{"median of three", []int{9, 1, 5}, 0.5, 5},
		{"median of four is the lower", []int{4, 3, 2, 1}, 0.5, 2},
		{"p50 of a hundred", hundred, 0.50, 50},
		{"p99 of a hundred", hundred, 0.99, 99},
		{"all", hundred, 1, 100},
		{"least", hundred, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := percentile(tt.values, tt.share); got != tt.want {
				t.Errorf("percentile(%v): got %d, want %d", tt.share, got, tt.want)
			}
		})
	}
	if hundred[0] != 100 {
		t.Error("percentile sorted the caller's values")
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		values []float64
		want   spread
	}{
		{"none", nil, spread{}},
		{"odd", []float64{3, 1, 2}, spread{1, 2, 3}},
		{"even", []float64{4, 1, 2, 3}, spread{1, 2.5, 4}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := spreadOf(tt.values); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestPaired(t *testing.T) {
	t.Parallel()
	got := paired([]float64{1, 2, 3, 4}, []float64{2, 0, 6})
	if diff := cmp.Diff([]float64{0.5, 0.5}, got); diff != "" {
		t.Errorf("a round without a denominator, or without a partner, must not count (-want +got):\n%s", diff)
	}
}
