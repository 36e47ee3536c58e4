package cudnn

// network makes a graph of many operations.
type network struct {
	*builder
	values     int64 // made so far
	operations []descriptor
}

// firstValue is the unique number of the first tensor that is only between operations.
const firstValue = 1000

// value makes a tensor that is never in memory.
func (n *network) value(kind int32, dims, strides []int64) descriptor {
	n.values++
	return n.tensor(tensor{id: firstValue + n.values, kind: kind, dims: dims, strides: strides, virtual: true})
}

// number makes a tensor of one float32 in the host's memory.
func (n *network) number(id int64) descriptor {
	one := []int64{1, 1, 1, 1}
	return n.tensor(tensor{id: id, kind: dataFloat, dims: one, strides: one, byValue: true})
}

// add adds an operation that has all its attributes.
func (n *network) add(op descriptor, kind uintptr) {
	n.operations = append(n.operations, n.finalize(op, kind))
}

// pointwise is an operation on each element.
type pointwise struct {
	mode      int32
	precision int32 // that it is computed in. 0: dataFloat
	axis      int64 // of pointwiseGenIndex
	x, b, t   descriptor
	y         descriptor
}

func (n *network) pointwise(p pointwise) {
	desc := n.create(pointwiseDesc)
	n.setEnum(desc, pointwiseMode, typePointwiseMode, p.mode)
	n.setEnum(desc, pointwisePrecision, typeDataType, p.precision)
	if p.mode == pointwiseGenIndex {
		n.setInts(desc, pointwiseAxis, p.axis)
	}
	n.finalize(desc, pointwiseDesc)
	op := n.create(pointwiseOpDesc)
	n.setDescriptors(op, pointwiseOpDescriptor, desc)
	n.setDescriptors(op, pointwiseOpX, p.x)
	n.setDescriptors(op, pointwiseOpY, p.y)
	if p.b != 0 {
		n.setDescriptors(op, pointwiseOpB, p.b)
	}
	if p.t != 0 {
		n.setDescriptors(op, pointwiseOpT, p.t)
	}
	n.setFloat(op, pointwiseOpAlpha1, 1)
	n.setFloat(op, pointwiseOpAlpha2, 1)
	n.add(op, pointwiseOpDesc)
}

// reduce reduces x along the axes that are 1 in y.
func (n *network) reduce(operator int32, x, y descriptor) {
	desc := n.create(reductionDesc)
	n.setEnum(desc, reductionComputeType, typeDataType, dataFloat)
	n.setEnum(desc, reductionOperator, typeReductionOperator, operator)
	n.finalize(desc, reductionDesc)
	op := n.create(reductionOpDesc)
	n.setDescriptors(op, reductionOpDescriptor, desc)
	n.setDescriptors(op, reductionOpX, x)
	n.setDescriptors(op, reductionOpY, y)
	n.add(op, reductionOpDesc)
}

// multiply sets c to the products of the matrices a and b, added up in float32.
func (n *network) multiply(a, b, c descriptor) {
	desc := n.create(matmulDesc)
	n.setEnum(desc, matmulComputeType, typeDataType, dataFloat)
	n.finalize(desc, matmulDesc)
	op := n.create(matmulOpDesc)
	n.setDescriptors(op, matmulOpA, a)
	n.setDescriptors(op, matmulOpB, b)
	n.setDescriptors(op, matmulOpC, c)
	n.setDescriptors(op, matmulOpDescriptor, desc)
	n.add(op, matmulOpDesc)
}

// view has y be x by y's dimensions and strides.
func (n *network) view(x, y descriptor) {
	op := n.create(reshapeOpDesc)
	n.setDescriptors(op, reshapeOpX, x)
	n.setDescriptors(op, reshapeOpY, y)
	n.add(op, reshapeOpDesc)
}
