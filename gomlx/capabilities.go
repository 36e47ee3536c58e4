package gomlx

import (
	"maps"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
)

// Capabilities implements [compute.Backend]. There are no loops and sorts, no axes of
// unknown length, and no complex numbers. Fused operations other than attention are left to
// GoMLX, which takes them apart; step fuses them again.
func (b *Backend) Capabilities() compute.Capabilities {
	c := compute.Capabilities{Operations: maps.Clone(operations), DTypes: make(map[dtypes.DType]bool), Functions: true}
	for t := range elementTypes {
		c.DTypes[t] = true
	}
	return c
}

var operations = func() map[compute.OpType]bool {
	m := make(map[compute.OpType]bool)
	for op := range unaryOps {
		m[op] = true
	}
	for op := range binaryOps {
		m[op] = true
	}
	for _, op := range []compute.OpType{
		compute.OpTypeParameter,
		compute.OpTypeConstant,
		compute.OpTypeIota,
		compute.OpTypeIdentity,
		compute.OpTypeCall,
		compute.OpTypeIf,
		compute.OpTypeWhere,
		compute.OpTypeClamp,
		compute.OpTypeConvertDType,
		compute.OpTypeBitcast,
		compute.OpTypeOptimizationBarrier,
		compute.OpTypeSchedulingBarrier,

		compute.OpTypeReshape,
		compute.OpTypeTranspose,
		compute.OpTypeBroadcastInDim,
		compute.OpTypeReverse,
		compute.OpTypeSlice,
		compute.OpTypePad,
		compute.OpTypeConcatenate,
		compute.OpTypeDynamicSlice,
		compute.OpTypeDynamicUpdateSlice,
		compute.OpTypeGather,
		compute.OpTypeScatterSum,
		compute.OpTypeScatterMax,
		compute.OpTypeScatterMin,
		compute.OpTypeRNGBitGenerator,

		compute.OpTypeReduceSum,
		compute.OpTypeReduceProduct,
		compute.OpTypeReduceMax,
		compute.OpTypeReduceMin,
		compute.OpTypeReduceBitwiseAnd,
		compute.OpTypeReduceBitwiseOr,
		compute.OpTypeReduceBitwiseXor,
		compute.OpTypeReduceLogicalAnd,
		compute.OpTypeReduceLogicalOr,
		compute.OpTypeReduceLogicalXor,
		compute.OpTypeArgMinMax,
		compute.OpTypeReduceWindow,
		compute.OpTypeSelectAndScatterMax,
		compute.OpTypeSelectAndScatterMin,

		compute.OpTypeDotGeneral,
		compute.OpTypeConvGeneral,
		compute.OpTypeFusedScaledDotProductAttention,
		compute.OpTypeFusedScaledDotProductAttentionVJP,
		compute.OpTypeBatchNormForTraining,
		compute.OpTypeBatchNormForInference,
		compute.OpTypeBatchNormGradient,
	} {
		m[op] = true
	}
	return m
}()
