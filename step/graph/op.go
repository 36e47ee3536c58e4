package graph

import (
	"fmt"

	"github.com/pinion-gpu/pinion/dtype"
)

// Op is a kind of operation.
type Op uint8

// The operations. Their meaning is that of StableHLO's operations of similar names,
// with the differences that their constructors describe.
const (
	// Values that come from nowhere.
	Parameter Op = iota + 1
	Constant
	Iota

	// One element of one operand makes one of the result: [Graph.Unary].
	Abs
	Neg
	Sign // -1, 0 or 1; a zero of the same sign, and NaN for NaN
	Sqrt
	Rsqrt // 1 / sqrt(x)
	Exp
	Expm1
	Log
	Log1p
	Logistic // 1 / (1 + exp(-x))
	Erf
	Sin
	Cos
	Tanh
	Floor
	Ceil
	Round // to nearest, ties to even
	Not   // of each bit; of a bool, its opposite
	BitCount
	LeadingZeros
	IsFinite
	IsNaN

	// One element of each of two operands: [Graph.Binary]. Integers wrap around;
	// divided by zero they give -1 (all bits set) and keep x as the remainder.
	Add
	Sub
	Mul
	Div
	Rem // with the sign of x
	Pow
	Atan2
	Max // NaN if either is
	Min // NaN if either is
	And
	Or
	Xor
	ShiftLeft // shifts by the number of bits or more give zero, or the sign
	ShiftRightArithmetic
	ShiftRightLogical

	// Two operands, and a bool as the result: [Graph.Binary].
	Equal
	NotEqual
	Less
	LessOrEqual
	Greater
	GreaterOrEqual
	// In the total order, -NaN < -Inf < -0 < +0 < +Inf < +NaN.
	EqualTotalOrder
	NotEqualTotalOrder
	LessTotalOrder
	LessOrEqualTotalOrder
	GreaterTotalOrder
	GreaterOrEqualTotalOrder

	Where
	Convert

	// The same elements, in the same order: nothing moves.
	Identity
	Reshape
	Bitcast
	OptimizationBarrier
	SchedulingBarrier

	// The same elements at other places.
	Transpose
	BroadcastInDim
	Reverse
	Slice
	Pad
	Concatenate
	DynamicSlice
	DynamicUpdateSlice
	Gather

	ScatterSum
	ScatterMax
	ScatterMin

	// Many elements become one: [Graph.Reduce].
	ReduceSum
	ReduceProduct
	ReduceMax
	ReduceMin
	ReduceAnd
	ReduceOr
	ReduceXor
	ArgMax
	ArgMin

	ReduceWindow
	SelectAndScatterMax
	SelectAndScatterMin

	DotGeneral
	ConvGeneral

	// Several results: [Graph.Attention], [Graph.AttentionBackward].
	Attention
	AttentionBackward

	RNGBitGenerator

	// Several operands, and a result for each: [Graph.AllReduce], [Graph.ReduceScatter],
	// [Graph.AllGather].
	AllReduce
	ReduceScatter
	AllGather

	opEnd
)

// Class is how an operation reaches its elements, which is what passes and executors
// go by.
type Class uint8

// The classes of operations.
const (
	Source      Class = iota + 1 // there are no operands
	Elementwise                  // an element comes of those at the same place
	View                         // the result is the operand's memory
	Movement                     // elements come from elsewhere
	Scatter
	Reduction
	Window
	Contraction
	Compound // others could make it, with more memory
	Random
	Collective // ranks do it together
)

// types says which elements an operation takes.
type types uint8

const (
	anyType types = iota
	numbers       // not bool
	signed        // numbers but unsigned integers
	floats
	ints
	bits // integers and bool
)

func (t types) has(d dtype.DType) bool {
	switch t {
	case numbers:
		return d.Valid() && d != dtype.Bool
	case signed:
		return isSigned(d)
	case floats:
		return d.IsFloat()
	case ints:
		return isInt(d)
	case bits:
		return isInt(d) || d == dtype.Bool
	}
	return d.Valid()
}

func (t types) String() string {
	return [...]string{"any type", "numbers", "signed numbers", "floating-point numbers", "integers", "integers or bool"}[t]
}

// description is what the graph, its printer, the passes and the executors share.
type description struct {
	name   string
	class  Class
	in     int // operands; -1: any number
	types  types
	result dtype.DType // the type of the result; 0: that of the operands
	work   float64     // relative to an addition, for each element of the result, or of the operand where that is reduced
}

