package float16

import "math"

// NaNBF16 is the only NaN that ToBF16 returns.
const NaNBF16 uint16 = 0x7fc0

// ToBF16 rounds x to bfloat16.
func ToBF16(x float32) uint16 {
	b := math.Float32bits(x)
	if b&^(1<<31) > inf32 {
		return NaNBF16
	}
	// A carry moves on to the exponent and ends in infinity at the latest.
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// FromBF16 returns the value of the bfloat16 number with bits h.
func FromBF16(h uint16) float32 {
	if h&0x7fff > inf32>>16 {
		return math.Float32frombits(NaN32)
	}
	return math.Float32frombits(uint32(h) << 16)
}
