package host

import (
	"math"
	"math/bits"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/dtype"
)

// element computes a block of an operation.
type element = func(to register, from []register, n, at int)

// elementFunction is how an element-wise operation computes its elements, in the type
// that those of its operands are computed in; nil if there is no such operation. Where
// the result has 16 bits, it is rounded afterwards.
func elementFunction(n *graph.Node) element {
	switch n.Op {
	case graph.Iota:
		return iota(n)
	case graph.Convert:
		return convert(n.Inputs[0].Shape().Type, n.Shapes[0].Type)
	case graph.Where:
		switch n.Shapes[0].Type {
		case dtype.F16, dtype.BF16:
			return where[uint32] // of the float32 that they are computed in
		}
		switch n.Shapes[0].Type.Size() {
		case 1:
			return where[uint8]
		case 2:
			return where[uint16]
		case 4:
			return where[uint32]
		}
		return where[uint64]
	}
	switch computed(n.Inputs[0].Shape().Type) {
	case dtype.F32:
		return floatFunction[float32](n.Op, n.Inputs[0].Shape().Type)
	case dtype.F64:
		return floatFunction[float64](n.Op, dtype.F64)
	case dtype.I8:
		return integerFunction[int8](n.Op)
	case dtype.I16:
		return integerFunction[int16](n.Op)
	case dtype.I32:
		return integerFunction[int32](n.Op)
	case dtype.I64:
		return integerFunction[int64](n.Op)
	case dtype.U8:
		return integerFunction[uint8](n.Op)
	case dtype.U16:
		return integerFunction[uint16](n.Op)
	case dtype.U32:
		return integerFunction[uint32](n.Op)
	case dtype.U64:
		return integerFunction[uint64](n.Op)
	case dtype.Bool:
		return boolFunction(n.Op)
	}
	return nil
}

func where[T any](to register, from []register, n, _ int) {
	d, c, a, b := view[T](to)[:n], from[0][:n], view[T](from[1])[:n], view[T](from[2])[:n]
	for i := range d {
		if c[i] != 0 {
			d[i] = a[i]
		} else {
			d[i] = b[i]
		}
	}
}

func mapped[T, R any](f func(T) R) element {
	return func(to register, from []register, n, _ int) {
		d, a := view[R](to)[:n], view[T](from[0])[:n]
		for i, x := range a {
			d[i] = f(x)
		}
	}
}

func paired[T, R any](f func(x, y T) R) element {
	return func(to register, from []register, n, _ int) {
		d, a, b := view[R](to)[:n], view[T](from[0])[:n], view[T](from[1])[:n]
		for i, x := range a {
			d[i] = f(x, b[i])
		}
	}
}

// arithmetic is what all numbers have. The loops of the most frequent operations are
// written out, since a call for each element costs more than they do.
func arithmetic[T number](op graph.Op) element {
	switch op {
	case graph.Add:
		return func(to register, from []register, n, _ int) {
			d, a, b := view[T](to)[:n], view[T](from[0])[:n], view[T](from[1])[:n]
			for i := range d {
				d[i] = a[i] + b[i]
			}
		}
	case graph.Sub:
		return func(to register, from []register, n, _ int) {
			d, a, b := view[T](to)[:n], view[T](from[0])[:n], view[T](from[1])[:n]
			for i := range d {
				d[i] = a[i] - b[i]
			}
		}
	case graph.Mul:
		return func(to register, from []register, n, _ int) {
			d, a, b := view[T](to)[:n], view[T](from[0])[:n], view[T](from[1])[:n]
			for i := range d {
				d[i] = a[i] * b[i]
			}
		}
	case graph.Neg:
		return mapped(func(x T) T { return -x })
	case graph.Max:
		return func(to register, from []register, n, _ int) {
			d, a, b := view[T](to)[:n], view[T](from[0])[:n], view[T](from[1])[:n]
			for i := range d {
				d[i] = larger(a[i], b[i])
			}
		}
	case graph.Min:
		return func(to register, from []register, n, _ int) {
			d, a, b := view[T](to)[:n], view[T](from[0])[:n], view[T](from[1])[:n]
			for i := range d {
				d[i] = smaller(a[i], b[i])
			}
		}
	}
	return comparison[T](op)
}

