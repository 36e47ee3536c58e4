// Package nvml asks NVIDIA's management library about GPUs: their PCIe link,
// what holds their clocks back, and which processes use them. None of it needs
// a CUDA context, and none of it changes anything.
//
//	gpus, err := nvml.Devices()          // an error where there is no NVML
//	for _, g := range gpus {
//		m, err := g.Memory()             // an error that is nvml.ErrNotSupported is common
//		…
//	}
//
// NVML has an order of its own, that of the PCI bus. A CUDA device is found by
// its bus address: [ByBusID] of device.Info.PCIBusID.
//
// Every call may fail with [ErrNotSupported]: each kind of GPU, virtual machine
// and container leaves other things out, and old drivers lack functions. A GPU
// that has fallen off the bus fails with [ErrLost]. NVML takes a lock of the
// driver's, so a wedged driver may hold a call for ever; who cannot have that
// calls from a process of its own.
package nvml
