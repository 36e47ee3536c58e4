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
	var sides [2]access.Matrix
	for i := range sides {
		f, order := s.Factor(n.Inputs[i])
		k.input[i] = slices.Index(t.Inputs, s.Base(f))
		if k.input[i] < 0 {
			return nil, false
		}
		m, ok := access.MatrixOf(f.Shape().Dims, order, a.Batch[i], a.Contracted[i])
		if !ok {
			return nil, false
		}
		sides[i] = m
	}
	g := &k.gemm
	g.M, g.N, g.K = int64(sides[0].Free), int64(sides[1].Free), int64(sides[0].Contracted)
	if g.K == 0 {
		return nil, false
	}
	g.TransA, g.A.Stride = sides[0].ByContracted, int64(sides[0].Stride)
	g.TransB, g.B.Stride = !sides[1].ByContracted, int64(sides[1].Stride)
	rest := access.Batches(&sides, g.M*g.N)
	if len(rest) > 0 {
		// One axis is the library's, the longest.
		longest := 0
		for i, x := range rest {
			if x.Count > rest[longest].Count {
				longest = i
			}
		}
		x := rest[longest]
		g.Batch, g.A.BatchStride, g.B.BatchStride, g.C.BatchStride = x.Count, x.Strides[0], x.Strides[1], x.Strides[2]
		rest = slices.Delete(rest, longest, longest+1)
	}
	if g.CheckShapes() != nil {
		return nil, false
	}
	sizes := [3]int64{int64(in.Size()), int64(in.Size()), int64(out.Size())}
	k.offsets = [][3]int64{{}}
	for _, x := range rest {
		var all [][3]int64
		for i := range x.Count {
			for _, at := range k.offsets {
				for j := range at {
					at[j] += i * x.Strides[j] * sizes[j]
				}
				all = append(all, at)
			}
		}
		k.offsets = all
	}
	return k, true
}

// gemms implements [step.Kernel] by the library.
type gemms struct {
	blas      blas.BLAS
	gemm      blas.Gemm
	input     [2]int
	offsets   [][3]int64 // bytes, for each batch
	workspace int64      // bytes
}

// workspaceAlign is what scratch memory is aligned to here; kernels are given it at
// multiples of 64 bytes.
const workspaceAlign = blas.WorkspaceAlign

func aligned(n int64) int64 { return (n + workspaceAlign - 1) &^ (workspaceAlign - 1) }

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
