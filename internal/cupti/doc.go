// Package cupti binds the activity records of NVIDIA's CUPTI: what ran on the GPUs of
// this process, whoever queued it, with the times at which the GPU did it. The library
// is loaded at run time, without cgo; where PyTorch has loaded one, that is used.
//
//	t, err := cupti.Start(func(list []cupti.Work) { … })
//	…
//	err = t.Stop()
//
// # Buffers and threads
//
// CUPTI asks for buffers on the threads that queue work, and gives full ones back on
// threads of its own. Both calls arrive in Go. They only move a buffer between lists
// under a lock, and never call CUPTI; one goroutine reads the records. Buffers are
// outside the Go heap, and stay mapped for the next tracer: CUPTI may still hold one.
// When all are taken, CUPTI gets none and counts what it drops.
//
// # What is trusted
//
// The layout of a record depends on the version of CUPTI. The fields that are read here
// have the same offsets from CUDA 11.8's to CUDA 13's records; other versions are
// refused with [ErrVersion]. A record is read only where it lies in its buffer as a
// whole, and refused when it ends before it begins or has no time; [Tracer.Refused]
// counts those.
//
// # One at a time
//
// A process has one user of CUPTI at a time. Start takes the place of the subscriber,
// and so fails with [ErrBusy] while a profiler has it: PyTorch's, Nsight Systems.
package cupti
