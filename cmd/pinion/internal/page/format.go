package page

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Digits prints a number with three significant digits, more where they stand
// before the point.
func Digits(v float64) string {
	decimals := 2
	for limit := 9.995; v >= limit && decimals > 0; limit *= 10 {
		decimals--
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// Duration splits a time into its number and unit.
func Duration(d time.Duration) (number, unit string) {
	v := float64(d)
	for _, unit = range []string{"ns", "µs", "ms"} {
		if v < 999.5 {
			return Digits(v), unit
		}
		v /= 1e3
	}
	return Digits(v), "s"
}

// DurationText prints a time with its unit.
func DurationText(d time.Duration) string {
	number, unit := Duration(d)
	return number + " " + unit
}

// Bytes prints a size without needless digits: "256 KiB", "1 GiB".
func Bytes(n int64) string {
	text := humanize.IBytes(uint64(max(n, 0)))
	return strings.Replace(text, ".0 ", " ", 1)
}

// BytesShort is a size for a narrow axis: "256K", "1G".
func BytesShort(n int64) string {
	number, unit, _ := strings.Cut(Bytes(n), " ")
	return number + strings.TrimSuffix(strings.TrimSuffix(unit, "iB"), "B")
}

// Percent prints a share.
func Percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }
