package number

import (
	"math"
	"strconv"
	"strings"
	"testing"
)

// FuzzNumber: a number is that of the standard library, but for the sign of NaN,
// which that does not read.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"1", "-0.25", "9007199254740993", "1e22", "1e23", ".5", "5.", ".", "+1e-22", "18446744073709551616", "1e", "0e999", "0x1p-3", "1_0", "-nan"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, field []byte) {
		text := string(field)
		if sign := strings.IndexAny(text, "+-"); sign == 0 && strings.EqualFold(text[1:], "nan") {
			text = text[1:]
		}
		want, err := strconv.ParseFloat(text, 64)
		got, ok := Parse(field)
		if ok != (err == nil) || ok && math.Float64bits(got) != math.Float64bits(want) {
			t.Errorf("%q: %v %t, want %v, %v", field, got, ok, want, err)
		}
		if v, n, ok := Scan(field); ok {
			want, err := strconv.ParseFloat(string(field[:n]), 64)
			if err != nil || math.Float64bits(v) != math.Float64bits(want) {
				t.Errorf("%q: %v, want %v, %v", field[:n], v, want, err)
			}
		}
	})
}
