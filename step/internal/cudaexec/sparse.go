package cudaexec

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/device"
)

// sparseRows is how many rows a product has before its zeros are left out. A factor is
// compressed at each launch, which takes as long for few rows as for many; with few, the
// product takes no longer than reading the factor does, and nothing can be won.
const sparseRows = 1024

// sparse is how the library computes a product whose second factor is 2:4 sparse; nil where
// the dense product is as good, or there is no other. Why there is none is among
// [executor.Notes].
func (e *executor) sparse(g *blas.Gemm) blas.SparseGemm {
	s, ok := e.blas.(blas.Sparser)
	if !ok || g.M < sparseRows {
		return nil
	}
	p, err := s.Sparse(*g)
	if err == nil {
		return p
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if text := fmt.Sprintf("%v; the dense product does it", err); errors.Is(err, device.ErrNotSupported) && !slices.Contains(e.notes, text) {
		e.notes = append(e.notes, text)
	}
	return nil
}

// sparseScratch is the memory of a launch: the compressed factor, then what compressing
// it needs, and after that the product.
func sparseScratch(p blas.SparseGemm) int64 {
	return workspaceAlign + aligned(p.CompressedBytes()) + max(p.ScratchBytes(), p.WorkspaceBytes())
}

func launchSparse(p blas.SparseGemm, s device.Stream, a, b, c, scratch device.Ptr) error {
	compressed := (scratch + workspaceAlign - 1) &^ (workspaceAlign - 1)
	rest := compressed.Add(aligned(p.CompressedBytes()))
	if err := p.Compress(s, b, compressed, rest); err != nil {
		return err
	}
	return p.Gemm(s, a, compressed, c, rest)
}
