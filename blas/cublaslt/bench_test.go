package cublaslt

import (
	"errors"
	"testing"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// BenchmarkGemm is what a call costs the processor: the product itself is of one
// element.
func BenchmarkGemm(b *testing.B) {
	dev := open(b)
	m, err := Open(dev)
	testkit.OK(b, err)
	s, err := dev.NewStream()
	testkit.OK(b, err)
	at, err := dev.Alloc(m.WorkspaceBytes() + 3<<10)
	testkit.OK(b, err)
	g := blas.Gemm{M: 1, N: 1, K: 1, Alpha: 1, Type: dtype.BF16, A: blas.Matrix{Ptr: at}, B: blas.Matrix{Ptr: at.Add(1 << 10)},
		C: blas.Matrix{Ptr: at.Add(2 << 10)}, Workspace: at.Add(3 << 10), WorkspaceBytes: m.WorkspaceBytes()}
	b.ReportAllocs()
	for b.Loop() {
		testkit.OK(b, m.Gemm(s, g))
	}
	testkit.OK(b, s.Synchronize())
	testkit.OK(b, errors.Join(s.Close(), m.Close(), dev.Free(at)))
}
