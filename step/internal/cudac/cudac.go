// Package cudac writes the elements of steps' types, and what is computed of them, as
// CUDA C++. The types and functions it names are those of package cudaexec's prelude.
package cudac

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
)

// Stored is the C type of an element in memory.
func Stored(t dtype.DType) string {
	if t == dtype.Bool {
		return "b8"
	}
	return t.String()
}

// ComputedIn is the C type that elements are computed in.
func ComputedIn(t dtype.DType) string {
	switch t {
	case dtype.Bool:
		return "bool"
	case dtype.F16, dtype.BF16:
		return "f32"
	}
	return t.String()
}

// Rounded is an expression of the type that t is computed in, as t has it.
func Rounded(t dtype.DType, x string) string {
	switch t {
	case dtype.F16:
		return "round_f16(" + x + ")"
	case dtype.BF16:
		return "round_bf16(" + x + ")"
	}
	return x
}

// Literal writes an element as C.
func Literal(t dtype.DType, data []byte) string {
	var bits [8]byte
	copy(bits[:], data[:t.Size()])
	u := binary.LittleEndian.Uint64(bits[:])
	real := func(x float64, size int, suffix, of string, bits uint64) string {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Sprintf("of_bits((%s)0x%xull)", of, bits)
		}
		text := strconv.FormatFloat(x, 'g', -1, size)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		if text[0] == '-' {
			return "(" + text + suffix + ")"
		}
		return text + suffix
	}
	switch t {
	case dtype.Bool:
		return strconv.FormatBool(u != 0)
	case dtype.F64:
		return real(math.Float64frombits(u), 64, "", "u64", u)
	case dtype.F32:
		return real(float64(math.Float32frombits(uint32(u))), 32, "f", "u32", u)
	case dtype.F16:
		x := float16.FromF16(uint16(u))
		return real(float64(x), 32, "f", "u32", uint64(math.Float32bits(x)))
	case dtype.BF16:
		x := float16.FromBF16(uint16(u))
		return real(float64(x), 32, "f", "u32", uint64(math.Float32bits(x)))
	}
	return fmt.Sprintf("(%s)%dull", t, u)
}

// Convert is [graph.Convert], from an expression of the type that from is computed in.
func Convert(from, to dtype.DType, x string) string {
	switch {
	case to == dtype.Bool:
		return fmt.Sprintf("%s != 0", x)
	case from == dtype.Bool:
		return fmt.Sprintf("(%s)%s", ComputedIn(to), x)
	case from.IsFloat() && !to.IsFloat():
		return fmt.Sprintf("int_of<%s>(%s)", to, x)
	case to == dtype.F16 || to == dtype.BF16:
		switch from {
		case dtype.F64:
			x = "round_to_odd(" + x + ")"
		case dtype.F32, dtype.F16, dtype.BF16:
		default:
			if from.Size() > 2 {
				x = "round_to_odd((f64)" + x + ")"
			} else {
				x = "(f32)" + x
			}
		}
		return Rounded(to, x)
	}
	return fmt.Sprintf("(%s)%s", ComputedIn(to), x)
}

// FromBits is an element of the bits that a u64 has.
func FromBits(t dtype.DType, x string) string {
	switch t {
	case dtype.F64:
		return "of_bits(" + x + ")"
	case dtype.F32:
		return "of_bits((u32)" + x + ")"
	case dtype.F16, dtype.BF16:
		return fmt.Sprintf("ld(%s{(u16)%s})", t, x)
	case dtype.Bool:
		return "(" + x + " & 255) != 0"
	}
	return fmt.Sprintf("(%s)%s", t, x)
}

// toBits is the reverse.
func toBits(t dtype.DType, x string) string {
	switch t {
	case dtype.F64, dtype.F32:
		return "(u64)bits_of(" + x + ")"
	case dtype.F16, dtype.BF16:
		return fmt.Sprintf("(u64)%s_of(%s).bits", t, x)
	}
	return "(u64)" + x
}

// Bitcast is an element of the bits that another has.
func Bitcast(from, to dtype.DType, x string) string {
	return FromBits(to, "("+toBits(from, x)+")")
}

