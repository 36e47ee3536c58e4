// Package cuda is the backend on NVIDIA GPUs. It binds the CUDA driver API,
// loaded at run time, so a program that imports it builds without cgo and runs
// where there is no driver.
//
//	dev, err := cuda.Open(0)
//
// A device works in the GPU's primary context, which it shares with everything
// else in the process that uses the CUDA runtime (PyTorch, cuBLAS …). A
// context is current for an OS thread, not for a goroutine, so each call binds
// the goroutine to its thread and sets the context first; that costs about
// 0.1 µs.
//
// A copy from another GPU runs on a stream of the GPU that it writes to. A
// stream of the other one waits for it, so that whatever waits for that GPU,
// and above all freeing the source, waits for the copy too.
//
// NVML (internal/nvml), where it is installed, adds the PCIe link to [device.Info].
package cuda
