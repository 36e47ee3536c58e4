// Package blas multiplies matrices that lie in device memory, with the library
// that suits the device: cuBLASLt on CUDA ([cublaslt]), OpenBLAS or a routine
// in Go on the host backend ([host]). Package auto opens whichever works:
//
//	b, err := auto.Open(dev)
//	defer b.Close()
//	err = b.Gemm(stream, blas.Gemm{M: m, N: n, K: k, Alpha: 1,
//		A: blas.Matrix{Ptr: a}, B: blas.Matrix{Ptr: w}, C: blas.Matrix{Ptr: out},
//		Type: dtype.BF16})
//
// Matrices are row-major, as in Go, NumPy and PyTorch. The call checks its
// arguments, queues the work on the stream and returns before it has run.
//
// Many products of one shape are one call ([Gemm.Batch]). The heads of an array
// [length, heads, each], say, need not be put in order first:
//
//	q := blas.Matrix{Ptr: at, Stride: heads * each, BatchStride: each}
//
// A residual ([Gemm.Addend]), a bias and an activation are applied before a result is
// rounded and stored.
//
// Every implementation passes the suite in package blastest. Package cusparselt, beside
// them, multiplies by matrices that are 2:4 sparse.
//
// [cublaslt]: https://pkg.go.dev/github.com/pinion-gpu/pinion/blas/cublaslt
// [host]: https://pkg.go.dev/github.com/pinion-gpu/pinion/blas/host
package blas
