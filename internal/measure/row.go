package measure

import (
	"time"

	"github.com/pinion-gpu/pinion/internal/stats"
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
	median, least, most := stats.Spread(values)
	return Row{Name: name, By: by, Unit: unit, Value: median, Min: least, Max: most}
}

// Since is the time since start in units of unit. It is above zero even where a
// coarse clock saw no time pass, so that a rate is always a number.
func Since(start time.Time, unit time.Duration) float64 {
	return float64(max(time.Since(start), 1)) / float64(unit)
}
