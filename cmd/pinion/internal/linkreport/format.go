package linkreport

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// digits prints a number with three significant digits, more where they stand
// before the point.
func digits(v float64) string {
	decimals := 2
	for limit := 9.995; v >= limit && decimals > 0; limit *= 10 {
		decimals--
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// gb prints bytes a second in units of 10^9.
func gb(rate float64) string { return digits(rate / 1e9) }

// duration splits a time into its number and unit.
func duration(d time.Duration) (number, unit string) {
	v := float64(d)
	for _, unit = range []string{"ns", "µs", "ms"} {
		if v < 999.5 {
			return digits(v), unit
		}
		v /= 1e3
	}
	return digits(v), "s"
}

func durationText(d time.Duration) string {
	number, unit := duration(d)
	return number + " " + unit
}

// bytesText prints a size without needless digits: "256 KiB", "1 GiB".
func bytesText(n int64) string {
	text := humanize.IBytes(uint64(max(n, 0)))
	return strings.Replace(text, ".0 ", " ", 1)
}

// bytesShort is a size for a narrow axis: "256K", "1G".
func bytesShort(n int64) string {
	number, unit, _ := strings.Cut(bytesText(n), " ")
	return number + strings.TrimSuffix(strings.TrimSuffix(unit, "iB"), "B")
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

// times prints a factor: "6.9", "12".
func times(v float64) string {
	if v < 9.95 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}
