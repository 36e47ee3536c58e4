package measure

import (
	"slices"
	"time"
)

// Row is one figure: the median of its repeats, with the least and the most.
type Row struct {
	Name  string  `json:"name"`
	By    string  `json:"by,omitempty"` // who did it, where rows of one name are compared
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
}

// NewRow is the row of these values, of which there is at least one.
func NewRow(name, by, unit string, values []float64) Row {
	return Row{Name: name, By: by, Unit: unit, Value: Median(values), Min: slices.Min(values), Max: slices.Max(values)}
}

// Since is the time since start in units of unit. It is above zero even where a
// coarse clock saw no time pass, so that a rate is always a number.
func Since(start time.Time, unit time.Duration) float64 {
	return float64(max(time.Since(start), 1)) / float64(unit)
}

// Median is the middle of values, of which there is at least one, or the mean of
// the two in the middle.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
