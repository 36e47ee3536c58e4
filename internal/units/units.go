// Package units prints quantities for people, each in one way: sizes in binary
// units, rates in GB/s, times and numbers with three significant digits, and
// counts with the plural that they need.
//
// Reading sizes and grouping digits is left to github.com/dustin/go-humanize,
// which only this package imports. Its IBytes prints two digits, too few to
// tell 1.46 from 1.54 GiB.
package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/pinion-gpu/pinion/internal/errs"
)

var binary = []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// Bytes prints a size with three significant digits: "512 B", "1.50 GiB". A
// whole number of the unit has no decimals: "256 KiB" is exact, "256.0 KiB"
// would not be more so.
func Bytes(n int64) string {
	value, unit := scale(n)
	if value == math.Trunc(value) && math.Abs(value) < 1024 && exact(n, unit) {
		return strconv.FormatFloat(value, 'f', 0, 64) + " " + binary[unit]
	}
	return Digits(value) + " " + binary[unit]
}

// BytesUp is [Bytes] rounded up, for a size that is enough: [ParseBytes] reads no less
// than n back.
func BytesUp(n int64) string {
	text := Bytes(n)
	if back, err := ParseBytes(text); err != nil || back >= n {
		return text
	}
	number, unit, _ := strings.Cut(text, " ")
	_, decimals, _ := strings.Cut(number, ".")
	value, _ := strconv.ParseFloat(number, 64)
	return Digits(value+math.Pow10(-len(decimals))) + " " + unit
}

// BytesShort prints a size where there is little room, as on an axis: "256K",
// "1G".
func BytesShort(n int64) string {
	number, unit, _ := strings.Cut(Bytes(n), " ")
	return number + strings.TrimSuffix(strings.TrimSuffix(unit, "iB"), "B")
}

// DecimalBytes prints a size in decimal units, for sizes that are round in them:
// "400 MB".
func DecimalBytes(n int64) string { return humanize.Bytes(uint64(max(n, 0))) }

// ExactBytes prints a size in the largest unit of which it is a whole number,
// so that nothing is lost: "1536MiB". [ParseBytes] reads it back.
func ExactBytes(n int64) string {
	unit := 0
	for unit < len(binary)-1 && n != 0 && n%1024 == 0 {
		n /= 1024
		unit++
	}
	return strconv.FormatInt(n, 10) + binary[unit]
}

// scale finds the unit in which n has at most four digits before the point.
func scale(n int64) (value float64, unit int) {
	for value = float64(n); unit < len(binary)-1 && math.Abs(value) >= 1023.5; unit++ {
		value /= 1024
	}
	return value, unit
}

func exact(n int64, unit int) bool { return n&(1<<(10*unit)-1) == 0 }

// ParseBytes reads a size such as "64MiB", "1.5 GiB" or "10GB" (10^10). It
// fails with [errs.ErrArgument] for anything else, and for nothing.
func ParseBytes(text string) (int64, error) {
	n, err := humanize.ParseBytes(text)
	if err != nil || n == 0 || n > math.MaxInt64 {
		return 0, fmt.Errorf("%w: %q is not a size such as 64MiB or 1GiB", errs.ErrArgument, text)
	}
	return int64(n), nil
}

// Rate prints a rate in units of 10^9 bytes: "50.3 GB/s".
func Rate(bytesPerSecond float64) string { return Digits(bytesPerSecond/1e9) + " GB/s" }

// Duration prints a time with three significant digits: "12.3 µs", "1.50 s".
func Duration(d time.Duration) string {
	number, unit := SplitDuration(d)
	return number + " " + unit
}

// SplitDuration is [Duration] in two parts.
func SplitDuration(d time.Duration) (number, unit string) {
	if d > -time.Microsecond && d < time.Microsecond {
		return strconv.FormatInt(int64(d), 10), "ns"
	}
	v := float64(d) / 1e3
	for _, unit = range []string{"µs", "ms"} {
		if math.Abs(v) < 999.5 {
			return Digits(v), unit
		}
		v /= 1e3
	}
	return Digits(v), "s"
}

// Seconds is [Duration] of a time in seconds.
func Seconds(s float64) string { return Duration(time.Duration(s * 1e9)) }

// Digits prints a number with three significant digits, and with more where
// they stand before the point: "0.12", "1.23", "12.3", "1234".
func Digits(v float64) string {
	decimals := 2
	for limit := 9.995; math.Abs(v) >= limit && decimals > 0; limit *= 10 {
		decimals--
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// Grouped prints a number with commas between the thousands: "1,234,567".
func Grouped(n int64) string { return humanize.Comma(n) }

// Percent prints a share, of which 1 is all: "12.3 %".
func Percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + " %" }

// Count prints a number of things: "1 batch", "2 batches", "3 copies". one is
// a word with a regular plural.
func Count[N ~int | ~int32 | ~int64 | ~uint64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, plural(one))
}

func plural(one string) string {
	last := func(n int) string { return one[max(len(one)-n, 0):] }
	switch {
	case last(5) == "epoch": // whose ch is a k
		return one + "s"
	case last(1) == "y" && !strings.Contains("aeiou", last(2)[:1]):
		return strings.TrimSuffix(one, "y") + "ies"
	case last(1) == "s", last(1) == "x", last(1) == "z", last(2) == "ch", last(2) == "sh":
		return one + "es"
	}
	return one + "s"
}
