package gomlx

import (
	"fmt"
	"reflect"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/pinion-gpu/pinion/dtype"
)

// elementTypes are the types of elements that both sides have.
var elementTypes = map[dtypes.DType]dtype.DType{
	dtypes.Bool:     dtype.Bool,
	dtypes.Int8:     dtype.I8,
	dtypes.Int16:    dtype.I16,
	dtypes.Int32:    dtype.I32,
	dtypes.Int64:    dtype.I64,
	dtypes.Uint8:    dtype.U8,
	dtypes.Uint16:   dtype.U16,
	dtypes.Uint32:   dtype.U32,
	dtypes.Uint64:   dtype.U64,
	dtypes.Float16:  dtype.F16,
	dtypes.BFloat16: dtype.BF16,
	dtypes.Float32:  dtype.F32,
	dtypes.Float64:  dtype.F64,
}

var computeTypes = func() map[dtype.DType]dtypes.DType {
	m := make(map[dtype.DType]dtypes.DType)
	for c, t := range elementTypes {
		m[t] = c
	}
	return m
}()

func toType(t dtypes.DType) (dtype.DType, error) {
	if d, ok := elementTypes[t]; ok {
		return d, nil
	}
	return 0, fmt.Errorf("%w: there are no elements of type %v", ErrArgument, t)
}

// toShape fails for types that step has not, and for axes whose length is not known.
func toShape(s shapes.Shape) (graph.Shape, error) {
	t, err := toType(s.DType)
	if err != nil {
		return graph.Shape{}, err
	}
	if s.IsDynamic() {
		return graph.Shape{}, fmt.Errorf("%w: %v has an axis of unknown length", ErrArgument, s)
	}
	return graph.MakeShape(t, s.Dimensions...), nil
}

func fromShape(s graph.Shape) shapes.Shape { return shapes.Make(computeTypes[s.Type], s.Dims...) }

// flatType returns the type and the number of the elements of a slice. An int counts as
// the integer that is as large.
func flatType(flat any) (dtypes.DType, int, error) {
	v := reflect.ValueOf(flat)
	if v.Kind() != reflect.Slice {
		return 0, 0, fmt.Errorf("%w: %T is no slice of elements", ErrArgument, flat)
	}
	t := dtypes.FromGoType(v.Type().Elem())
	if _, err := toType(t); err != nil {
		return 0, 0, fmt.Errorf("%w: %T is no slice of elements of a type that there is", ErrArgument, flat)
	}
	return t, v.Len(), nil
}
