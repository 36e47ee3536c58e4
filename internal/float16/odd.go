package float16

import "math"

// RoundToOdd narrows x so that rounding the result to 16 bits gives what
// rounding x itself would: an inexact x goes to the neighbouring float32 whose
// last bit is 1, which is never a tie nor the wrong side of one. (Boldo and
// Melquiond, "When double rounding is odd", 2005.)
func RoundToOdd(x float64) float32 {
	nearest := float32(x)
	if float64(nearest) == x || x != x {
		return nearest
	}
	b := math.Float32bits(nearest)
	if math.Abs(float64(nearest)) > math.Abs(x) {
		b-- // one step towards zero, back from infinity too
	}
	return math.Float32frombits(b | 1)
}
