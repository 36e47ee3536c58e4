// Package cublaslt multiplies matrices on a CUDA device with NVIDIA's library
// cuBLASLt, which is loaded at run time. PINION_LIB_CUBLASLT chooses another
// file, or "off".
//
// The library is asked once for each shape which of its routines is best, and
// the answer is kept. Its matrices lie by columns; a row-major one is the
// transpose of that, so C' = op(B)' op(A)' is what it computes.
package cublaslt
