// Package cudaexec runs steps on a CUDA device: a [step.Executor] whose kernels are
// written in CUDA C++ for the shapes of a task, compiled by NVRTC while the program
// runs, and kept on disk. Products are cuBLASLt's, and convolutions cuDNN's where it is
// installed; attention can be, see [AttentionVariable].
package cudaexec
