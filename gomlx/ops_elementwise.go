package gomlx

import (
	"fmt"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pkg/errors"
)

// unaryOps are operations of one operand, by the names that both sides give them.
var unaryOps = map[compute.OpType]graph.Op{
	compute.OpTypeAbs:        graph.Abs,
	compute.OpTypeNeg:        graph.Neg,
	compute.OpTypeSign:       graph.Sign,
	compute.OpTypeSqrt:       graph.Sqrt,
	compute.OpTypeRsqrt:      graph.Rsqrt,
	compute.OpTypeExp:        graph.Exp,
	compute.OpTypeExpm1:      graph.Expm1,
	compute.OpTypeLog:        graph.Log,
	compute.OpTypeLog1p:      graph.Log1p,
	compute.OpTypeLogistic:   graph.Logistic,
	compute.OpTypeErf:        graph.Erf,
	compute.OpTypeSin:        graph.Sin,
	compute.OpTypeCos:        graph.Cos,
	compute.OpTypeTanh:       graph.Tanh,
	compute.OpTypeFloor:      graph.Floor,
	compute.OpTypeCeil:       graph.Ceil,
	compute.OpTypeRound:      graph.Round,
	compute.OpTypeLogicalNot: graph.Not,
	compute.OpTypeBitwiseNot: graph.Not,
	compute.OpTypeBitCount:   graph.BitCount,
	compute.OpTypeClz:        graph.LeadingZeros,
	compute.OpTypeIsFinite:   graph.IsFinite,
	compute.OpTypeIsNaN:      graph.IsNaN,
}

// binaryOps are operations of two operands.
var binaryOps = map[compute.OpType]graph.Op{
	compute.OpTypeAdd:                  graph.Add,
	compute.OpTypeSub:                  graph.Sub,
	compute.OpTypeMul:                  graph.Mul,
	compute.OpTypeDiv:                  graph.Div,
	compute.OpTypeRem:                  graph.Rem,
	compute.OpTypePow:                  graph.Pow,
	compute.OpTypeAtan2:                graph.Atan2,
	compute.OpTypeMax:                  graph.Max,
	compute.OpTypeMin:                  graph.Min,
	compute.OpTypeLogicalAnd:           graph.And,
	compute.OpTypeLogicalOr:            graph.Or,
	compute.OpTypeLogicalXor:           graph.Xor,
	compute.OpTypeBitwiseAnd:           graph.And,
	compute.OpTypeBitwiseOr:            graph.Or,
	compute.OpTypeBitwiseXor:           graph.Xor,
	compute.OpTypeShiftLeft:            graph.ShiftLeft,
	compute.OpTypeShiftRightArithmetic: graph.ShiftRightArithmetic,
	compute.OpTypeShiftRightLogical:    graph.ShiftRightLogical,

	compute.OpTypeEqual:                    graph.Equal,
	compute.OpTypeNotEqual:                 graph.NotEqual,
	compute.OpTypeLessThan:                 graph.Less,
	compute.OpTypeLessOrEqual:              graph.LessOrEqual,
	compute.OpTypeGreaterThan:              graph.Greater,
	compute.OpTypeGreaterOrEqual:           graph.GreaterOrEqual,
	compute.OpTypeEqualTotalOrder:          graph.EqualTotalOrder,
	compute.OpTypeNotEqualTotalOrder:       graph.NotEqualTotalOrder,
	compute.OpTypeLessThanTotalOrder:       graph.LessTotalOrder,
	compute.OpTypeLessOrEqualTotalOrder:    graph.LessOrEqualTotalOrder,
	compute.OpTypeGreaterThanTotalOrder:    graph.GreaterTotalOrder,
	compute.OpTypeGreaterOrEqualTotalOrder: graph.GreaterOrEqualTotalOrder,
}

// bools and ints are operations that step has for bits of both, and GoMLX apart.
var (
	bools = map[compute.OpType]bool{
		compute.OpTypeLogicalAnd: true, compute.OpTypeLogicalOr: true, compute.OpTypeLogicalXor: true, compute.OpTypeLogicalNot: true,
		compute.OpTypeReduceLogicalAnd: true, compute.OpTypeReduceLogicalOr: true, compute.OpTypeReduceLogicalXor: true,
	}
	ints = map[compute.OpType]bool{
		compute.OpTypeBitwiseAnd: true, compute.OpTypeBitwiseOr: true, compute.OpTypeBitwiseXor: true, compute.OpTypeBitwiseNot: true,
		compute.OpTypeReduceBitwiseAnd: true, compute.OpTypeReduceBitwiseOr: true, compute.OpTypeReduceBitwiseXor: true,
	}
)

func bitsOf(op compute.OpType, x graph.Value) error {
	isBool := x.Shape().Type == dtype.Bool
	if bools[op] && !isBool || ints[op] && isBool {
		return errors.WithStack(fmt.Errorf("%s: %w: there is no %v of %v", Name, ErrArgument, op, x.Shape()))
	}
	return nil
}

func (f *function) unary(op compute.OpType, x compute.Value) (compute.Value, error) {
	in, err := f.operands(x)
	if err != nil {
		return nil, err
	}
	if err := bitsOf(op, in[0]); err != nil {
		return nil, err
	}
	return f.value(f.graph.Unary(unaryOps[op], in[0]))
}

func (f *function) binary(op compute.OpType, x, y compute.Value) (compute.Value, error) {
	in, err := f.operands(x, y)
	if err != nil {
		return nil, err
	}
	if err := bitsOf(op, in[0]); err != nil {
		return nil, err
	}
	return f.value(f.graph.Binary(binaryOps[op], in[0], in[1]))
}

// The methods below implement [compute.StandardOps].

