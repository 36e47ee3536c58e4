// Package cudnn computes convolutions, attention and their gradients on a CUDA device with
// NVIDIA's library cuDNN, version 9, which is loaded at run time: from where the system
// finds it, or else from PyTorch's wheel. PINION_LIB_CUDNN chooses another file, or "off".
//
// It uses the library's graph interface (cudnnBackend…): graphs of one operation for
// convolutions, and of the many that make up an attention. The library proposes engines
// for a graph, and the first one is taken that always gives the same bits, needs no more
// memory than [MostWorkspace], and, for a convolution, adds up in float32 and does not
// round float32 operands to fewer bits. What it proposes depends on nothing but the graph,
// the device and the library's version, so that every run of a program has the same
// engine.
package cudnn
