package kernels_test

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/kernels"
)

// someFloats are numbers of all kinds, as elements of a type.
func someFloats(rng *rand.Rand, n int, t dtype.DType) (values []float32, elements []byte) {
	special := []uint32{0, 1 << 31, 1, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f7fffff, 0x00800000, 0x3f800000, 0x3f800001}
	for range n {
		v := math.Float32frombits(rng.Uint32())
		switch rng.IntN(8) {
		case 0:
			v = math.Float32frombits(special[rng.IntN(len(special))])
		case 1, 2, 3:
			v = float32(rng.NormFloat64())
		}
		if t == dtype.BF16 {
			h := uint16(math.Float32bits(v) >> 16)
			v = float16.FromBF16(h)
			elements = binary.LittleEndian.AppendUint16(elements, h)
		} else {
			elements = binary.LittleEndian.AppendUint32(elements, math.Float32bits(v))
		}
		values = append(values, v)
	}
	return values, elements
}

// combined is what an operation makes of two elements. Conversions keep the
// compiler from fusing a product and a sum.
func combined(c kernels.Combine, x, y float32, two bool) float32 {
	nan := float32(math.NaN())
	switch c.Op {
	case kernels.Linear:
		if !two {
			return float32(c.A*x) + c.B
		}
		return float32(c.A*x) + float32(c.B*y)
	case kernels.Product:
		return c.A * float32(x*y)
	case kernels.Ratio:
		return c.A * float32(x/y)
	case kernels.Least, kernels.Most:
		switch {
		case x != x || y != y:
			return nan
		case c.Op == kernels.Least && y < x || c.Op == kernels.Most && y > x:
			return y
		}
		return x
	case kernels.Abs:
		return float32(math.Abs(float64(x)))
	}
	return float32(math.Sqrt(float64(x)))
}

func TestCombine(t *testing.T) {
	f := open(t)
	rng := rand.New(rand.NewPCG(5, 6))
	for _, typ := range []dtype.DType{dtype.F32, dtype.BF16} {
		for op := kernels.Linear; op <= kernels.Sqrt; op++ {
			for round, n := range []int{1, 2, 255, 256, 257, 1000, 100_003} {
				c := kernels.Combine{Op: op, Type: typ, N: int64(n), A: float32(rng.NormFloat64()), B: float32(rng.NormFloat64())}
				x, xBytes := someFloats(rng, n, typ)
				y, yBytes := someFloats(rng, n, typ)
				xs := f.upload(xBytes, typ.Size()*rng.IntN(5))
				ys := f.upload(yBytes, typ.Size()*rng.IntN(5))
				dst := xs
				if round%2 == 0 {
					dst = f.result(len(xBytes), typ.Size()*rng.IntN(5))
				}
				two := op != kernels.Abs && op != kernels.Sqrt && (op != kernels.Linear || round%3 > 0)
				c.Dst, c.X = dst.p, xs.p
				if two {
					c.Y = ys.p
				}
				testkit.OK(t, f.set.Combine(f.stream, c))
				got := dst.download()
				for i := range n {
					want := combined(c, x[i], y[i], two)
					if typ == dtype.BF16 {
						if g := binary.LittleEndian.Uint16(got[2*i:]); g != float16.ToBF16(want) {
							t.Fatalf("operation %d of %v, %v is %#x, want %#x (element %d of %d)", op, x[i], y[i], g, float16.ToBF16(want), i, n)
						}
						continue
					}
					bits := math.Float32bits(want)
					if want != want {
						bits = float16.NaN32
					}
					if g := binary.LittleEndian.Uint32(got[4*i:]); g != bits {
						t.Fatalf("operation %d of %v, %v is %#x, want %#x (element %d of %d)", op, x[i], y[i], g, bits, i, n)
					}
				}
				if dst != xs {
					dst.free()
				}
				xs.free()
				ys.free()
			}
		}
	}
}

// reduced is what a reduction makes of arrays: every lane in turn, then pairs.
func reduced(op kernels.ReduceOp, x, y []float32) float64 {
	lanes := make([]float64, kernels.ReduceLanes)
	for lane := range lanes {
		lanes[lane] = op.Identity()
		for i := lane; i < len(x); i += len(lanes) {
			v := float64(x[i])
			switch op {
			case kernels.SumSquares:
				v = float64(v * v)
			case kernels.Dot:
				v = float64(v * float64(y[i]))
			}
			lanes[lane] = op.Join(lanes[lane], v)
		}
	}
	for n := len(lanes) / 2; n > 0; n /= 2 {
		for i := range n {
			lanes[i] = op.Join(lanes[i], lanes[i+n])
		}
	}
	return lanes[0]
}

