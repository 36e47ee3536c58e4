package harness

import (
	"runtime"
	"slices"
	"time"
)

// Since is the time since start in units of unit. A coarse clock may see no
// time pass, but a figure must not be nothing, and a rate must be a number.
func Since(start time.Time, unit time.Duration) float64 {
	return float64(max(time.Since(start), 1)) / float64(unit)
}

// Median is the middle of values, or the mean of the two in the middle. There
// is at least one value, and their order stays as it is.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// HeapBytes is what is live in the Go heap.
func HeapBytes() int64 {
	runtime.GC()
	runtime.GC() // pools keep what they have for one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
