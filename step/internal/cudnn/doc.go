// Package cudnn computes convolutions and their gradients on a CUDA device with NVIDIA's
// library cuDNN, version 9, which is loaded at run time: from where the system finds it,
// or else from PyTorch's wheel. PINION_LIB_CUDNN chooses another file, or "off".
//
// It uses the library's graph interface (cudnnBackend…), of graphs with one operation.
// The library proposes engines for an operation, and the first one is taken that always
// gives the same bits, adds up in float32, does not round float32 operands to fewer bits,
// and needs no more memory than [MostWorkspace]. What it proposes depends on nothing but
// the operation, the device and the library's version, so that every run of a program has
// the same engine.
package cudnn
