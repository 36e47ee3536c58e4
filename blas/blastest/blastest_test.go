package blastest

import (
	"testing"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/dtype"
)

// TestCompareRoundings: a sum in bfloat16 may be of a product that was rounded,
// and a result by itself may be rounded once.
func TestCompareRoundings(t *testing.T) {
	const (
		a, b = 1 + 1.0/128, 1 + 3.0/128 // their product is 1.03143…
		c    = 2
	)
	one := func(v float32) []byte { return Append(nil, v, dtype.BF16) }
	for _, test := range []struct {
		beta, got float32
		ok        bool
	}{
		{0, 1 + 4.0/128, true}, // the nearest
		{0, 1 + 5.0/128, false},
		{0, 1 + 3.0/128, false},
		{0, 1 + 6.0/128, false},
		{1, 3 + 2.0/64, true}, // the nearest
		{1, 3 + 3.0/64, true}, // the neighbour, which two roundings may give
		{1, 3 + 4.0/64, false},
		{1, 3, false},
	} {
		g := blas.Gemm{M: 1, N: 1, K: 1, Alpha: 1, Beta: test.beta, Type: dtype.BF16}
		err := Compare(g, one(test.got), Memory{A: one(a), B: one(b), C: one(c)})
		if (err == nil) != test.ok {
			t.Errorf("beta %v, got %v: %v", test.beta, test.got, err)
		}
	}
}
