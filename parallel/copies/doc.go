// Package copies has large sums of ranks done by copy engines, on GPUs of one host that reach
// each other's memory:
//
//	comm, err = nccl.Open(…)
//	if c, err := copies.Open(comm); err == nil {
//		comm = c
//	} else if !errors.Is(err, device.ErrNotSupported) {
//		return err
//	}
//
// A kernel that sums up takes multiprocessors from what computes beside it, and keeps them while
// it waits for a slower rank. Copies take none. So each rank adds up a share of the values: the
// others copy theirs of that share into its memory; it adds them in the order of ranks, which is
// all that a kernel does; and they copy the result. Words in memory say when: a stream waits for a
// word that another rank's copy engine sets ([device.Sharer]).
//
// AllReduce and ReduceScatter of [parallel.Sum] and [parallel.Avg], of f16, bf16, f32 and f64, and
// AllGather go so from 1 MiB on, all ranks together. Everything else is done by the communicator
// below, and so are groups that are split off. Each rank keeps 32 MiB for it, and as much again
// divided by the ranks. Sums of 16-bit types are rounded once. All ranks get the same bits, which
// do not depend on the rank that adds.
//
// GPUs of one process that reach each other's memory wait for one another when either frees some,
// also for what waits for a rank. So ranks with GPUs are processes here.
//
// By itself, a sum that goes by copies may take longer than one of NCCL: use these where ranks
// compute meanwhile.
//
// # Order
//
// Operations run in the order of the calls, whatever streams they name; but one of the
// communicator below does not have copies that follow it on another stream wait. Those that are
// captured in graphs are in the order in which the graphs run: do not let two graphs of one
// communicator, or a graph and a call, run beside each other.
//
// # Abort
//
// Abort sets the words that streams wait for, again and again until Close, so that all that was
// queued ends, and graphs that are launched later. What they write is undefined. The memory that
// others copy to stays until the device is closed, since they may still do it.
package copies