func (f *function) Abs(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeAbs, x) }
func (f *function) Neg(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeNeg, x) }
func (f *function) Sign(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeSign, x)
}
func (f *function) Sqrt(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeSqrt, x)
}
func (f *function) Rsqrt(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeRsqrt, x)
}
func (f *function) Exp(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeExp, x) }
func (f *function) Expm1(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeExpm1, x)
}
func (f *function) Log(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeLog, x) }
func (f *function) Log1p(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLog1p, x)
}
func (f *function) Logistic(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLogistic, x)
}
func (f *function) Erf(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeErf, x) }
func (f *function) Sin(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeSin, x) }
func (f *function) Cos(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeCos, x) }
func (f *function) Tanh(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeTanh, x)
}
func (f *function) Floor(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeFloor, x)
}
func (f *function) Ceil(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeCeil, x)
}
func (f *function) Round(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeRound, x)
}
func (f *function) LogicalNot(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLogicalNot, x)
}
func (f *function) BitwiseNot(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeBitwiseNot, x)
}
func (f *function) BitCount(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeBitCount, x)
}
func (f *function) Clz(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeClz, x) }
func (f *function) IsFinite(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeIsFinite, x)
}
func (f *function) IsNaN(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeIsNaN, x)
}

func (f *function) Add(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeAdd, x, y)
}
func (f *function) Sub(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeSub, x, y)
}
func (f *function) Mul(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMul, x, y)
}
func (f *function) Div(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeDiv, x, y)
}
func (f *function) Rem(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeRem, x, y)
}
func (f *function) Pow(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypePow, x, y)
}
func (f *function) Atan2(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeAtan2, x, y)
}
func (f *function) Max(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMax, x, y)
}
func (f *function) Min(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMin, x, y)
}
func (f *function) LogicalAnd(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalAnd, x, y)
}
func (f *function) LogicalOr(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalOr, x, y)
}
func (f *function) LogicalXor(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalXor, x, y)
}
func (f *function) BitwiseAnd(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseAnd, x, y)
}
func (f *function) BitwiseOr(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseOr, x, y)
}
func (f *function) BitwiseXor(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseXor, x, y)
}
func (f *function) ShiftLeft(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftLeft, x, y)
}
func (f *function) ShiftRightArithmetic(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftRightArithmetic, x, y)
}
func (f *function) ShiftRightLogical(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftRightLogical, x, y)
}
func (f *function) Equal(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeEqual, x, y)
}
func (f *function) NotEqual(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeNotEqual, x, y)
}
func (f *function) LessThan(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLessThan, x, y)
}
func (f *function) LessOrEqual(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLessOrEqual, x, y)
}
func (f *function) GreaterThan(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeGreaterThan, x, y)
}
func (f *function) GreaterOrEqual(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeGreaterOrEqual, x, y)
}
func (f *function) EqualTotalOrder(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeEqualTotalOrder, x, y)
}
func (f *function) NotEqualTotalOrder(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeNotEqualTotalOrder, x, y)
}
func (f *function) LessThanTotalOrder(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLessThanTotalOrder, x, y)
}
func (f *function) LessOrEqualTotalOrder(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLessOrEqualTotalOrder, x, y)
}
func (f *function) GreaterThanTotalOrder(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeGreaterThanTotalOrder, x, y)
}
func (f *function) GreaterOrEqualTotalOrder(x, y compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeGreaterOrEqualTotalOrder, x, y)
}

func (f *function) Where(condition, onTrue, onFalse compute.Value) (compute.Value, error) {
	in, err := f.operands(condition, onTrue, onFalse)
	if err != nil {
		return nil, err
	}
	return f.value(f.graph.Where(in[0], in[1], in[2]))
}

func (f *function) Clamp(low, x, high compute.Value) (compute.Value, error) {
	in, err := f.operands(low, x, high)
	if err != nil {
		return nil, err
	}
	return f.value(f.graph.Clamp(in[0], in[1], in[2]))
}

func (f *function) ConvertDType(x compute.Value, t dtypes.DType) (compute.Value, error) {
	in, to, err := f.withType(x, t)
	if err != nil {
		return nil, err
	}
	return f.value(f.graph.Convert(in, to))
}

func (f *function) Bitcast(x compute.Value, t dtypes.DType) (compute.Value, error) {
	in, to, err := f.withType(x, t)
	if err != nil {
		return nil, err
	}
	return f.value(f.graph.Bitcast(in, to))
}

func (f *function) withType(x compute.Value, t dtypes.DType) (graph.Value, dtype.DType, error) {
	in, err := f.operands(x)
	if err != nil {
		return graph.Value{}, 0, err
	}
	to, err := toType(t)
	if err != nil {
		return graph.Value{}, 0, errors.WithStack(err)
	}
	return in[0], to, nil
}

func (f *function) Identity(x compute.Value) (compute.Value, error) {
	in, err := f.operands(x)
	if err != nil {
		return nil, err
	}
	return f.value(f.graph.Identity(in[0]))
}

func (f *function) OptimizationBarrier(xs ...compute.Value) ([]compute.Value, error) {
	in, err := f.operands(xs...)
	if err != nil {
		return nil, err
	}
	out, err := f.graph.OptimizationBarrier(in...)
	if err != nil {
		return nil, errors.WithStack(err)
	}
	return values(out), nil
}

func (f *function) SchedulingBarrier(x compute.Value, after ...compute.Value) (compute.Value, error) {
	in, err := f.operands(append([]compute.Value{x}, after...)...)
	if err != nil {
		return nil, err
	}
	return f.value(f.graph.SchedulingBarrier(in[0], in[1:]...))
}
