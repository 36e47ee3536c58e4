// Package stats summarises repeated measurements.
package stats

import "slices"

// Number is what can be averaged: counts, bytes, rates, [time.Duration].
type Number interface {
	~int | ~int32 | ~int64 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// Median returns the middle of values, or the mean of the two in the middle,
// and 0 where there are none. values stay in their order.
func Median[T Number](values []T) T {
	median, _, _ := Spread(values)
	return median
}

// Spread returns the median, the least and the most of values, all 0 where
// there are none. values stay in their order.
func Spread[T Number](values []T) (median, least, most T) {
	n := len(values)
	if n == 0 {
		return 0, 0, 0
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1]
}
