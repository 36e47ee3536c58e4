// Package cusparselt multiplies by 2:4 sparse matrices on a CUDA device with NVIDIA's
// library cuSPARSELt, which is loaded at run time, from PyTorch's wheels too.
// PINION_LIB_CUSPARSELT chooses another file, or "off".
//
// A factor B of K x N is 2:4 sparse if of four elements in a column, the first in a row
// of a multiple of four, at least two are zero. Tensor cores from compute capability 8.0
// on leave such zeros out. They want B compressed: half its elements, and where they
// were. So a weight that stays is compressed once, and multiplied many times:
//
//	l, err := cusparselt.Open(dev)
//	defer l.Close()
//	p, err := l.Plan(blas.Gemm{M: m, N: n, K: k, Alpha: 1, Type: dtype.BF16})
//	// p.CompressedBytes(), p.ScratchBytes() and p.WorkspaceBytes() of memory
//	err = p.Check(stream, weights, scratch)
//	err = p.Compress(stream, weights, compressed, scratch)
//	err = p.Gemm(stream, x, compressed, y, workspace)
//
// The products of what is left are those of the dense product, summed in float32 in an
// order of the library's. A matrix that is not 2:4 sparse gives wrong results, and no
// error: [Plan.Check] finds out.
package cusparselt
