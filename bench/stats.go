package main

import (
	"cmp"
	"math"
	"slices"
)

// percentile returns the value below which the given share (0 to 1) of the
// values lie: the smallest value that at least that share of them does not
// exceed. It is zero for no values. The values need not be sorted and are left
// as they are.
func percentile[T cmp.Ordered](values []T, share float64) T {
	if len(values) == 0 {
		var zero T
		return zero
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(share*float64(len(sorted)))) - 1
	return sorted[min(max(rank, 0), len(sorted)-1)]
}

// A spread is what several rounds of one measurement gave.
type spread struct{ low, median, high float64 }

// spreadOf summarises values; with an even number of them the median is the
// mean of the two in the middle.
func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return spread{low: sorted[0], median: (sorted[(n-1)/2] + sorted[n/2]) / 2, high: sorted[n-1]}
}

// paired divides the values of two series round by round. Rounds that stand next
// to each other in time suffer the same neighbours, so their ratio is steadier
// than the ratio of the averages.
func paired(numerators, denominators []float64) []float64 {
	var ratios []float64
	for i := range min(len(numerators), len(denominators)) {
		if denominators[i] > 0 {
			ratios = append(ratios, numerators[i]/denominators[i])
		}
	}
	return ratios
}