func comparison[T number](op graph.Op) element {
	switch op {
	case graph.Equal:
		return paired(func(x, y T) uint8 { return truth(x == y) })
	case graph.NotEqual:
		return paired(func(x, y T) uint8 { return truth(x != y) })
	case graph.Less:
		return paired(func(x, y T) uint8 { return truth(x < y) })
	case graph.LessOrEqual:
		return paired(func(x, y T) uint8 { return truth(x <= y) })
	case graph.Greater:
		return paired(func(x, y T) uint8 { return truth(x > y) })
	case graph.GreaterOrEqual:
		return paired(func(x, y T) uint8 { return truth(x >= y) })
	}
	return nil
}

func truth(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// total is the comparison that one in the total order is, of numbers that stand for
// those compared.
func total(op graph.Op) graph.Op {
	if op < graph.EqualTotalOrder || op > graph.GreaterOrEqualTotalOrder {
		return 0
	}
	return op - graph.EqualTotalOrder + graph.Equal
}

func floatFunction[T floating](op graph.Op, t dtype.DType) element {
	if plain := total(op); plain != 0 {
		compare := comparison[int64](plain)
		return func(to register, from []register, n, at int) {
			a, b := make([]int64, n), make([]int64, n)
			for i := range n {
				a[i], b[i] = orderOf(view[T](from[0])[i]), orderOf(view[T](from[1])[i])
			}
			compare(to, []register{bytesOfInts(a), bytesOfInts(b)}, n, at)
		}
	}
	f := func(f func(float64) float64) element { return mapped(func(x T) T { return T(f(float64(x))) }) }
	switch op {
	case graph.Abs:
		return f(math.Abs)
	case graph.Sign:
		return mapped(func(x T) T {
			switch {
			case x > 0:
				return 1
			case x < 0:
				return -1
			}
			return x // a zero, or NaN
		})
	case graph.Sqrt:
		return f(math.Sqrt)
	case graph.Rsqrt:
		return f(func(x float64) float64 { return 1 / math.Sqrt(x) })
	case graph.Exp:
		return f(math.Exp)
	case graph.Expm1:
		return f(math.Expm1)
	case graph.Log:
		return f(math.Log)
	case graph.Log1p:
		return f(math.Log1p)
	case graph.Logistic:
		return f(func(x float64) float64 { return 1 / (1 + math.Exp(-x)) })
	case graph.Erf:
		return f(math.Erf)
	case graph.Sin:
		return f(math.Sin)
	case graph.Cos:
		return f(math.Cos)
	case graph.Tanh:
		return f(math.Tanh)
	case graph.Floor:
		return f(math.Floor)
	case graph.Ceil:
		return f(math.Ceil)
	case graph.Round:
		return f(math.RoundToEven)
	case graph.IsFinite:
		return mapped(func(x T) uint8 { return truth(x-x == 0) })
	case graph.IsNaN:
		return mapped(func(x T) uint8 { return truth(x != x) })
	case graph.Div:
		return func(to register, from []register, n, _ int) {
			d, a, b := view[T](to)[:n], view[T](from[0])[:n], view[T](from[1])[:n]
			for i := range d {
				d[i] = a[i] / b[i]
			}
		}
	case graph.Rem:
		return paired(func(x, y T) T { return T(math.Mod(float64(x), float64(y))) })
	case graph.Pow:
		return paired(func(x, y T) T { return T(math.Pow(float64(x), float64(y))) })
	case graph.Atan2:
		return paired(func(x, y T) T { return T(math.Atan2(float64(x), float64(y))) })
	}
	return arithmetic[T](op)
}

// orderOf is a number that is larger for what is larger in the total order.
func orderOf[T floating](x T) int64 {
	var b int64
	switch v := any(x).(type) {
	case float32:
		b = int64(int32(math.Float32bits(v)))
		if b < 0 {
			b = math.MinInt32 - b - 1
		}
	case float64:
		b = int64(math.Float64bits(v))
		if b < 0 {
			b = math.MinInt64 - b - 1
		}
	}
	return b
}

func integerFunction[T integer](op graph.Op) element {
	if plain := total(op); plain != 0 {
		op = plain
	}
	width := bits.OnesCount64(uint64(unsigned(^T(0))))
	switch op {
	case graph.Abs:
		return mapped(func(x T) T {
			if x < 0 {
				return -x
			}
			return x
		})
	case graph.Sign:
		return mapped(func(x T) T {
			switch {
			case x > 0:
				return 1
			case x < 0:
				return ^T(0) // -1
			}
			return 0
		})
	case graph.Not:
		return mapped(func(x T) T { return ^x })
	case graph.BitCount:
		return mapped(func(x T) T { return T(bits.OnesCount64(unsigned(x))) })
	case graph.LeadingZeros:
		return mapped(func(x T) T { return T(bits.LeadingZeros64(unsigned(x)) - 64 + width) })
	case graph.Div:
		return paired(func(x, y T) T {
			if y == 0 {
				return ^T(0)
			}
			return x / y
		})
	case graph.Rem:
		return paired(func(x, y T) T {
			if y == 0 {
				return x
			}
			return x % y
		})
	case graph.Pow:
		return paired(power[T])
	case graph.And:
		return paired(func(x, y T) T { return x & y })
	case graph.Or:
		return paired(func(x, y T) T { return x | y })
	case graph.Xor:
		return paired(func(x, y T) T { return x ^ y })
	case graph.ShiftLeft:
		return paired(func(x, y T) T { return x << unsigned(y) })
	case graph.ShiftRightArithmetic:
		return paired(func(x, y T) T {
			n := unsigned(y)
			if sign := T(1) << (width - 1); x&sign != 0 {
				return ^(^x & ^sign >> n) // ones come in from the left, also in unsigned numbers
			}
			return x >> n
		})
	case graph.ShiftRightLogical:
		return paired(func(x, y T) T { return T(unsigned(x) >> unsigned(y)) })
	}
	return arithmetic[T](op)
}

// unsigned is the bits of an integer, without those of the sign above its width.
func unsigned[T integer](x T) uint64 {
	switch v := any(x).(type) {
	case int8:
		return uint64(uint8(v))
	case int16:
		return uint64(uint16(v))
	case int32:
		return uint64(uint32(v))
	}
	return uint64(x)
}

// power wraps around; a negative exponent gives 1/x without what is behind the point.
func power[T integer](x, y T) T {
	if y < 0 {
		switch {
		case x == 1, x == ^T(0) && y&1 == 0:
			return 1
		case x == ^T(0) && x < 0:
			return x
		case x == 0:
			return ^T(0)
		}
		return 0
	}
	r := T(1)
	for ; y > 0; y >>= 1 {
		if y&1 != 0 {
			r *= x
		}
		x *= x
	}
	return r
}

func boolFunction(op graph.Op) element {
	if plain := total(op); plain != 0 {
		op = plain
	}
	switch op {
	case graph.Not:
		return mapped(func(x uint8) uint8 { return x ^ 1 })
	case graph.And:
		return integerFunction[uint8](graph.And)
	case graph.Or:
		return integerFunction[uint8](graph.Or)
	case graph.Xor:
		return integerFunction[uint8](graph.Xor)
	}
	return arithmetic[uint8](op) // max, min and comparisons
}

func iota(n *graph.Node) element {
	s := n.Shapes[0]
	axis := int(n.Attr.(graph.Axis))
	inner := product(s.Dims[axis+1:])
	length := s.Dims[axis]
	index := func(at int) int { return at / inner % length }
	switch computed(s.Type) {
	case dtype.F32:
		return counting(index, func(i int) float32 { return float32(i) })
	case dtype.F64:
		return counting(index, func(i int) float64 { return float64(i) })
	}
	switch s.Type.Size() {
	case 1:
		return counting(index, func(i int) uint8 { return uint8(i) })
	case 2:
		return counting(index, func(i int) uint16 { return uint16(i) })
	case 4:
		return counting(index, func(i int) uint32 { return uint32(i) })
	}
	return counting(index, func(i int) uint64 { return uint64(i) })
}

func counting[T any](index func(at int) int, of func(int) T) element {
	return func(to register, _ []register, n, at int) {
		for i := range view[T](to)[:n] {
			view[T](to)[i] = of(index(at + i))
		}
	}
}