var ops = [opEnd]description{
	Parameter: {name: "Parameter", class: Source},
	Constant:  {name: "Constant", class: Source},
	Iota:      {name: "Iota", class: Source, types: numbers, work: 1},

	Abs:          {"Abs", Elementwise, 1, numbers, 0, 1},
	Neg:          {"Neg", Elementwise, 1, signed, 0, 1},
	Sign:         {"Sign", Elementwise, 1, numbers, 0, 1},
	Sqrt:         {"Sqrt", Elementwise, 1, floats, 0, 4},
	Rsqrt:        {"Rsqrt", Elementwise, 1, floats, 0, 4},
	Exp:          {"Exp", Elementwise, 1, floats, 0, 10},
	Expm1:        {"Expm1", Elementwise, 1, floats, 0, 15},
	Log:          {"Log", Elementwise, 1, floats, 0, 10},
	Log1p:        {"Log1p", Elementwise, 1, floats, 0, 15},
	Logistic:     {"Logistic", Elementwise, 1, floats, 0, 12},
	Erf:          {"Erf", Elementwise, 1, floats, 0, 15},
	Sin:          {"Sin", Elementwise, 1, floats, 0, 15},
	Cos:          {"Cos", Elementwise, 1, floats, 0, 15},
	Tanh:         {"Tanh", Elementwise, 1, floats, 0, 12},
	Floor:        {"Floor", Elementwise, 1, floats, 0, 1},
	Ceil:         {"Ceil", Elementwise, 1, floats, 0, 1},
	Round:        {"Round", Elementwise, 1, floats, 0, 1},
	Not:          {"Not", Elementwise, 1, bits, 0, 1},
	BitCount:     {"BitCount", Elementwise, 1, ints, 0, 1},
	LeadingZeros: {"LeadingZeros", Elementwise, 1, ints, 0, 1},
	IsFinite:     {"IsFinite", Elementwise, 1, floats, dtype.Bool, 1},
	IsNaN:        {"IsNaN", Elementwise, 1, floats, dtype.Bool, 1},

	Add:                  {"Add", Elementwise, 2, numbers, 0, 1},
	Sub:                  {"Sub", Elementwise, 2, numbers, 0, 1},
	Mul:                  {"Mul", Elementwise, 2, numbers, 0, 1},
	Div:                  {"Div", Elementwise, 2, numbers, 0, 4},
	Rem:                  {"Rem", Elementwise, 2, numbers, 0, 10},
	Pow:                  {"Pow", Elementwise, 2, numbers, 0, 25},
	Atan2:                {"Atan2", Elementwise, 2, floats, 0, 20},
	Max:                  {"Max", Elementwise, 2, anyType, 0, 1},
	Min:                  {"Min", Elementwise, 2, anyType, 0, 1},
	And:                  {"And", Elementwise, 2, bits, 0, 1},
	Or:                   {"Or", Elementwise, 2, bits, 0, 1},
	Xor:                  {"Xor", Elementwise, 2, bits, 0, 1},
	ShiftLeft:            {"ShiftLeft", Elementwise, 2, ints, 0, 1},
	ShiftRightArithmetic: {"ShiftRightArithmetic", Elementwise, 2, ints, 0, 1},
	ShiftRightLogical:    {"ShiftRightLogical", Elementwise, 2, ints, 0, 1},

	Equal:                    {"Equal", Elementwise, 2, anyType, dtype.Bool, 1},
	NotEqual:                 {"NotEqual", Elementwise, 2, anyType, dtype.Bool, 1},
	Less:                     {"Less", Elementwise, 2, anyType, dtype.Bool, 1},
	LessOrEqual:              {"LessOrEqual", Elementwise, 2, anyType, dtype.Bool, 1},
	Greater:                  {"Greater", Elementwise, 2, anyType, dtype.Bool, 1},
	GreaterOrEqual:           {"GreaterOrEqual", Elementwise, 2, anyType, dtype.Bool, 1},
	EqualTotalOrder:          {"EqualTotalOrder", Elementwise, 2, anyType, dtype.Bool, 1},
	NotEqualTotalOrder:       {"NotEqualTotalOrder", Elementwise, 2, anyType, dtype.Bool, 1},
	LessTotalOrder:           {"LessTotalOrder", Elementwise, 2, anyType, dtype.Bool, 1},
	LessOrEqualTotalOrder:    {"LessOrEqualTotalOrder", Elementwise, 2, anyType, dtype.Bool, 1},
	GreaterTotalOrder:        {"GreaterTotalOrder", Elementwise, 2, anyType, dtype.Bool, 1},
	GreaterOrEqualTotalOrder: {"GreaterOrEqualTotalOrder", Elementwise, 2, anyType, dtype.Bool, 1},

	Where:   {name: "Where", class: Elementwise, in: 3, work: 1},
	Convert: {name: "Convert", class: Elementwise, in: 1, work: 1},

	Identity:            {name: "Identity", class: View, in: 1},
	Reshape:             {name: "Reshape", class: View, in: 1},
	Bitcast:             {name: "Bitcast", class: View, in: 1},
	OptimizationBarrier: {name: "OptimizationBarrier", class: View, in: -1},
	SchedulingBarrier:   {name: "SchedulingBarrier", class: View, in: -1},

	Transpose:          {name: "Transpose", class: Movement, in: 1, work: 1},
	BroadcastInDim:     {name: "BroadcastInDim", class: Movement, in: 1, work: 1},
	Reverse:            {name: "Reverse", class: Movement, in: 1, work: 1},
	Slice:              {name: "Slice", class: Movement, in: 1, work: 1},
	Pad:                {name: "Pad", class: Movement, in: 2, work: 1},
	Concatenate:        {name: "Concatenate", class: Movement, in: -1, work: 1},
	DynamicSlice:       {name: "DynamicSlice", class: Movement, in: -1, work: 1},
	DynamicUpdateSlice: {name: "DynamicUpdateSlice", class: Movement, in: -1, work: 1},
	Gather:             {name: "Gather", class: Movement, in: 2, work: 2},

	ScatterSum: {"ScatterSum", Scatter, 3, numbers, 0, 2},
	ScatterMax: {"ScatterMax", Scatter, 3, numbers, 0, 2},
	ScatterMin: {"ScatterMin", Scatter, 3, numbers, 0, 2},

	ReduceSum:     {"ReduceSum", Reduction, 1, numbers, 0, 1},
	ReduceProduct: {"ReduceProduct", Reduction, 1, numbers, 0, 1},
	ReduceMax:     {"ReduceMax", Reduction, 1, anyType, 0, 1},
	ReduceMin:     {"ReduceMin", Reduction, 1, anyType, 0, 1},
	ReduceAnd:     {"ReduceAnd", Reduction, 1, bits, 0, 1},
	ReduceOr:      {"ReduceOr", Reduction, 1, bits, 0, 1},
	ReduceXor:     {"ReduceXor", Reduction, 1, bits, 0, 1},
	ArgMax:        {"ArgMax", Reduction, 1, numbers, 0, 2},
	ArgMin:        {"ArgMin", Reduction, 1, numbers, 0, 2},

	ReduceWindow:        {"ReduceWindow", Window, 1, numbers, 0, 1},
	SelectAndScatterMax: {"SelectAndScatterMax", Window, 2, numbers, 0, 2},
	SelectAndScatterMin: {"SelectAndScatterMin", Window, 2, numbers, 0, 2},

	DotGeneral:  {"DotGeneral", Contraction, 2, numbers, 0, 1},
	ConvGeneral: {"ConvGeneral", Contraction, 2, numbers, 0, 1},

	Attention:         {"Attention", Compound, 3, floats, 0, 1},
	AttentionBackward: {"AttentionBackward", Compound, 6, floats, 0, 1},

	RNGBitGenerator: {name: "RNGBitGenerator", class: Random, in: 1, work: 5},

	AllReduce:     {name: "AllReduce", class: Collective, in: -1, types: numbers, work: 1},
	ReduceScatter: {name: "ReduceScatter", class: Collective, in: -1, types: numbers, work: 1},
	AllGather:     {name: "AllGather", class: Collective, in: -1, work: 1},
}

func (o Op) valid() bool { return o > 0 && o < opEnd }

// String returns the operation's name.
func (o Op) String() string {
	if !o.valid() {
		return fmt.Sprintf("op(%d)", uint8(o))
	}
	return ops[o].name
}

// Class returns how the operation reaches its elements.
func (o Op) Class() Class {
	if !o.valid() {
		return 0
	}
	return ops[o].class
}

// Comparison reports whether the operation compares two operands.
func (o Op) Comparison() bool { return o >= Equal && o <= GreaterOrEqualTotalOrder }

// Ops lists all operations.
func Ops() []Op {
	var all []Op
	for o := Op(1); o < opEnd; o++ {
		all = append(all, o)
	}
	return all
}
