package blas

import "github.com/pinion-gpu/pinion/device"

// Sparser is a BLAS that can leave out the zeros of 2:4 sparse factors.
type Sparser interface {
	BLAS

	// Sparse finds out how to compute products like g, whose B is 2:4 sparse: of four
	// elements of op(B) in a column, the first in a row of a multiple of four, two or more
	// are zero. Addresses and workspace of g are not looked at. It fails with
	// [device.ErrNotSupported] where there is no library for it, or it does not do it. What
	// it returns is gone when the BLAS is closed.
	Sparse(g Gemm) (SparseGemm, error)
}

// SparseGemm is a product with a B that is 2:4 sparse, and has to be compressed: a weight
// that stays is, once. Matrices are at multiples of 16, other memory is at multiples of 256.
// Its methods are safe for concurrent use.
type SparseGemm interface {
	// CompressedBytes is how large B is when it is compressed, ScratchBytes how much
	// memory Compress and Check need while they run, and WorkspaceBytes what Gemm needs.
	CompressedBytes() int64
	ScratchBytes() int64
	WorkspaceBytes() int64

	// Check finds out whether B is 2:4 sparse, and fails with [device.ErrArgument] if it is
	// not. It waits for the stream.
	Check(s device.Stream, b, scratch device.Ptr) error

	// Compress queues the compression of a B, for all products with matrices like it. What
	// becomes of one that is not 2:4 sparse is not said.
	Compress(s device.Stream, b, compressed, scratch device.Ptr) error

	// Gemm queues a product, as [BLAS.Gemm] does. C overlaps nothing else.
	Gemm(s device.Stream, a, compressed, c, workspace device.Ptr) error
}
