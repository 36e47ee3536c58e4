// Package cublaslt multiplies matrices on a CUDA device with NVIDIA's library
// cuBLASLt, which is loaded at run time. PINION_LIB_CUBLASLT chooses another
// file, or "off".
//
// The library is asked once for each shape which of its routines is best, and
// the answer is kept. What it is told of addresses is their alignment, up to 64
// bytes: memory that is aligned to that gives the same routine, and the same bits,
// wherever it lies. Partial sums are never rounded to the type of the result, nor
// added up in the order in which they come.
//
// The library's matrices lie by columns; a row-major one is the transpose of that,
// so C' = op(B)' op(A)' is what it computes.
package cublaslt