// Elementwise is the expression of an operation: of operands of type in, as result. It
// fails with [step.ErrNotSupported] where the operation has none for these types.
func Elementwise(op graph.Op, in, result dtype.DType, args []string) (string, error) {
	x := args[0]
	if op == graph.Convert {
		return Convert(in, result, x), nil
	}
	if op == graph.Where {
		return fmt.Sprintf("%s ? %s : %s", x, args[1], args[2]), nil
	}
	y := ""
	if len(args) > 1 {
		y = args[1]
	}
	call := func(name string, args ...string) string {
		return name + "(" + strings.Join(args, ", ") + ")"
	}
	c := ComputedIn(in)
	if op.Comparison() {
		sign := map[graph.Op]string{
			graph.Equal: "==", graph.NotEqual: "!=", graph.Less: "<", graph.LessOrEqual: "<=", graph.Greater: ">", graph.GreaterOrEqual: ">=",
			graph.EqualTotalOrder: "==", graph.NotEqualTotalOrder: "!=", graph.LessTotalOrder: "<", graph.LessOrEqualTotalOrder: "<=",
			graph.GreaterTotalOrder: ">", graph.GreaterOrEqualTotalOrder: ">=",
		}[op]
		if op >= graph.EqualTotalOrder {
			x, y = call("order", x), call("order", y)
		}
		return fmt.Sprintf("%s %s %s", x, sign, y), nil
	}
	switch op { // of all types alike
	case graph.Max:
		return call("larger", x, y), nil
	case graph.Min:
		return call("smaller", x, y), nil
	case graph.IsFinite:
		return fmt.Sprintf("%s - %s == 0", x, x), nil
	case graph.IsNaN:
		return fmt.Sprintf("%s != %s", x, x), nil
	}
	if in.IsFloat() {
		f := "" // the suffix of a function
		one := "1.0"
		if c == "f32" {
			f, one = "f", "1.0f"
		}
		var e string
		switch op {
		case graph.Abs:
			e = call("fabs"+f, x)
		case graph.Neg:
			e = "-" + x
		case graph.Sign:
			e = call("float_sign", x)
		case graph.Sqrt:
			e = call("sqrt"+f, x)
		case graph.Rsqrt:
			e = one + " / " + call("sqrt"+f, x)
		case graph.Exp, graph.Expm1, graph.Log, graph.Log1p, graph.Erf, graph.Sin, graph.Cos, graph.Tanh, graph.Floor, graph.Ceil:
			e = call(strings.ToLower(op.String())+f, x)
		case graph.Round:
			e = call("rint"+f, x)
		case graph.Logistic:
			e = fmt.Sprintf("%s / (%s + %s)", one, one, call("exp"+f, "-"+x))
		case graph.Add:
			e = x + " + " + y
		case graph.Sub:
			e = x + " - " + y
		case graph.Mul:
			e = x + " * " + y
		case graph.Div:
			e = x + " / " + y
		case graph.Rem:
			e = call("fmod"+f, x, y)
		case graph.Pow:
			e = call("pow"+f, x, y)
		case graph.Atan2:
			e = call("atan2"+f, x, y)
		default:
			return "", fmt.Errorf("%w: %v of %v", step.ErrNotSupported, op, in)
		}
		switch op {
		case graph.Abs, graph.Neg, graph.Sign, graph.Floor, graph.Ceil, graph.Round: // are exact
			return e, nil
		}
		return Rounded(result, e), nil
	}
	if in == dtype.Bool {
		switch op {
		case graph.Not:
			return "!" + x, nil
		case graph.And:
			return x + " && " + y, nil
		case graph.Or:
			return x + " || " + y, nil
		case graph.Xor:
			return x + " != " + y, nil
		}
		return "", fmt.Errorf("%w: %v of %v", step.ErrNotSupported, op, in)
	}
	wrap := func(sign string) string { return fmt.Sprintf("(%s)((u64)%s %s (u64)%s)", c, x, sign, y) }
	switch op {
	case graph.Abs:
		return call("int_abs", x), nil
	case graph.Neg:
		return fmt.Sprintf("(%s)(0 - (u64)%s)", c, x), nil
	case graph.Sign:
		return call("int_sign", x), nil
	case graph.Not:
		return fmt.Sprintf("(%s)~%s", c, x), nil
	case graph.BitCount:
		return call("bit_count", x), nil
	case graph.LeadingZeros:
		return call("leading_zeros", x), nil
	case graph.Add:
		return wrap("+"), nil
	case graph.Sub:
		return wrap("-"), nil
	case graph.Mul:
		return wrap("*"), nil
	case graph.Div:
		return call("int_div", x, y), nil
	case graph.Rem:
		return call("int_rem", x, y), nil
	case graph.Pow:
		return call("int_pow", x, y), nil
	case graph.And:
		return fmt.Sprintf("(%s)(%s & %s)", c, x, y), nil
	case graph.Or:
		return fmt.Sprintf("(%s)(%s | %s)", c, x, y), nil
	case graph.Xor:
		return fmt.Sprintf("(%s)(%s ^ %s)", c, x, y), nil
	case graph.ShiftLeft:
		return call("shift_left", x, y), nil
	case graph.ShiftRightLogical:
		return call("shift_logical", x, y), nil
	case graph.ShiftRightArithmetic:
		return call("shift_arithmetic", x, y), nil
	}
	return "", fmt.Errorf("%w: %v of %v", step.ErrNotSupported, op, in)
}
