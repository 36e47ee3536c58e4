package float16

import "math"

// NaNF16 is the only NaN that ToF16 returns.
const NaNF16 uint16 = 0x7e00

// NaN32 is the bit pattern of the only NaN that FromF16 and FromBF16 return.
const NaN32 uint32 = 0x7fc00000

const (
	signF16 = 0x8000
	infF16  = 0x7c00

	inf32 = 0x7f800000 // bits of float32 infinity

	// Exponent bias of float32 less that of binary16, in place.
	rebias = (127 - 15) << 23
)

// ToF16 rounds x to binary16.
func ToF16(x float32) uint16 {
	const (
		overflow = 0x477ff000 // bits of 65520: halfway from the largest finite value to the next
		normal   = 0x38800000 // bits of 2^-14, the smallest normal value
	)
	b := math.Float32bits(x)
	sign := uint16(b>>16) & signF16
	b &^= 1 << 31
	switch {
	case b > inf32:
		return NaNF16
	case b >= overflow:
		return sign | infF16
	case b < normal:
		// Subnormals are multiples of 2^-24, and so are the floats from 0.5
		// to 1: the addition rounds, and its low bits are the result.
		sum := math.Float32frombits(b) + 0.5
		return sign | uint16(math.Float32bits(sum)-math.Float32bits(0.5))
	}
	// A carry out of the mantissa moves on to the exponent, as it should.
	b += 0xfff + b>>13&1
	return sign | uint16((b-rebias)>>13)
}

// FromF16 returns the value of the binary16 number with bits h.
func FromF16(h uint16) float32 {
	sign := uint32(h&signF16) << 16
	magnitude := h &^ signF16
	b := uint32(magnitude) << 13
	switch {
	case magnitude > infF16:
		return math.Float32frombits(NaN32)
	case magnitude == infF16:
		b = inf32
	case magnitude < 1<<10:
		b = math.Float32bits(float32(magnitude) * 0x1p-24)
	default:
		b += rebias
	}
	return math.Float32frombits(sign | b)
}
