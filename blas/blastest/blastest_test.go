package blastest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/dtype"
)

// TestCompareRoundings: what another step takes may be rounded to bfloat16, and a result
// by itself is rounded once.
func TestCompareRoundings(t *testing.T) {
	one := func(v float32) []byte { return Append(nil, v, dtype.BF16) }
	type outcome struct {
		got float32
		ok  bool
	}
	for _, test := range []struct {
		a, b, addend, bias float32
		outcomes           []outcome
	}{
		{1 + 7.0/128, 1 + 11.0/128, 0, 0, []outcome{ // 1 + 18.6/128
			{1 + 17.0/128, false},
			{1 + 18.0/128, false},
			{1 + 19.0/128, true}, // the nearest
			{1 + 20.0/128, false},
		}},
		{1 + 7.0/128, 1 + 11.0/128, 2, 0, []outcome{ // 3 + 9.3/64
			{3 + 8.0/64, false},
			{3 + 9.0/64, true},  // the nearest
			{3 + 10.0/64, true}, // what the product, rounded to 1 + 19/128, gives
			{3 + 11.0/64, false},
			{3, false},
		}},
		// 219.75/512, as what the bias is added to is 1.269, which has a last place of
		// 4/512.
		{55.0 / 2048, 1, 159.0 / 128, -215.0 / 256, []outcome{
			{217.0 / 512, false},
			{218.0 / 512, true}, // where that is rounded to 162/128
			{219.0 / 512, true},
			{220.0 / 512, true}, // the nearest
			{222.0 / 512, true},
			{223.0 / 512, false},
			{206.0 / 512, false}, // without the product
		}},
	} {
		g := blas.Gemm{M: 1, N: 1, K: 1, Alpha: 1, Type: dtype.BF16}
		m := Memory{A: one(test.a), B: one(test.b), C: one(test.addend)}
		if test.addend != 0 {
			g.Beta = 1
		}
		if test.bias != 0 {
			g.Bias, m.Bias = 1, one(test.bias)
		}
		for _, x := range test.outcomes {
			if err := Compare(g, one(x.got), m); (err == nil) != x.ok {
				t.Errorf("%v %v + %v + %v, got %v: %v", test.a, test.b, test.addend, test.bias, x.got, err)
			}
		}
	}
}

// TestCompareSteps: whichever values are rounded between the steps, a result is right, and
// without one of the steps, or with the bias of the next column, it is not.
func TestCompareSteps(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, types := range pairs {
		for kind := range 12 {
			g := blas.Gemm{M: 5, N: 9, K: 20, Alpha: 1.4, Type: types[0], TypeC: types[1], Activation: blas.Activation(kind / 4)}
			m := Memory{A: Random(random, g.M*g.K, g.Type), B: Random(random, g.K*g.N, g.Type), C: Random(random, g.M*g.N, g.TypeC)}
			faults := []string{"product"}
			if kind&1 != 0 {
				g.Beta = 2.6
				faults = append(faults, "addend")
			}
			if kind&2 != 0 {
				g.Bias, m.Bias = 1, Random(random, g.N, g.TypeC)
				faults = append(faults, "bias", "column")
			}
			if g.Activation != blas.NoActivation {
				faults = append(faults, "activation")
			}
			for rounded := range 8 {
				what := fmt.Sprintf("%v, beta %v, bias %d, activation %d, rounded %03b", types, g.Beta, g.Bias, g.Activation, rounded)
				if err := Compare(g, computed(g, m, rounded, ""), m); err != nil {
					t.Errorf("%s: %v", what, err)
				}
				for _, fault := range faults {
					if Compare(g, computed(g, m, rounded, fault), m) == nil {
						t.Errorf("%s: right in spite of the %s", what, fault)
					}
				}
			}
		}
	}
}

// computed is the memory of C after g, whose matrices have no gaps. The bits of rounded
// say before which of its steps values are rounded; fault is the step that is left out, or
// "column".
func computed(g blas.Gemm, m Memory, rounded int, fault string) (got []byte) {
	t := g.ResultType()
	for i := range g.M {
		for j := range g.N {
			var v float64
			step := func(name string, do func()) {
				if fault != name {
					do()
				}
			}
			round := func(bit int) {
				if rounded&bit != 0 {
					v = At(Append(nil, float32(v), t), 0, t)
				}
			}
			step("product", func() {
				for k := range g.K {
					v += At(m.A, i*g.K+k, g.Type) * At(m.B, k*g.N+j, g.Type)
				}
				v *= float64(g.Alpha)
			})
			if g.Beta != 0 {
				round(1)
				step("addend", func() { v += float64(g.Beta) * At(m.C, i*g.N+j, t) })
			}
			if g.Bias != 0 {
				round(2)
				column := j
				if fault == "column" {
					column = (j + 1) % g.N
				}
				step("bias", func() { v += At(m.Bias, column, t) })
			}
			if g.Activation != blas.NoActivation {
				round(4)
			}
			step("activation", func() {
				switch g.Activation {
				case blas.ReLU:
					v = max(v, 0)
				case blas.GELU:
					v = v / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
				}
			})
			got = Append(got, float32(v), t)
		}
	}
	return got
}

func TestRounding(t *testing.T) {
	for _, test := range []struct {
		v    float64
		t    dtype.DType
		want float64
	}{
		{0, dtype.BF16, 0}, {1, dtype.BF16, 0x1p-8}, {1.99, dtype.BF16, 0x1p-8}, {2, dtype.BF16, 0x1p-7}, {0x1p-130, dtype.BF16, 0x1p-134},
		{0, dtype.F16, 0}, {1, dtype.F16, 0x1p-11}, {1.99, dtype.F16, 0x1p-11}, {2, dtype.F16, 0x1p-10}, {0x1p-20, dtype.F16, 0x1p-25},
		{1, dtype.F32, 0},
	} {
		if got := rounding(test.v, test.t); got != test.want {
			t.Errorf("%v of %v: %v, want %v", test.t, test.v, got, test.want)
		}
	}
}