func TestReduce(t *testing.T) {
	f := open(t)
	rng := rand.New(rand.NewPCG(7, 8))
	for _, typ := range []dtype.DType{dtype.F32, dtype.BF16} {
		for op := kernels.Sum; op <= kernels.Largest; op++ {
			for _, n := range []int{0, 1, 257, kernels.ReduceLanes, kernels.ReduceLanes + 1, 3*kernels.ReduceLanes + 77} {
				x, xBytes := someFloats(rng, n, typ)
				y, yBytes := someFloats(rng, n, typ)
				if n%2 == 1 { // numbers alone
					for i := range x {
						x[i], y[i] = float32(rng.IntN(100)), float32(rng.IntN(100))
						if typ == dtype.BF16 {
							binary.LittleEndian.PutUint16(xBytes[2*i:], float16.ToBF16(x[i]))
							binary.LittleEndian.PutUint16(yBytes[2*i:], float16.ToBF16(y[i]))
						} else {
							binary.LittleEndian.PutUint32(xBytes[4*i:], math.Float32bits(x[i]))
							binary.LittleEndian.PutUint32(yBytes[4*i:], math.Float32bits(y[i]))
						}
					}
				}
				xs, ys := f.upload(xBytes, 4*rng.IntN(5)), f.upload(yBytes, 4*rng.IntN(5))
				lanes := f.result(8*kernels.ReduceLanes, 0)
				want := reduced(op, x, y)
				for _, cut := range []int{n, 0, n / kernels.ReduceLanes / 2 * kernels.ReduceLanes} {
					testkit.OK(t, f.set.Fill(f.stream, lanes.p, 8, math.Float64bits(op.Identity()), kernels.ReduceLanes))
					for _, part := range [][2]int{{0, cut}, {cut, n}} {
						r := kernels.Reduce{Op: op, Type: typ, Lanes: lanes.p, N: int64(part[1] - part[0]),
							X: xs.p.Add(int64(part[0] * typ.Size()))}
						if op == kernels.Dot {
							r.Y = ys.p.Add(int64(part[0] * typ.Size()))
						}
						testkit.OK(t, f.set.Reduce(f.stream, r))
					}
					bits := lanes.download()
					list := make([]float64, kernels.ReduceLanes)
					for i := range list {
						list[i] = math.Float64frombits(binary.LittleEndian.Uint64(bits[8*i:]))
						if b := math.Float64bits(list[i]); list[i] != list[i] && b != 0x7ff8000000000000 {
							t.Fatalf("a NaN of lane %d has the bits %#x", i, b)
						}
					}
					got := op.Finish(list)
					if got != want && (got == got || want == want) || math.Signbit(got) != math.Signbit(want) && got == got {
						t.Fatalf("operation %d of %d %v, cut at %d, is %v, want %v", op, n, typ, cut, got, want)
					}
				}
				lanes.free()
				xs.free()
				ys.free()
			}
		}
	}
}

func TestArithmeticArguments(t *testing.T) {
	f := open(t)
	buf := f.result(1<<20, 0)
	defer buf.free()
	p, q := buf.p, buf.p.Add(512<<10)
	combine := func(change func(c *kernels.Combine)) error {
		c := kernels.Combine{Op: kernels.Linear, Type: dtype.F32, Dst: p, X: q, Y: q.Add(4096), N: 16}
		change(&c)
		return f.set.Combine(f.stream, c)
	}
	reduce := func(change func(r *kernels.Reduce)) error {
		r := kernels.Reduce{Op: kernels.Sum, Type: dtype.F32, Lanes: p, X: q, N: 16}
		change(&r)
		return f.set.Reduce(f.stream, r)
	}
	type C = kernels.Combine
	type R = kernels.Reduce
	for name, err := range map[string]error{
		"combine: no operation": combine(func(c *C) { c.Op = 0 }),
		"combine: operation":    combine(func(c *C) { c.Op = kernels.Sqrt + 1 }),
		"combine: type":         combine(func(c *C) { c.Type = dtype.F64 }),
		"combine: N":            combine(func(c *C) { c.N = -1 }),
		"combine: huge":         combine(func(c *C) { c.N = math.MaxInt64 }),
		"combine: no dst":       combine(func(c *C) { c.Dst = 0 }),
		"combine: no x":         combine(func(c *C) { c.X = 0 }),
		"combine: no y":         combine(func(c *C) { c.Op, c.Y = kernels.Product, 0 }),
		"combine: y":            combine(func(c *C) { c.Op = kernels.Abs }),
		"combine: unaligned":    combine(func(c *C) { c.X++ }),
		"combine: overlap":      combine(func(c *C) { c.X = c.Dst.Add(4) }),
		"reduce: operation":     reduce(func(r *R) { r.Op = kernels.Largest + 1 }),
		"reduce: type":          reduce(func(r *R) { r.Type = dtype.U8 }),
		"reduce: N":             reduce(func(r *R) { r.N = -1 }),
		"reduce: no lanes":      reduce(func(r *R) { r.Lanes = 0 }),
		"reduce: lanes":         reduce(func(r *R) { r.Lanes += 4 }),
		"reduce: y":             reduce(func(r *R) { r.Y = q }),
		"reduce: no y":          reduce(func(r *R) { r.Op = kernels.Dot }),
		"reduce: overlap":       reduce(func(r *R) { r.X = p.Add(64) }),
	} {
		if !errors.Is(err, device.ErrArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	testkit.OK(t, f.stream.Synchronize())
	testkit.OK(t, f.set.Combine(f.stream, C{Op: kernels.Sqrt, Type: dtype.F32}))
	testkit.OK(t, f.set.Reduce(f.stream, R{Op: kernels.Sum, Type: dtype.BF16, Lanes: p}))
}
