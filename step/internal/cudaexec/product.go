package cudaexec

import (
	"slices"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/step"
)

// product is a DotGeneral by the library, if it takes it: float32 or bfloat16, and
// operands whose axes, put together, lie in memory as matrices do. Transpositions that
// the task has before it are strides.
func (e *executor) product(t *step.Task) (step.Kernel, bool) {
	if len(t.Outputs) != 1 || t.Outputs[0].Node().Op != step.DotGeneral || t.Outputs[0].Shape().Size() == 0 {
		return nil, false
	}
	v := t.Outputs[0]
	n := v.Node()
	a := n.Attr.(*step.DotAxes)
	in, out := n.Inputs[0].Shape().Type, v.Shape().Type
	if !(in == dtype.F32 && out == dtype.F32 || in == dtype.BF16 && (out == dtype.BF16 || out == dtype.F32)) {
		return nil, false
	}
	s := views{given: map[step.Value]bool{}}
	for _, x := range t.Inputs {
		s.given[x] = true
	}
	k := &gemms{blas: e.blas, workspace: e.blas.WorkspaceBytes(), out: int64(out.Size())}
	k.gemm = blas.Gemm{K: 1, Alpha: 1, Type: in, TypeC: out}
	var sides [2]matrix
	for i := range sides {
		f, order := s.factor(n.Inputs[i])
		k.input[i] = slices.Index(t.Inputs, s.base(f))
		if k.input[i] < 0 {
			return nil, false
		}
		m, ok := matrixOf(f.Shape().Dims, order, a.Batch[i], a.Contracted[i])
		if !ok {
			return nil, false
		}
		sides[i] = m
	}
	g := &k.gemm
	g.M, g.N, g.K = int64(sides[0].free), int64(sides[1].free), int64(sides[0].contracted)
	if g.K == 0 {
		return nil, false
	}
	g.TransA, g.A.Stride = sides[0].byContracted, int64(sides[0].stride)
	g.TransB, g.B.Stride = !sides[1].byContracted, int64(sides[1].stride)
	if g.CheckShapes() != nil {
		return nil, false
	}
	size := int64(in.Size())
	for i := range sides[0].batch {
		k.offsets = append(k.offsets, [3]int64{int64(sides[0].batch[i]) * size, int64(sides[1].batch[i]) * size, int64(i) * g.M * g.N * k.out})
	}
	return k, true
}

// matrix is an operand of a product.
type matrix struct {
	batch            []int // offsets of the matrices
	free, contracted int   // how many there are
	byContracted     bool  // a row has a contracted index, and a free one for each element
	stride           int   // from row to row
}

// matrixOf sees an operand as matrices, if it can be: axes of its own order are at order
// in memory, of dimensions dims.
func matrixOf(dims, order, batch, contracted []int) (matrix, bool) {
	strides := make([]int, len(dims))
	n := 1
	for i := len(dims) - 1; i >= 0; i-- {
		strides[i] = n
		n *= dims[i]
	}
	// join puts axes together to one, of a length and a stride.
	join := func(axes []int) (length, stride int, ok bool) {
		length, stride = 1, 0
		for _, axis := range slices.Backward(axes) {
			d, s := dims[order[axis]], strides[order[axis]]
			switch {
			case d == 1:
				continue
			case length == 1:
				stride = s
			case s != stride*length:
				return 0, 0, false
			}
			length *= d
		}
		return length, stride, true
	}
	var free []int
	for axis := range order {
		if !slices.Contains(batch, axis) && !slices.Contains(contracted, axis) {
			free = append(free, axis)
		}
	}
	var m matrix
	var f, c int
	var ok bool
	if m.free, f, ok = join(free); !ok {
		return m, false
	}
	if m.contracted, c, ok = join(contracted); !ok {
		return m, false
	}
	switch {
	case c == 1 || m.contracted == 1 && f != 1:
		m.stride = max(f, m.contracted)
	case f == 1 || m.free == 1:
		m.byContracted, m.stride = true, max(c, m.free)
	default:
		return m, false
	}
	m.batch = []int{0}
	for _, axis := range batch {
		var next []int
		for _, at := range m.batch {
			for i := range dims[order[axis]] {
				next = append(next, at+i*strides[order[axis]])
			}
		}
		m.batch = next
	}
	return m, len(m.batch) > 0
}

// gemms implements [step.Kernel] by the library.
type gemms struct {
	blas      blas.BLAS
	gemm      blas.Gemm
	input     [2]int
	offsets   [][3]int64 // bytes, for each matrix of the batch
	workspace int64      // bytes
	out       int64      // bytes of an element of the result
}

// workspaceAlign is that of [blas.Gemm]; kernels are given scratch memory at multiples of
// 64 bytes.
const workspaceAlign = 256

// Scratch implements [step.Kernel].
func (k *gemms) Scratch() int64 {
	if k.workspace == 0 {
		return 0
	}
	return k.workspace + workspaceAlign
}

// Launch implements [step.Kernel].
func (k *gemms) Launch(s device.Stream, inputs, outputs []device.Ptr, scratch device.Ptr) error {
	g := k.gemm
	if k.workspace > 0 {
		g.Workspace, g.WorkspaceBytes = (scratch+workspaceAlign-1)&^(workspaceAlign-1), k.workspace
	}
	for _, at := range k.offsets {
		g.A.Ptr, g.B.Ptr, g.C.Ptr = inputs[k.input[0]].Add(at[0]), inputs[k.input[1]].Add(at[1]), outputs[0].Add(at[2])
		if err := k.blas.Gemm(s, g); err != nil {
			return err
		}
	}
	return nil
}
