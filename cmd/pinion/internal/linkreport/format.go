package linkreport

import (
	"strconv"

	"github.com/pinion-gpu/pinion/internal/units"
)

// gb prints bytes a second in units of 10^9.
func gb(rate float64) string { return units.Digits(rate / 1e9) }

// times prints a factor: "6.9", "12".
func times(v float64) string {
	if v < 9.95 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}
