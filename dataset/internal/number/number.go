// Package number reads decimal numbers as text.
package number

import (
	"bytes"
	"math"
	"strconv"
)

// Scan reads the decimal number that b begins with and returns its
// length. It does the common case: a number of at most 2^53 without its point,
// times a power of ten up to 22. Both are exact in a float64, so one
// multiplication or division rounds correctly (Clinger, "How to read floating
// point numbers accurately", 1990). For all others ok is false, and
// Parse does it.
func Scan(b []byte) (v float64, n int, ok bool) {
	negative := false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		negative = b[0] == '-'
		n = 1
	}
	var mantissa uint64
	start := n
	for n < len(b) && b[n]-'0' <= 9 {
		mantissa = mantissa*10 + uint64(b[n]-'0')
		n++
	}
	digits, fraction := n-start, 0
	if n < len(b) && b[n] == '.' {
		n++
		start = n
		for n < len(b) && b[n]-'0' <= 9 {
			mantissa = mantissa*10 + uint64(b[n]-'0')
			n++
		}
		fraction = n - start
		digits += fraction
	}
	// More digits could have overflowed.
	if digits == 0 || digits > 19 || mantissa > 1<<53 {
		return 0, n, false
	}
	exponent := -fraction
	if n < len(b) && b[n]|0x20 == 'e' {
		e, length := scanExponent(b[n+1:])
		if length == 0 {
			return 0, n, false
		}
		exponent += e
		n += 1 + length
	}
	v = float64(mantissa)
	switch {
	case exponent < -22 || exponent > 22:
		return 0, n, false
	case exponent < 0:
		v /= powersOfTen[-exponent]
	default:
		v *= powersOfTen[exponent]
	}
	if negative {
		v = -v
	}
	return v, n, true
}

var powersOfTen = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
	1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// scanExponent reads a sign and at most three digits; length 0 means that
// there is something else.
func scanExponent(b []byte) (e, length int) {
	negative := false
	if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
		negative = b[0] == '-'
		length = 1
	}
	start := length
	for length < len(b) && b[length]-'0' <= 9 {
		e = e*10 + int(b[length]-'0')
		length++
		if length-start > 3 {
			return 0, 0
		}
	}
	if length == start {
		return 0, 0
	}
	if negative {
		e = -e
	}
	return e, length
}

// Parse reads a whole field as [strconv.ParseFloat] does: also NaN and
// infinities. NaN may have a sign, as C prints it on most processors. A number
// beyond float64 is none.
func Parse(field []byte) (float64, bool) {
	if v, n, ok := Scan(field); ok && n == len(field) {
		return v, true
	}
	if len(field) == 4 && (field[0] == '-' || field[0] == '+') && bytes.EqualFold(field[1:], []byte("nan")) {
		return math.NaN(), true
	}
	v, err := strconv.ParseFloat(string(field), 64)
	return v, err == nil
}
