// Package tuning has a library of products measure its routines before they are used.
package tuning

import (
	"github.com/pinion-gpu/pinion/blas"
	"github.com/pinion-gpu/pinion/device"
)

// Tuning has the library measure its routines for the products of kernels, on memory
// and a stream of its own: before they are launched, when nothing records them.
type Tuning struct {
	dev  device.Device
	blas blas.Tuner
	done map[blas.Gemm]bool // without addresses
}

// New returns the tuning of products on a device. It holds nothing there between calls.
func New(dev device.Device, t blas.Tuner) *Tuning {
	return &Tuning{dev, t, map[blas.Gemm]bool{}}
}

// Product has one measured, once, with that much scratch memory. Where that fails, for lack of memory, say, the library's
// first choice stays: it is as right as any other.
func (t *Tuning) Product(g blas.Gemm, workspace int64) {
	if t.done[g] {
		return
	}
	t.done[g] = true
	a, b, c := g.Shapes()
	// Factors are only read: they may be the same memory.
	factors, result := aligned(max(a.Bytes, b.Bytes)), aligned(c.Bytes)
	at, err := t.dev.Alloc(factors + result + max(workspace, 1))
	if err != nil {
		return
	}
	defer t.dev.Free(at)
	s, err := t.dev.NewStream()
	if err != nil {
		return
	}
	defer s.Close()
	g.A.Ptr, g.B.Ptr, g.C.Ptr = at, at, at.Add(factors)
	if workspace > 0 {
		g.Workspace, g.WorkspaceBytes = at.Add(factors+result), workspace
	}
	// Numbers, whatever the memory held.
	if s.Memset(at, 0x3c, factors) == nil {
		_ = t.blas.Tune(s, g) // it says why not, and nobody asks
	}
}

func aligned(n int64) int64 { return (n + blas.WorkspaceAlign - 1) &^ (blas.WorkspaceAlign - 1) }
