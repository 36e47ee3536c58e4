package cudaexec

import (
	"slices"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/step"
	"github.com/pinion-gpu/pinion/step/graph"
	"github.com/pinion-gpu/pinion/step/internal/access"
)

// product is a DotGeneral by the library, if it takes it: float32, bfloat16 or float16,
// and operands whose axes, put together, lie in memory as matrices do. Transpositions
// that the task has before it are strides.
func (e *executor) product(t *step.Task) (*gemms, bool) {
	if len(t.Outputs) != 1 || t.Outputs[0].Node().Op != graph.DotGeneral || t.Outputs[0].Shape().Size() == 0 {
		return nil, false
	}
	v := t.Outputs[0]
	n := v.Node()
	a := n.Attr.(*graph.DotAxes)
	in, out := n.Inputs[0].Shape().Type, v.Shape().Type
	s := access.Views{Given: map[graph.Value]bool{}}
	for _, x := range t.Inputs {
		s.Given[x] = true
	}
	k := &gemms{blas: e.blas, workspace: e.blas.WorkspaceBytes()}
	k.gemm = blas.Gemm{K: 1, Alpha: 1, Type: in, TypeC: out}
	var sides [2]matrix
	for i := range sides {
		f, order := s.Factor(n.Inputs[i])
		k.input[i] = slices.Index(t.Inputs, s.Base(f))
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
	rest := batches(&sides, g.M*g.N)
	if len(rest) > 0 {
		// One axis is the library's, the longest.
		longest := 0
		for i, x := range rest {
			if x.count > rest[longest].count {
				longest = i
			}
		}
		x := rest[longest]
		g.Batch, g.A.BatchStride, g.B.BatchStride, g.C.BatchStride = x.count, x.strides[0], x.strides[1], x.strides[2]
		rest = slices.Delete(rest, longest, longest+1)
	}
	if g.CheckShapes() != nil {
		return nil, false
	}
	sizes := [3]int64{int64(in.Size()), int64(in.Size()), int64(out.Size())}
	k.offsets = [][3]int64{{}}
	for _, x := range rest {
		var all [][3]int64
		for i := range x.count {
			for _, at := range k.offsets {
				for j := range at {
					at[j] += i * x.strides[j] * sizes[j]
				}
				all = append(all, at)
			}
		}
		k.offsets = all
	}
	return k, true
}

// axis is a batch axis of a product: how many there are, and how many elements of the
// operands and the result lie from one to the next.
type axis struct {
	count   int64
	strides [3]int64
}

// batches are the batch axes of a product, the innermost first, whose results of that
// many elements lie one behind the other. What can be one axis is: two of an operand
// that was transposed cannot.
func batches(sides *[2]matrix, elements int64) []axis {
	var list []axis
	for i := len(sides[0].batch) - 1; i >= 0; i-- {
		x, y := sides[0].batch[i], sides[1].batch[i]
		next := axis{int64(x.count), [3]int64{int64(x.stride), int64(y.stride), elements}}
		elements *= next.count
		if next.count == 1 {
			continue
		}
		if n := len(list); n > 0 {
			last := &list[n-1]
			if next.strides == [3]int64{last.count * last.strides[0], last.count * last.strides[1], last.count * last.strides[2]} {
				last.count *= next.count
				continue
			}
		}
		list = append(list, next)
	}
	return list
}

// matrix is an operand of a product.
type matrix struct {
	batch            []struct{ count, stride int } // its axes
	free, contracted int                           // how many there are
	byContracted     bool                          // a row has a contracted index, and a free one for each element
	stride           int                           // from row to row
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
	for _, axis := range batch {
		m.batch = append(m.batch, struct{ count, stride int }{dims[order[axis]], strides[order[axis]]})
	}
	return m, true
}

// gemms implements [step.Kernel] by the library.
type gemms struct {
	blas      blas.BLAS
	gemm      blas.Gemm
	input     [2]int
	offsets   [][3]int64 // bytes, for each batch
	workspace int64      // bytes
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
