// Package float16 converts between float32 and the two 16-bit floating-point
// formats that devices compute in: binary16 (half precision, "F16") and
// bfloat16 ("BF16"). Values of 16 bits travel as uint16 bit patterns.
//
//	h := float16.ToF16(0.1)          // 0x2e66
//	x := float16.FromF16(h)          // 0.099975586
//
// # Rules
//
// Widening is exact. Narrowing rounds once, to nearest with ties to even, makes
// subnormals where the format has them, and turns values beyond the largest
// finite one into infinity. Every NaN becomes one and the same positive quiet
// NaN ([NaNF16], [NaNBF16], [NaN32]), whatever its sign and payload, so that
// a device and the host agree bit for bit.
//
// # From float64
//
// Rounding a float64 to float32 and then to 16 bits rounds twice and may miss
// the nearest value. [RoundToOdd] is the first step that keeps the second one
// right.
package float16
